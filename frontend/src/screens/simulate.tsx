/** What other rules would have done to the last hour of a queue: waits per partition, beside those of today's rules. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, segment } from "../api/http.ts";
import type { Queue } from "../api/queues.ts";
import { count, duration } from "../lib/format.ts";
import type { Body, Input } from "../lib/forms.ts";
import { Card } from "../ui/basic.tsx";
import { Form } from "../ui/form.tsx";

interface Side {
  places: number;
  jobs: number;
  unstarted: number;
  wait_p50_ms: number | null;
  wait_p95_ms: number | null;
  partitions: { partition_key: string; jobs: number; unstarted: number; wait_p50_ms: number | null; wait_p95_ms: number | null }[];
}

interface Simulated {
  window_ms: number;
  approximate: boolean;
  now: Side;
  proposed: Side;
}

/** "tenant-1=3 tenant-2=1" as weights; what is no number is left to the API to refuse. */
export function weightsOf(text: string): Record<string, number> {
  return Object.fromEntries(
    text.split(/[\s,]+/).filter(Boolean).map((pair) => {
      const at = pair.lastIndexOf("=");
      return at < 0 ? [pair, Number.NaN] : [pair.slice(0, at), Number(pair.slice(at + 1))];
    }),
  ); // prettier-ignore
}

export function Simulate({ queue }: { queue: Queue }): JSX.Element {
  const [answer, setAnswer] = useState<Simulated>();
  const now = queue.max_concurrency === null ? "no limit" : String(queue.max_concurrency);
  const inputs: Input[] = [
    { name: "workers", label: "Jobs that all workers run at once", is: "number", hint: "empty: as many as now" },
    { name: "max_concurrency", label: "Of this queue at once", is: "number", hint: `empty: as now, ${now}` },
    { name: "weights", label: "Weights of partitions", hint: "such as tenant-1=3 tenant-2=1" },
  ];
  const run = async ({ weights, ...rules }: Body): Promise<void> => {
    const asked = weights === undefined ? rules : { ...rules, weights: weightsOf(String(weights)) };
    setAnswer(await api.post<Simulated>(`/v1/queues/${segment(queue.name)}/simulate`, asked));
  };
  return (
    <Card title="What if?">
      <Form inputs={inputs} verb="Simulate the last hour" onSend={run} asksOnly />
      {answer && <Compared of={answer} />}
    </Card>
  );
}

function Compared({ of }: { of: Simulated }): JSX.Element {
  const today = new Map(of.now.partitions.map((one) => [one.partition_key, one]));
  if (!of.proposed.jobs) return <p class="dim">Nothing arrived in the last hour: there is nothing to try it on.</p>;
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="Simulated waits">
      <table>
        <thead>
          <tr>
            <th scope="col">Partition</th>
            <th scope="col" class="end">Jobs</th>
            <th scope="col" class="end">p50 now</th>
            <th scope="col" class="end">p50 then</th>
            <th scope="col" class="end">p95 now</th>
            <th scope="col" class="end">p95 then</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">all{of.approximate ? " (the first 10,000 jobs)" : ""}</th>
            <td class="end">{count(of.proposed.jobs)}</td>
            <td class="end">{duration(of.now.wait_p50_ms)}</td>
            <td class="end">{duration(of.proposed.wait_p50_ms)}</td>
            <td class="end">{duration(of.now.wait_p95_ms)}</td>
            <td class="end">{duration(of.proposed.wait_p95_ms)}</td>
          </tr>
          {of.proposed.partitions.map((one) => (
            <tr key={one.partition_key}>
              <th scope="row">{one.partition_key || "without a key"}</th>
              <td class="end">{count(one.jobs)}</td>
              <td class="end">{duration(today.get(one.partition_key)?.wait_p50_ms)}</td>
              <td class="end">{duration(one.wait_p50_ms)}</td>
              <td class="end">{duration(today.get(one.partition_key)?.wait_p95_ms)}</td>
              <td class="end">{duration(one.wait_p95_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
} // prettier-ignore
