/** A job made by hand: the API's fields, the usual ones first. `?from=` fills them in from another job. */

import type { JSX } from "preact";

import { api, segment } from "../api/http.ts";
import type { Job, JobDetail } from "../api/jobs.ts";
import type { Queue, RateClass, RetryPolicy } from "../api/queues.ts";
import { namesOf, useAll } from "../lib/all.ts";
import type { Body, Input } from "../lib/forms.ts";
import { HIDDEN, useHidden } from "../lib/hidden.ts";
import { useResource } from "../lib/live.ts";
import { go, to } from "../lib/route.ts";
import { Card } from "../ui/basic.tsx";
import { Form } from "../ui/form.tsx";
import { Shown } from "../ui/states.tsx";

export function NewJob({ query }: { query: URLSearchParams }): JSX.Element {
  const from = query.get("from");
  return (
    <>
      <header>
        <h1>{from ? "Enqueue one like it" : "Enqueue a job"}</h1>
      </header>
      {from ? <Alike id={from} /> : <Fields like={{ queue: "default", payload: {} }} />}
    </>
  );
}

function Alike({ id }: { id: string }): JSX.Element {
  const job = useResource<JobDetail>(`/v1/jobs/${segment(id)}`);
  const isHidden = useHidden();
  if (isHidden === undefined) return <div class="loading" role="status" aria-label="loading" />;
  return <Shown of={job}>{(value) => <Fields key={value.id} like={isHidden ? { ...value, payload: {}, headers: {} } : value} isHidden={isHidden} />}</Shown>;
}

const WINDOWS = [
  ["", "not unique"],
  ["pending", "while it waits"],
  ["running", "while it waits or runs"],
  ["ttl", "for so long"],
] as const;
const FAILURES = [
  ["", "cancel this one"],
  ["run", "run all the same"],
  ["hold", "wait for a decision"],
] as const;

function Fields({ like, isHidden = false }: { like: Partial<JobDetail>; isHidden?: boolean }): JSX.Element {
  const [queues, types] = [useAll<Queue>("/v1/queues"), useAll<{ name: string }>("/v1/job-types")];
  const [classes, policies] = [useAll<RateClass>("/v1/rate-classes"), useAll<RetryPolicy>("/v1/retry-policies")];
  const usual: Input[] = [
    { name: "job_type", label: "Type", required: true, value: like.job_type, suggestions: namesOf(types), hint: "what the worker's handler is called" },
    { name: "queue", label: "Queue", value: like.queue, suggestions: namesOf(queues) },
    { name: "payload", label: "Payload (JSON)", is: "json", value: like.payload, ...(isHidden ? { hint: `that of the other one is ${HIDDEN}: say what this one is to have` } : {}) },
    { name: "delay_ms", label: "In", is: "span", hint: "such as 10 min; empty: now" },
    { name: "run_at", label: "or at, on your own clock", is: "instant" },
    { name: "priority", label: "Priority", is: "number", value: like.priority || undefined, hint: "a higher one goes first; 0 is usual" },
  ];
  const further: Input[] = [
    { name: "tags", label: "Tags, one per line", is: "lines", value: like.tags },
    { name: "max_attempts", label: "Attempts, the first included", is: "number" },
    { name: "retry_policy", label: "Retry policy", suggestions: namesOf(policies), value: typeof like.retry_policy === "string" ? like.retry_policy : undefined },
    { name: "timeout_ms", label: "Time for an attempt", is: "span", value: like.timeout_ms ?? undefined },
    { name: "partition_key", label: "Partition", value: like.partition_key, hint: "partitions take turns" },
    { name: "rate_class", label: "Rate class", value: like.rate_class, suggestions: namesOf(classes) },
    { name: "weight", label: "Weight", is: "number", hint: "what it costs of the rate class" },
    { name: "concurrency.limit", label: "Of its type at once", is: "number", value: like.concurrency?.limit },
    { name: "concurrency.key", label: "and of this key", value: like.concurrency?.key },
    { name: "idempotency_key", label: "Idempotency key", hint: "a second one with it makes no second job" },
    { name: "unique.window", label: "Unique", is: "choice", choices: WINDOWS },
    { name: "unique.ttl_ms", label: "for so long", is: "span" },
    { name: "unique.by", label: "by these fields of the payload, one per line", is: "lines" },
    { name: "depends_on", label: "After these jobs (ids)", is: "words" },
    { name: "on_parent_failure", label: "If one of them fails", is: "choice", choices: FAILURES },
    { name: "batch_id", label: "Batch (id of an open one)" },
    { name: "sticky_worker", label: "Worker by name" },
    { name: "retention_ms", label: "Kept when ended for", is: "span", value: like.retention_ms ?? undefined },
    { name: "schema_version", label: "Version of the payload", is: "number", value: like.schema_version },
    { name: "headers", label: "Headers (JSON)", is: "json", value: like.headers && Object.keys(like.headers).length ? like.headers : undefined },
    { name: "hold", label: "Hold it", is: "flag", hint: "it waits until somebody promotes it" },
  ];
  const send = async (body: Body): Promise<string> => {
    const made = await api.post<{ job: Job; deduplicated: boolean }>("/v1/jobs", body);
    go(to("jobs", made.job.id));
    return made.deduplicated ? "There is one with this key already: this is it." : "It is enqueued.";
  };
  return (
    <Card title="The job" narrow>
      <Form inputs={usual} more={further} verb="Enqueue" onSend={send} onCancel={() => go(to("jobs"))} />
    </Card>
  );
}
