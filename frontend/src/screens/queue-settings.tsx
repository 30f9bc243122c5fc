/** What a queue can be told, when it is made and later. */

import type { JSX } from "preact";

import { api, segment } from "../api/http.ts";
import type { Queue, RetryPolicy } from "../api/queues.ts";
import { namesOf, useAll } from "../lib/all.ts";
import type { Input } from "../lib/forms.ts";
import { go, to } from "../lib/route.ts";
import { FormDialog } from "../ui/form.tsx";

export const SATURATED = [
  ["queue", "the next ones wait"],
  ["cancel_running", "the oldest of lowest priority is asked to stop"],
] as const;

/** A queue's fields, with what they are now. */
function inputsOf(queue: Partial<Queue>, policies: readonly string[]): Input[] {
  const kept = (name: "completed_ms" | "cancelled_ms" | "dead_letter_ms", label: string): Input => ({ name: `retention.${name}`, label, is: "span", value: queue.retention?.[name] });
  return [
    { name: "priority", label: "Priority", is: "number", value: queue.priority, hint: "queues of a higher one are served first" },
    { name: "weight", label: "Weight", is: "number", value: queue.weight, hint: "the share among queues of one priority" },
    { name: "max_concurrency", label: "Jobs at once", is: "number", value: queue.max_concurrency, orNull: true, hint: "over all workers; empty: no limit" },
    { name: "on_saturated", label: "When that many run", is: "choice", value: queue.on_saturated, choices: SATURATED },
    { name: "max_unfinished_jobs", label: "Unfinished jobs at most", is: "number", value: queue.max_unfinished_jobs, orNull: true, hint: "more are refused (429); empty: no limit" },
    { name: "visibility_timeout_secs", label: "Lease, seconds", is: "number", value: queue.visibility_timeout_secs, hint: "without a heartbeat a job is lost after it" },
    { name: "quarantine_after", label: "Quarantine after", is: "number", value: queue.quarantine_after, hint: "crashes or lost leases within a day" },
    {
      name: "default_retry_policy", label: "Retry policy", is: "choice", value: queue.default_retry_policy ?? "", orNull: true, hint: "of jobs that name none",
      choices: [["", "the built-in one"], ...policies.map((name) => [name, name] as const)],
    },
    kept("completed_ms", "Completed kept for"),
    kept("cancelled_ms", "Cancelled kept for"),
    kept("dead_letter_ms", "Dead kept for"),
  ]; // prettier-ignore
}

export function EditQueue({ of, onClose }: { of: Queue; onClose: () => void }): JSX.Element | null {
  const policies = useAll<RetryPolicy>("/v1/retry-policies");
  if (!policies) return null;
  const save = async (body: object): Promise<string> => (await api.patch(`/v1/queues/${segment(of.name)}`, body), `${of.name} is changed.`);
  return <FormDialog title={`Edit ${of.name}`} inputs={inputsOf(of, namesOf(policies))} onlyChanged verb="Save" cancel="Keep as it is" onSend={save} onClose={onClose} />;
}

export function NewQueue({ onClose }: { onClose: () => void }): JSX.Element | null {
  const policies = useAll<RetryPolicy>("/v1/retry-policies");
  if (!policies) return null;
  const name: Input = { name: "name", label: "Name", required: true, hint: "letters, digits and _ . : / -" };
  const fields = inputsOf({ on_saturated: "queue" }, namesOf(policies)).map((input) => (input.orNull ? { ...input, orNull: false } : input));
  const make = async (body: Record<string, unknown>): Promise<string> => {
    const made = await api.post<Queue>("/v1/queues", body);
    go(to("queues", made.name));
    return `${made.name} is made.`;
  };
  return <FormDialog title="New queue" inputs={[name]} more={fields} verb="Make it" onSend={make} onClose={onClose} />;
}
