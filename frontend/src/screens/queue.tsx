/** One queue: what stands in it, who is served when, what may be changed, and what a change would do. */

import type { JSX } from "preact";

import { segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { QueueStats } from "../api/stats.ts";
import type { Queue } from "../api/queues.ts";
import { count, duration, plural, rate } from "../lib/format.ts";
import { useResource } from "../lib/live.ts";
import { useOver } from "../lib/over.ts";
import { to, toWith } from "../lib/route.ts";
import { Button, Card, Facts, State, Tile } from "../ui/basic.tsx";
import { Shown } from "../ui/states.tsx";
import { Partitions } from "./partitions.tsx";
import { RemoveQueue } from "./queue-removal.tsx";
import { EditQueue, SATURATED } from "./queue-settings.tsx";
import { flip } from "./queues.tsx";
import { Simulate } from "./simulate.tsx";

export function QueueScreen({ name }: { name: string }): JSX.Element {
  const queue = useResource<Queue>(`/v1/queues/${segment(name)}`, ["queues"]);
  return <Shown of={queue}>{(value) => <Detail of={value} />}</Shown>;
}

function Detail({ of }: { of: Queue }): JSX.Element {
  const path = `/v1/queues/${segment(of.name)}`;
  const stats = useResource<QueueStats>(`${path}/stats`, ["jobs", "queues", "workers"]);
  const [editing, removing] = [useOver("edit"), useOver("delete")];
  return (
    <>
      <header>
        <h1>{of.name}</h1>
        {of.is_paused && <State is="paused" />}
        {of.is_closed && <span class="dim">closed to new jobs</span>}
        {may("operate") && <Button onClick={() => flip(of)}>{of.is_paused ? "Resume" : "Pause"}</Button>}
        {may("admin") && (
          <>
            <Button onClick={() => editing.open()}>Edit</Button>
            <Button kind="danger" onClick={() => removing.open()}>
              Delete
            </Button>
          </>
        )}
      </header>
      <Shown of={stats}>{(value) => <Numbers of={value} queue={of.name} />}</Shown>
      <Card title="Settings">
        <Facts
          of={[
            ["Priority", of.priority],
            ["Weight", of.weight],
            ["At once", of.max_concurrency ?? "no limit"],
            ["When that many run", of.max_concurrency === null ? null : SATURATED.find(([name]) => name === of.on_saturated)?.[1]],
            ["Unfinished jobs", of.max_unfinished_jobs ?? "no limit"],
            ["Lease", duration(of.visibility_timeout_secs * 1_000)],
            ["Quarantine after", plural(of.quarantine_after, "crash or lost lease", "crashes or lost leases")],
            ["Retry policy", <a href={to("retry-policies")}>{of.default_retry_policy ?? "the built-in one"}</a>],
            ["Completed kept", duration(of.retention.completed_ms)],
            ["Cancelled kept", duration(of.retention.cancelled_ms)],
            ["Dead kept", duration(of.retention.dead_letter_ms)],
          ]}
        />
      </Card>
      <Partitions path={path} />
      <Simulate key={of.name} queue={of} />
      {editing.isOpen && may("admin") && <EditQueue of={of} onClose={editing.close} />}
      {removing.isOpen && may("admin") && <RemoveQueue of={of} onClose={removing.close} />}
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
        <Tile name="Arriving" value={rate(of.arrived_per_second * 60)} />
        <Tile name="Leaving" value={rate(of.drained_per_second * 60)} />
        <Tile name="Empty in" value={duration(of.time_to_drain_ms)} note={of.time_to_drain_ms === null && (of.states.queued?.count ?? 0) > 0 ? (of.drained_per_second ? "as much comes as goes" : "none leaves it") : undefined} />
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
