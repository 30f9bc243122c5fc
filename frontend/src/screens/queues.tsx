/** Queues, and what may hold their jobs back: pause, limits, weights, rates. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, type Failure, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { ConcurrencyLimit, Queue, RateClass } from "../api/types.ts";
import { duration, plural } from "../lib/format.ts";
import { refreshAll } from "../lib/live.ts";
import { go, to, toWith } from "../lib/route.ts";
import { Button, Card, Field, State } from "../ui/basic.tsx";
import { attempt, Dialog } from "../ui/dialog.tsx";
import { List } from "../ui/list.tsx";
import { Wrong } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";

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

const CLASSES: readonly Column<RateClass>[] = [
  { name: "Name", cell: (one) => <a href={toWith({ rate_class: one.name }, "jobs")}>{one.name}</a> },
  { name: "State", cell: (one) => (one.is_paused ? <State is="paused" /> : <State is="open" />) },
  { name: "Rate", cell: (one) => `${one.limit} per ${duration(one.window_ms)}` },
  { name: "Burst", cell: (one) => one.burst, end: true, wide: true },
  {
    name: "",
    cell: (one) =>
      may("admin") && (
        <Button aria-label={`${one.is_paused ? "Resume" : "Pause"} ${one.name}`} onClick={() => void attempt(async () => (await api.put(`/v1/rate-classes/${segment(one.name)}`, spec(one, !one.is_paused)), { says: `${one.name}: ${one.is_paused ? "resumed, it refills from zero" : "paused: nothing of it starts"}.`, undo: () => api.put(`/v1/rate-classes/${segment(one.name)}`, spec(one, one.is_paused)) }))}>
          {one.is_paused ? "Resume" : "Pause"}
        </Button>
      ),
  },
]; // prettier-ignore

function spec(one: RateClass, is_paused: boolean): object {
  return { limit: one.limit, window_ms: one.window_ms, burst: one.burst, is_paused };
}

const LIMITS: readonly Column<ConcurrencyLimit>[] = [
  { name: "Name", cell: (one) => one.name },
  { name: "Of", cell: (one) => (one.queue ? `queue ${one.queue}` : `type ${one.job_type}`) },
  { name: "At once", cell: (one) => plural(one.max_concurrent, "job"), end: true },
  { name: "When full", cell: (one) => one.on_saturated.replaceAll("_", " "), wide: true },
];

export function Queues(): JSX.Element {
  const [making, setMaking] = useState(false);
  return (
    <>
      <header>
        <h1>Queues</h1>
        {may("admin") && (
          <Button kind="main" onClick={() => setMaking(true)}>
            New queue
          </Button>
        )}
      </header>
      {making && <NewQueue onClose={() => setMaking(false)} />}
      <List<Queue> what="queues" path="/v1/queues" topics={["queues"]} id={(queue) => queue.name} columns={COLUMNS} href={(queue) => to("queues", queue.name)} screen="queues">
        Jobs wait in queues; each has its priority, weight and limits.
      </List>
      <Card title="Rate classes">
        <List<RateClass> what="rate classes" path="/v1/rate-classes" topics={["queues"]} id={(one) => one.name} columns={CLASSES} screen="queues">
          <code>PUT /v1/rate-classes/NAME</code> makes one: so many per so long, over all workers.
        </List>
      </Card>
      <Card title="Standing limits">
        <List<ConcurrencyLimit> what="standing limits" path="/v1/concurrency-limits" topics={["queues"]} id={(one) => one.name} columns={LIMITS} screen="queues">
          <code>PUT /v1/concurrency-limits/NAME</code> makes one: so many of a queue or a type at once.
        </List>
      </Card>
    </>
  );
}

function NewQueue({ onClose }: { onClose: () => void }): JSX.Element {
  const [error, setError] = useState<Failure>();
  const make = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget as HTMLFormElement).get("name") ?? "").trim();
    try {
      await api.post("/v1/queues", { name });
      refreshAll();
      go(to("queues", name));
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="New queue" onClose={onClose}>
      <form onSubmit={(event) => void make(event)}>
        <Field label="Name" hint="Letters, digits and _ . : / -; priority and limits are set afterwards.">
          <input name="name" required maxLength={200} autofocus />
        </Field>
        {error && <Wrong error={error} />}
        <div class="row end">
          <Button onClick={onClose}>Cancel</Button>
          <button class="button main">Make it</button>
        </div>
      </form>
    </Dialog>
  );
}
