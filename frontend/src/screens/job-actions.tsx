/** What may be done with one job: what the server offers, for those who may, after a question where something is taken away. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Job, JobDetail } from "../api/types.ts";
import { shortId } from "../lib/format.ts";
import { go, to } from "../lib/route.ts";
import { Button, Field } from "../ui/basic.tsx";
import { act } from "../ui/bulk.tsx";
import { attempt, Confirm, type Deed, Dialog } from "../ui/dialog.tsx";

const SAYS: Record<string, (job: Job) => string> = {
  cancel: (job) => (job.lease ? "A worker runs it: it is asked to stop, and ends as cancelled." : "It will not run. Retry brings it back."),
  delete: () => "It is removed with its attempts and logs. This cannot be undone.",
  discard: () => "It leaves the dead letters and ends as cancelled.",
};

export function Actions({ job }: { job: JobDetail }): JSX.Element {
  const [deed, setDeed] = useState<Deed>();
  const [moving, setMoving] = useState(false);
  const begin = (action: string): void => {
    if (action === "reschedule") return setMoving(true);
    const run = async (): Promise<{ says: string }> => {
      const answer = await act(job.id, action);
      const fresh = (answer as { job?: Job } | undefined)?.job;
      if (action === "rerun" && fresh) go(to("jobs", fresh.id));
      if (action === "delete") go(to("jobs"));
      return { says: `${action}: ${job.job_type} ${shortId(job.id)}.` };
    };
    const says = SAYS[action];
    if (says) setDeed({ title: `${action} this job`, says: says(job), verb: action, danger: true, run });
    else void attempt(run);
  };
  const offered = may("operate") ? job.actions.filter((action) => action !== "edit") : [];
  return (
    <div class="row" role="group" aria-label="Actions">
      {offered.map((action) => (
        <Button key={action} kind={action === "retry" ? "main" : action in SAYS ? "danger" : "plain"} onClick={() => begin(action)}>
          {action}
        </Button>
      ))}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
      {moving && <Reschedule job={job} onClose={() => setMoving(false)} />}
    </div>
  );
}

function Reschedule({ job, onClose }: { job: JobDetail; onClose: () => void }): JSX.Element {
  const [fault, setFault] = useState("");
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const at = new Date(String(new FormData(event.currentTarget as HTMLFormElement).get("at")));
    try {
      await api.post(`/v1/jobs/${job.id}/reschedule`, { run_at: at.toISOString() });
      void attempt(async () => ({ says: "Rescheduled." }));
      onClose();
    } catch (error) {
      setFault((error as Error).message);
    }
  };
  return (
    <Dialog title="When shall it run?" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <Field label="On your own clock" fault={fault || undefined}>
          <input name="at" type="datetime-local" step={1} required />
        </Field>
        <div class="row end">
          <Button onClick={onClose}>Keep as it is</Button>
          <button class="button main">Reschedule</button>
        </div>
      </form>
    </Dialog>
  );
}
