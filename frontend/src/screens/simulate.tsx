/**
 * What other rules would have done to the last hour of a queue: waits per partition, beside those of today's rules. The rules stand in
 * the address (`?what_if=yes&workers=8`), so that a link asks the same and Back asks what was asked before.
 */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { api, segment } from "../api/http.ts";
import type { Queue } from "../api/queues.ts";
import { count, duration } from "../lib/format.ts";
import type { Body, Input } from "../lib/forms.ts";
import { queryOf, setQuery, usePlace } from "../lib/route.ts";
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

const RULES = ["workers", "max_concurrency", "weights"] as const;
type Rules = Record<"what_if" | (typeof RULES)[number], string>;

/** The rules that a query asks about; undefined where it asks about none. */
export function rulesOf(query: URLSearchParams): Rules | undefined {
  if (!query.has("what_if")) return undefined;
  return Object.fromEntries(["what_if", ...RULES].map((name) => [name, query.get(name) ?? ""])) as Rules;
}

export function Simulate({ queue }: { queue: Queue }): JSX.Element {
  const rules = rulesOf(usePlace().query);
  const here = queryOf(rules ?? {}).toString();
  const asked = useRef<string | undefined>(undefined);
  const isLinked = useRef(rules !== undefined);
  const [link, setLink] = useState({ turn: 0, rules });
  const [answer, setAnswer] = useState<Simulated>();
  useEffect(() => {
    if (asked.current === undefined || asked.current === here) return void (asked.current = here);
    asked.current = here; // Back, or another link: the form is what it says, and so is the answer
    isLinked.current = rules !== undefined;
    setAnswer(undefined);
    setLink((before) => ({ turn: before.turn + 1, rules }));
  }, [here]);
  const now = queue.max_concurrency === null ? "no limit" : String(queue.max_concurrency);
  const inputs: Input[] = [
    { name: "workers", label: "Jobs that all workers run at once", is: "number", value: link.rules?.workers, hint: "empty: as many as now" },
    { name: "max_concurrency", label: "Of this queue at once", is: "number", value: link.rules?.max_concurrency, hint: `empty: as now, ${now}` },
    { name: "weights", label: "Weights of partitions", value: link.rules?.weights, hint: "such as tenant-1=3 tenant-2=1" },
  ];
  const run = async (body: Body): Promise<void> => {
    const told = { what_if: "yes", ...Object.fromEntries(RULES.map((name) => [name, body[name] === undefined ? null : String(body[name])])) };
    const mine = (asked.current = queryOf(told).toString());
    setQuery(told, isLinked.current); // what a link says otherwise is no step of its own
    isLinked.current = false;
    const { weights, ...rest } = body;
    const found = await api.post<Simulated>(`/v1/queues/${segment(queue.name)}/simulate`, weights === undefined ? rest : { ...rest, weights: weightsOf(String(weights)) });
    if (asked.current === mine) setAnswer(found);
  };
  return (
    <Card title="What if?">
      <Form key={link.turn} inputs={inputs} verb="Simulate the last hour" onSend={run} asksOnly atOnce={link.rules !== undefined} />
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
            <th scope="col" class="end wide">Jobs</th>
            <th scope="col" class="end">p50 now</th>
            <th scope="col" class="end">p50 then</th>
            <th scope="col" class="end">p95 now</th>
            <th scope="col" class="end">p95 then</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">all{of.approximate ? " (the first 10,000 jobs)" : ""}</th>
            <td class="end wide">{count(of.proposed.jobs)}</td>
            <td class="end">{duration(of.now.wait_p50_ms)}</td>
            <td class="end">{duration(of.proposed.wait_p50_ms)}</td>
            <td class="end">{duration(of.now.wait_p95_ms)}</td>
            <td class="end">{duration(of.proposed.wait_p95_ms)}</td>
          </tr>
          {of.proposed.partitions.map((one) => (
            <tr key={one.partition_key}>
              <th scope="row" title={one.partition_key}>
                {one.partition_key || "without a key"}
              </th>
              <td class="end wide">{count(one.jobs)}</td>
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
