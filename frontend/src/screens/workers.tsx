/** Workers: who is there, how loaded, in which version, and what they may be asked to do. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Worker } from "../api/workers.ts";
import { plural } from "../lib/format.ts";
import { useResource } from "../lib/live.ts";
import { go, to, toWith } from "../lib/route.ts";
import { Bar, Button, Card, Facts, Id, State, Time } from "../ui/basic.tsx";
import { attempt, Confirm, type Deed } from "../ui/dialog.tsx";
import { List } from "../ui/list.tsx";
import { Shown } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";

const COLUMNS: readonly Column<Worker>[] = [
  { name: "Name", cell: (worker) => <a href={to("workers", worker.id)}>{worker.name}</a> },
  { name: "State", cell: (worker) => <Liveness of={worker} /> },
  { name: "Load", cell: (worker) => <Load of={worker} /> },
  { name: "Seen", cell: (worker) => <Time at={worker.last_seen_at} /> },
  { name: "Queues", cell: (worker) => worker.queues.join(", "), wide: true },
  { name: "Version", cell: (worker) => worker.version, wide: true },
  { name: "Host", cell: (worker) => worker.hostname, wide: true },
  { name: "Memory", cell: (worker) => (worker.memory_mb === null ? "–" : `${Math.round(worker.memory_mb)} MB`), end: true, wide: true },
];

export function Workers(): JSX.Element {
  return (
    <>
      <header>
        <h1>Workers</h1>
      </header>
      <List<Worker> what="workers" path="/v1/workers" topics={["workers"]} id={(worker) => worker.id} columns={COLUMNS} href={(worker) => to("workers", worker.id)} screen="workers">
        Start one: <code>tidemill worker myapp.jobs:app --queues default</code>
      </List>
    </>
  );
}

function Liveness({ of }: { of: Worker }): JSX.Element {
  return (
    <>
      <State is={of.is_live ? "live" : "stale"} /> {of.status !== "running" && <span class="dim">{of.status}</span>}
      {of.command && <span class="dim"> asked to {of.command}</span>}
    </>
  );
}

function Load({ of }: { of: Worker }): JSX.Element {
  return (
    <>
      {of.active_job_count} of {of.max_concurrency}
      <Bar share={of.active_job_count / Math.max(1, of.max_concurrency)} />
    </>
  );
}

const SAYS: Record<string, string> = {
  quiet: "It takes no more jobs and finishes those it has.",
  resume: "It takes jobs again.",
  restart: "It finishes what it can in its stop window, gives the rest back without costing an attempt, and starts anew.",
  terminate: "It finishes what it can in its stop window, gives the rest back without costing an attempt, and ends.",
};

export function WorkerScreen({ id }: { id: string }): JSX.Element {
  const worker = useResource<Worker>(`/v1/workers/${segment(id)}`, ["workers"]);
  return <Shown of={worker}>{(value) => <Detail of={value} />}</Shown>;
}

function Detail({ of }: { of: Worker }): JSX.Element {
  const [deed, setDeed] = useState<Deed>();
  const command = (name: string): void => {
    const run = async (): Promise<{ says: string }> => (await api.post(`/v1/workers/${of.id}/command`, { command: name }), { says: `${of.name} is asked to ${name}; it hears of it with its next heartbeat.` });
    if (name === "quiet" || name === "resume") void attempt(run);
    else setDeed({ title: `${name} ${of.name}`, says: SAYS[name], verb: name, danger: true, run });
  };
  const remove = (): void =>
    setDeed({
      title: `Remove ${of.name}`,
      says: `It has not been heard of. What it holds, ${plural(of.active_job_count, "job")} as it said last, goes back to the queues without costing an attempt. If it still lives, it registers anew.`,
      verb: "Remove it",
      danger: true,
      run: async () => {
        const { released } = await api.delete<{ released: number }>(`/v1/workers/${of.id}`);
        go(to("workers"));
        return { says: `${of.name} is removed, ${plural(released, "job")} given back.` };
      },
    });
  return (
    <>
      <header>
        <h1>{of.name}</h1>
        <Liveness of={of} />
        {may("operate") && !of.is_live && (
          <Button kind="danger" onClick={remove}>
            Remove
          </Button>
        )}
        {may("operate") && of.is_live && (
          <div class="row" role="group" aria-label="Commands">
            {Object.keys(SAYS).map((name) => (
              <Button key={name} title={SAYS[name]} kind={name === "terminate" ? "danger" : "plain"} onClick={() => command(name)}>
                {name}
              </Button>
            ))}
          </div>
        )}
      </header>
      <Card title="About">
        <Load of={of} />
        <Facts
          of={[
            ["Id", <Id id={of.id} />],
            ["Version", of.version],
            ["Host", of.hostname],
            ["Process", of.pid],
            ["Queues", of.queues.join(", ")],
            ["Job types", of.job_types?.join(", ") ?? "all"],
            ["Processor", of.cpu_percent === null ? null : `${Math.round(of.cpu_percent)} %`],
            ["Memory", of.memory_mb === null ? null : `${Math.round(of.memory_mb)} MB`],
            ["Started", <Time at={of.started_at} />],
            ["Seen", <Time at={of.last_seen_at} />],
          ]}
        />
        <a href={toWith({ worker_id: of.id }, "jobs")}>Jobs that it holds or ran</a>
      </Card>
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </>
  );
}
