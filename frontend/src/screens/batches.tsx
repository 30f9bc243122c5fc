/** Batches: what belongs together, how far it is, and what follows when it ends. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Batch } from "../api/batches.ts";
import { count, plural } from "../lib/format.ts";
import { useResource } from "../lib/live.ts";
import { to, toWith } from "../lib/route.ts";
import { Bar, Button, Card, Facts, Id, State, Tile, Time } from "../ui/basic.tsx";
import { attempt, Confirm } from "../ui/dialog.tsx";
import { Json } from "../ui/json.tsx";
import { List } from "../ui/list.tsx";
import { Shown } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";

const share = (batch: Batch): number => (batch.total ? (batch.total - batch.pending) / batch.total : 0);
const title = (batch: Batch): string => batch.name ?? "without a name";

const COLUMNS: readonly Column<Batch>[] = [
  { name: "Name", cell: (batch) => <a href={to("batches", batch.id)}>{title(batch)}</a> },
  { name: "State", cell: (batch) => <State is={batch.status} /> },
  { name: "Done", cell: (batch) => (<>{count(batch.total - batch.pending)} of {count(batch.total)}<Bar share={share(batch)} /></>) }, // prettier-ignore
  { name: "Failed", cell: (batch) => count(batch.failed), end: true, wide: true },
  { name: "Created", cell: (batch) => <Time at={batch.created_at} /> },
  { name: "Ended", cell: (batch) => <Time at={batch.finalized_at} />, wide: true },
];

export function Batches(): JSX.Element {
  return (
    <>
      <header>
        <h1>Batches</h1>
      </header>
      <List<Batch> what="batches" path="/v1/batches" topics={["jobs"]} id={(batch) => batch.id} columns={COLUMNS} href={(batch) => to("batches", batch.id)} screen="batches">
        Jobs that belong together: <code>client.batch("import", jobs)</code>
      </List>
    </>
  );
}

/** No more jobs may join: with that it can end. */
function seal(batch: Batch): void {
  void attempt(async () => (await api.post(`/v1/batches/${batch.id}/seal`), { says: `${title(batch)} is sealed: it ends with the last of its jobs.` }));
}

const WHEN: readonly (readonly [string, string])[] = [
  ["on_complete", "when all have ended"],
  ["on_success", "if all completed"],
  ["on_failure", "if one did not"],
];

/** The jobs that follow its end, each with whether its time has come. */
function Callbacks({ of }: { of: Batch }): JSX.Element {
  const there = WHEN.filter(([name]) => of.callbacks[name]);
  if (!there.length) return <p class="dim">None: nothing follows its end.</p>;
  return (
    <>
      <ul class="plain">
        {there.map(([name, when]) => {
          const job = of.callbacks[name] as { job_type?: string; queue?: string };
          return (
            <li key={name} class="wrap">
              {when}: <a href={toWith({ job_type: job.job_type ?? "", queue: job.queue ?? "" }, "jobs")}>{job.job_type}</a> {of.fired.includes(name) ? <strong>has been created</strong> : <span class="dim">not yet</span>}
            </li>
          );
        })}
      </ul>
      <Json value={of.callbacks} label="callbacks" />
    </>
  );
}

export function BatchScreen({ id }: { id: string }): JSX.Element {
  const batch = useResource<Batch>(`/v1/batches/${segment(id)}`, ["jobs"]);
  const [asking, setAsking] = useState(false);
  return (
    <Shown of={batch}>
      {(value) => (
        <>
          <header>
            <h1>{title(value)}</h1>
            <State is={value.status} />
            {may("enqueue") && value.status === "open" && <Button onClick={() => seal(value)}>Seal</Button>}
            {may("operate") && value.pending > 0 && (
              <Button kind="danger" onClick={() => setAsking(true)}>
                Cancel
              </Button>
            )}
          </header>
          <Bar label="progress" share={share(value)} />
          <div class="tiles">
            <Tile name="Total" value={count(value.total)} href={toWith({ batch_id: value.id }, "jobs")} />
            <Tile name="Pending" value={count(value.pending)} />
            <Tile name="Completed" value={count(value.completed)} href={toWith({ batch_id: value.id, state: "completed" }, "jobs")} />
            <Tile name="Failed" value={count(value.failed)} tone={value.failed ? "bad" : undefined} href={toWith({ batch_id: value.id, state: "dead_letter" }, "jobs")} />
            <Tile name="Cancelled" value={count(value.cancelled)} href={toWith({ batch_id: value.id, state: "cancelled" }, "jobs")} />
          </div>
          <Card title="About">
            <Facts
              of={[
                ["Id", <Id id={value.id} />],
                ["Created", <Time at={value.created_at} />],
                ["Sealed", value.sealed_at ? <Time at={value.sealed_at} /> : "not yet: more jobs may join"],
                ["Ended", value.finalized_at && <Time at={value.finalized_at} />],
                ["Error", value.error],
              ]}
            />
          </Card>
          <Card title="Callbacks">
            <Callbacks of={value} />
          </Card>
          {asking && (
            <Confirm
              onClose={() => setAsking(false)}
              deed={{
                title: `Cancel ${title(value)}`,
                says: `${plural(value.pending, "job")} of it ${value.pending === 1 ? "has" : "have"} not ended: those that wait will not run, those that run are asked to stop.`,
                verb: "Cancel the batch",
                danger: true,
                run: async () => (await api.post(`/v1/batches/${value.id}/cancel`), { says: "The batch is being cancelled." }),
              }}
            />
          )}
        </>
      )}
    </Shown>
  );
}
