/** One queue: what stands in it, who is served when, what may be changed, and what a change would do. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, type Failure, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Partition, QueueStats } from "../api/stats.ts";
import type { Queue } from "../api/types.ts";
import { count, duration, plural, rate } from "../lib/format.ts";
import { refreshAll, useResource } from "../lib/live.ts";
import { toWith } from "../lib/route.ts";
import { Bar, Button, Card, Facts, Field, State, Tile } from "../ui/basic.tsx";
import { Dialog, say } from "../ui/dialog.tsx";
import { List } from "../ui/list.tsx";
import { Shown, Wrong } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";
import { flip } from "./queues.tsx";
import { Simulate } from "./simulate.tsx";

export function QueueScreen({ name }: { name: string }): JSX.Element {
  const queue = useResource<Queue>(`/v1/queues/${segment(name)}`, ["queues"]);
  return <Shown of={queue}>{(value) => <Detail of={value} />}</Shown>;
}

function Detail({ of }: { of: Queue }): JSX.Element {
  const path = `/v1/queues/${segment(of.name)}`;
  const stats = useResource<QueueStats>(`${path}/stats`, ["jobs", "queues", "workers"]);
  const [editing, setEditing] = useState(false);
  return (
    <>
      <header>
        <h1>{of.name}</h1>
        {of.is_paused && <State is="paused" />}
        {of.is_closed && <span class="dim">closed to new jobs</span>}
        {may("operate") && <Button onClick={() => flip(of)}>{of.is_paused ? "Resume" : "Pause"}</Button>}
        {may("admin") && <Button onClick={() => setEditing(true)}>Edit</Button>}
      </header>
      <Shown of={stats}>{(value) => <Numbers of={value} queue={of.name} />}</Shown>
      <Card title="Settings">
        <Facts
          of={[
            ["Priority", of.priority],
            ["Weight", of.weight],
            ["At once", of.max_concurrency ?? "no limit"],
            ["When full", of.on_saturated.replaceAll("_", " ")],
            ["Unfinished jobs", of.max_unfinished_jobs ?? "no limit"],
            ["Lease", duration(of.visibility_timeout_secs * 1_000)],
            ["Quarantine after", plural(of.quarantine_after, "crash or lost lease", "crashes or lost leases")],
            ["Retry policy", of.default_retry_policy],
            ["Completed kept", duration(of.retention.completed_ms)],
            ["Cancelled kept", duration(of.retention.cancelled_ms)],
            ["Dead kept", duration(of.retention.dead_letter_ms)],
          ]}
        />
      </Card>
      <Partitions path={path} />
      <Simulate queue={of} />
      {editing && <Edit of={of} path={path} onClose={() => setEditing(false)} />}
    </>
  );
}

function Numbers({ of, queue }: { of: QueueStats; queue: string }): JSX.Element {
  const jobs = (...states: string[]): string => toWith({ queue, state: states }, "jobs");
  return (
    <>
      <div class="tiles">
        <Tile name="Queued" value={count(of.states.queued)} href={jobs("queued")} />
        <Tile name="Running" value={count(of.states.running)} href={jobs("claimed", "running")} />
        <Tile name="Scheduled" value={count(of.states.scheduled)} href={jobs("scheduled")} />
        <Tile name="Dead" value={count(of.states.dead_letter)} tone={of.dead_1h ? "bad" : undefined} href={jobs("dead_letter")} />
        <Tile name="Oldest queued" value={duration(of.oldest_queued_age_ms)} />
        <Tile name="In" value={rate(of.arrived_per_second * 60)} />
        <Tile name="Out" value={rate(of.drained_per_second * 60)} />
        <Tile name="Empty in" value={duration(of.time_to_drain_ms)} note={of.time_to_drain_ms === null && (of.states.queued?.count ?? 0) > 0 ? "as much comes as goes" : undefined} />
        <Tile name="Workers" value={count(of.live_workers)} note={plural(of.worker_slots, "slot")} />
      </div>
      {of.quiet.noisy.length > 0 && (
        <p class="dim wrap">
          Without the noisy {of.quiet.noisy.length === 1 ? "partition" : "partitions"} {of.quiet.noisy.join(", ")}: {count(of.quiet.queued)} queued, {count(of.quiet.running)} running, the oldest waits{" "}
          {duration(of.quiet.oldest_queued_age_ms)}.
        </p>
      )}
    </>
  );
}

const PARTITIONS: readonly Column<Partition>[] = [
  { name: "Partition", cell: (one) => one.partition_key || <span class="dim">without a key</span> },
  { name: "Waiting", cell: (one) => count(one.waiting), end: true },
  { name: "Running", cell: (one) => one.running, end: true },
  { name: "Weight", cell: (one) => one.weight, end: true, wide: true },
  { name: "Share", cell: (one) => (<>{Math.round(one.share * 100)} %<Bar share={one.share} /></>) }, // prettier-ignore
  { name: "Oldest", cell: (one) => duration(one.oldest_queued_age_ms), end: true },
];

function Partitions({ path }: { path: string }): JSX.Element {
  return (
    <Card title="Partitions, served fairly by weight">
      <List<Partition> what="partitions" path={`${path}/partitions`} topics={["jobs"]} id={(one) => one.partition_key} columns={PARTITIONS} screen="queues">
        Jobs with a <code>partition_key</code> take turns, so that one tenant cannot starve the rest.
      </List>
    </Card>
  );
}

const NUMBERS = ["priority", "weight", "max_concurrency", "max_unfinished_jobs", "visibility_timeout_secs", "quarantine_after"] as const;
const MAY_BE_EMPTY: ReadonlySet<string> = new Set(["max_concurrency", "max_unfinished_jobs"]);

function Edit({ of, path, onClose }: { of: Queue; path: string; onClose: () => void }): JSX.Element {
  const [error, setError] = useState<Failure>();
  const save = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const sent = new FormData(event.currentTarget as HTMLFormElement);
    const changes: Record<string, unknown> = { on_saturated: sent.get("on_saturated") };
    for (const name of NUMBERS) {
      const text = String(sent.get(name) ?? "");
      if (text || MAY_BE_EMPTY.has(name)) changes[name] = text ? Number(text) : null;
    }
    try {
      await api.patch(path, changes);
      say(`${of.name} is changed.`);
      refreshAll();
      onClose();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title={`Edit ${of.name}`} onClose={onClose}>
      <form onSubmit={(event) => void save(event)}>
        <div class="form">
          {NUMBERS.map((name) => (
            <Field key={name} label={name.replaceAll("_", " ")} {...(MAY_BE_EMPTY.has(name) ? { hint: "empty: no limit" } : {})}>
              <input name={name} type="number" defaultValue={of[name] === null ? "" : String(of[name])} />
            </Field>
          ))}
          <Field label="when full">
            <select name="on_saturated" defaultValue={of.on_saturated}>
              <option value="queue">wait</option>
              <option value="cancel_running">cancel running</option>
            </select>
          </Field>
        </div>
        {error && <Wrong error={error} />}
        <div class="row end">
          <Button onClick={onClose}>Keep as it is</Button>
          <button class="button main">Save</button>
        </div>
      </form>
    </Dialog>
  );
}
