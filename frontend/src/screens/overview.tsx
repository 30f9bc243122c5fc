/** Is something wrong? The first screen answers that before anything else, and each number leads to what it counts. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { History, Latency, Overview as Glance, QueueBacklog } from "../api/stats.ts";
import type { Listed } from "../api/listed.ts";
import type { Worker } from "../api/workers.ts";
import { count, duration, number, plural, rate } from "../lib/format.ts";
import { type Resource, useResource } from "../lib/live.ts";
import { findings, OLD_MS } from "../lib/verdict.ts";
import { to, toWith } from "../lib/route.ts";
import { Card, State, Tile } from "../ui/basic.tsx";
import { Chart } from "../ui/chart.tsx";
import { NothingYet, Shown } from "../ui/states.tsx";
import { type Column, Table } from "../ui/table.tsx";

const QUEUES: readonly Column<QueueBacklog>[] = [
  { name: "Queue", cell: (queue) => (<><a href={to("queues", queue.name)}>{queue.name}</a> {queue.is_paused && <State is="paused" />}</>) }, // prettier-ignore
  { name: "Queued", cell: (queue) => <a href={toWith({ queue: queue.name, state: "queued" }, "jobs")}>{count(queue.queued)}</a>, end: true },
  { name: "Scheduled", cell: (queue) => count(queue.scheduled), end: true, wide: true },
  { name: "Running", cell: (queue) => count(queue.running + queue.claimed), end: true, wide: true },
  { name: "Dead", cell: (queue) => count(queue.dead_letter), end: true, wide: true },
  { name: "Oldest", cell: (queue) => duration(queue.oldest_queued_age_ms), end: true },
  { name: "Arriving", cell: (queue) => rate(queue.arrived_per_second * 60), end: true, wide: true },
  { name: "Completing", cell: (queue) => rate(queue.completed_per_second * 60), end: true, wide: true },
];

export function Overview(): JSX.Element {
  const glance = useResource<Glance>("/v1/stats/overview", ["overview", "jobs", "queues", "workers"]);
  // Asked beside it, not after it: the verdict is to be right when it is first seen.
  const workers = useResource<Listed<Worker>>("/v1/workers?limit=200", ["workers"]);
  const history = useResource<History>("/v1/stats/history", ["overview"]);
  const latency = useResource<Latency>("/v1/stats/latency", ["overview"]);
  return (
    <>
      <header>
        <h1>Overview</h1>
      </header>
      <Shown of={glance}>
        {(value) => (
          <>
            <Verdict of={value} workers={workers} />
            <Tiles of={value} />
            <div class="columns uneven">
              <ThroughputChart history={history} />
              <LatencyCard latency={latency} />
            </div>
            <Card title="Backlog per queue">
              {value.queues.length ? (
                <Table label="Queues" rows={value.queues} columns={QUEUES} id={(queue) => queue.name} href={(queue) => to("queues", queue.name)} />
              ) : (
                <NothingYet what="queues">Make one under <a href={to("queues")}>Queues</a>.</NothingYet>
              )}
            </Card>
          </>
        )}
      </Shown>
    </>
  );
}

/** One glance: a colour, a sign and a word; below it what there is to say, the worst first, each a link to where it is mended. */
function Verdict({ of, workers }: { of: Glance; workers: Resource<Listed<Worker>> }): JSX.Element {
  const all = workers.value?.next_cursor === null ? workers.value.items : undefined;
  const found = findings(of, all);
  const grave = found.some((one) => one.isGrave);
  if (workers.loading && !grave) return <div class="loading" role="status" aria-label="loading" />;
  const word = grave ? "✕ Something is wrong" : found.length ? "! Worth a look" : "✓ All is well";
  return (
    <section class={`verdict ${grave ? "bad" : found.length ? "warn" : "good"}`} role="status" aria-label="Verdict">
      <strong>{word}</strong>
      {found.length > 0 && (
        <ul>
          {found.map((one) => (
            <li key={one.says} class={one.isGrave ? "grave" : ""}>
              <a href={toWith(one.query ?? {}, ...one.place)}>{one.says}</a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Tiles({ of }: { of: Glance }): JSX.Element {
  const waiting = number(of.states.queued);
  const leased = number(of.states.running) + number(of.states.claimed);
  const paused = of.paused_queues.length;
  return (
    <>
      <div class="tiles">
        <Tile name="Live workers" value={count(of.live_workers)} note={plural(of.worker_slots, "slot")} tone={of.live_workers ? undefined : waiting ? "bad" : "warn"} href={to("workers")} />
        <Tile name="Oldest queued" value={duration(of.oldest_queued_age_ms)} tone={(of.oldest_queued_age_ms ?? 0) > OLD_MS ? "warn" : undefined} href={toWith({ state: "queued", sort: "run_at" }, "jobs")} />
        <Tile name="Failures, 1 h" value={count(of.failures_1h)} tone={of.failures_1h ? "warn" : undefined} href={toWith({ state: "retrying" }, "jobs")} />
        <Tile name="Dead" value={count(of.states.dead_letter)} note={of.dead_1h ? `${count(of.dead_1h)} in 1 h` : undefined} tone={of.dead_1h ? "bad" : number(of.states.dead_letter) ? "warn" : undefined} href={to("dead-letters")} />
        <Tile name="Quarantined" value={count(of.states.quarantined)} tone={number(of.states.quarantined) ? "warn" : undefined} href={to("quarantine")} />
        <Tile name="Paused queues" value={count(paused)} tone={paused ? "warn" : undefined} href={to("queues")} />
      </div>
      <div class="tiles">
        <Tile name="Queued" value={count(of.states.queued)} href={toWith({ state: "queued" }, "jobs")} />
        <Tile name="Running" value={count(leased)} href={toWith({ state: ["claimed", "running"] }, "jobs")} />
        <Tile name="Scheduled" value={count(of.states.scheduled)} href={toWith({ state: "scheduled", sort: "run_at" }, "jobs")} />
        <Tile name="Arriving" value={rate(of.throughput.arrived_per_second * 60)} />
        <Tile name="Completing" value={rate(of.throughput.completed_per_second * 60)} />
      </div>
    </>
  );
}

function ThroughputChart({ history }: { history: Resource<History> }): JSX.Element {
  const value = history.value;
  const drawn = useMemo(
    () =>
      value && {
        times: value.buckets.map((bucket) => Date.parse(bucket.at)),
        lines: [
          { name: "arrived", colour: "--link", values: value.buckets.map((bucket) => bucket.arrived) },
          { name: "completed", colour: "--good", values: value.buckets.map((bucket) => bucket.completed) },
          { name: "failed", colour: "--warn", values: value.buckets.map((bucket) => bucket.failed) },
          { name: "dead", colour: "--bad", values: value.buckets.map((bucket) => bucket.dead) },
        ],
      },
    [value],
  );
  return (
    <Card title="Jobs per minute, the last hour">
      <Shown of={history}>{() => drawn && <Chart title="Jobs per minute" {...drawn} />}</Shown>
    </Card>
  );
}

function LatencyCard({ latency }: { latency: Resource<Latency> }): JSX.Element {
  return (
    <Card title="Latency, the last hour">
      <Shown of={latency}>
        {(value) => (
          <div class="table-box" tabIndex={0} role="region" aria-label="Latency">
            <table>
              <thead>
                <tr>
                  <th scope="col"></th>
                  <th scope="col" class="end">p50</th>
                  <th scope="col" class="end">p95</th>
                  <th scope="col" class="end">p99</th>
                  <th scope="col" class="end wide">attempts</th>
                </tr>
              </thead>
              <tbody>
                {([["Wait in the queue", value.queue_wait], ["Run time", value.run_time]] as const).map(([name, of]) => (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    <td class="end">{duration(of.p50_ms)}</td>
                    <td class="end">{duration(of.p95_ms)}</td>
                    <td class="end">{duration(of.p99_ms)}</td>
                    <td class="end wide">{count(of.count)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Shown>
    </Card>
  );
} // prettier-ignore
