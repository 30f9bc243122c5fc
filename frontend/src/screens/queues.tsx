/** Queues: which there are, what each may do at once, and the pause. */

import type { JSX } from "preact";

import { api, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Queue } from "../api/queues.ts";
import { useOver } from "../lib/over.ts";
import { to, toWith } from "../lib/route.ts";
import { Button, State } from "../ui/basic.tsx";
import { attempt } from "../ui/dialog.tsx";
import { List } from "../ui/list.tsx";
import type { Column } from "../ui/table.tsx";
import { NewQueue } from "./queue-settings.tsx";

/** Pause or resume; the word of it offers the way back. */
export function flip(queue: Queue): void {
  const [verb, back] = queue.is_paused ? ["resume", "pause"] : ["pause", "resume"];
  const path = `/v1/queues/${segment(queue.name)}`;
  void attempt(async () => (await api.post(`${path}/${verb}`), { says: `${queue.name}: ${verb}d.`, undo: () => api.post(`${path}/${back}`) }));
}

const COLUMNS: readonly Column<Queue>[] = [
  { name: "Name", cell: (queue) => <a href={to("queues", queue.name)}>{queue.name}</a> },
  { name: "State", cell: (queue) => (queue.is_closed ? "closed" : queue.is_paused ? <State is="paused" /> : <State is="open" />) },
  { name: "Priority", cell: (queue) => queue.priority, end: true },
  { name: "Weight", cell: (queue) => queue.weight, end: true, wide: true },
  { name: "At once", cell: (queue) => queue.max_concurrency ?? "no limit", end: true, wide: true },
  { name: "Unfinished", cell: (queue) => queue.max_unfinished_jobs ?? "no limit", end: true, wide: true },
  { name: "Jobs", cell: (queue) => <a href={toWith({ queue: queue.name }, "jobs")}>its jobs</a>, wide: true },
  { name: "", cell: (queue) => may("operate") && <Button onClick={() => flip(queue)} aria-label={`${queue.is_paused ? "Resume" : "Pause"} ${queue.name}`}>{queue.is_paused ? "Resume" : "Pause"}</Button> }, // prettier-ignore
];

export function Queues(): JSX.Element {
  const making = useOver("new");
  return (
    <>
      <header>
        <h1>Queues</h1>
        {may("admin") && (
          <Button kind="main" onClick={() => making.open()}>
            New queue
          </Button>
        )}
      </header>
      {making.isOpen && may("admin") && <NewQueue onClose={making.close} />}
      <List<Queue> what="queues" path="/v1/queues" topics={["queues"]} id={(queue) => queue.name} columns={COLUMNS} href={(queue) => to("queues", queue.name)} screen="queues">
        Jobs wait in queues; each has its priority, weight and limits.
      </List>
    </>
  );
}
