/** What a job that waits can still be told: payload, priority, tags, version. And when it is to run. */

import type { JSX } from "preact";

import { api } from "../api/http.ts";
import type { JobDetail } from "../api/jobs.ts";
import type { Body, Input } from "../lib/forms.ts";
import { useResource } from "../lib/live.ts";
import { FormDialog } from "../ui/form.tsx";

export function EditJob({ job, onClose }: { job: JobDetail; onClose: () => void }): JSX.Element | null {
  const me = useResource<{ sees_payloads: boolean }>("/v1/me", ["overview"]).value;
  if (!me) return null;
  const payload: Input = { name: "payload", label: "Payload (JSON)", is: "json", value: job.payload, required: true };
  const inputs: Input[] = [
    { name: "priority", label: "Priority", is: "number", value: job.priority, required: true, hint: "a higher one goes first" },
    { name: "schema_version", label: "Version of the payload", is: "number", value: job.schema_version },
    { name: "tags", label: "Tags, one per line", is: "lines", value: job.tags },
    ...(me.sees_payloads ? [payload] : []),
  ];
  const save = async (body: Body): Promise<string> => (await api.patch(`/v1/jobs/${job.id}`, body), `Changed: ${Object.keys(body).join(", ").replaceAll("_", " ")}.`);
  return <FormDialog title="Edit this job" inputs={inputs} onlyChanged verb="Save" cancel="Keep as it is" onSend={save} onClose={onClose} />;
}

export function Reschedule({ job, onClose }: { job: JobDetail; onClose: () => void }): JSX.Element {
  const input: Input = { name: "run_at", label: "On your own clock", is: "instant", value: job.run_at, required: true, hint: "a time behind the clock means now" };
  const save = async (body: Body): Promise<string> => (await api.post(`/v1/jobs/${job.id}/reschedule`, body), "Rescheduled.");
  return <FormDialog title="When shall it run?" inputs={[input]} verb="Reschedule" cancel="Keep as it is" onSend={save} onClose={onClose} />;
}
