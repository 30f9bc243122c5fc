/** What may be done with one job: what the server offers, for those who may, after a question where something is taken away. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";

import { api } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Job, JobDetail } from "../api/jobs.ts";
import { shortId } from "../lib/format.ts";
import { useOver } from "../lib/over.ts";
import { go, to, toWith } from "../lib/route.ts";
import { Button } from "../ui/basic.tsx";
import { act } from "../ui/bulk.tsx";
import { attempt, Confirm, type Deed } from "../ui/dialog.tsx";
import { EditJob, Reschedule } from "./job-edit.tsx";

const SAYS: Record<string, (job: Job) => string> = {
  cancel: (job) => (job.lease ? "A worker runs it: it is asked to stop, and ends as cancelled." : "It will not run. Retry brings it back."),
  delete: () => "It is removed with its attempts and logs. This cannot be undone.",
  discard: () => "It leaves the dead letters and ends as cancelled.",
};

export function Actions({ job }: { job: JobDetail }): JSX.Element {
  const [deed, setDeed] = useState<Deed>();
  const forms = { edit: useOver("edit"), reschedule: useOver("reschedule") };
  const begin = (action: string): void => {
    if (action === "reschedule" || action === "edit") return forms[action].open();
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
  const force = (): void =>
    setDeed({
      title: "Cancel this job by force",
      says: "Its lease ends at once and it is cancelled. A worker that still is at it goes on until it hears of that, and what it reports is refused.",
      verb: "Cancel by force",
      danger: true,
      run: async () => (await api.post(`/v1/jobs/${job.id}/cancel`, { force: true }), { says: `Cancelled by force: ${job.job_type} ${shortId(job.id)}.` }),
    });
  const offered = may("operate") ? job.actions : [];
  const begun = useRef<Set<string>>(new Set());
  /** What one has begun to write stays, also when the job goes on meanwhile: saving says what is in the way. */
  const shows = (form: "edit" | "reschedule"): boolean => {
    if (!forms[form].isOpen) begun.current.delete(form);
    else if (offered.includes(form)) begun.current.add(form);
    return begun.current.has(form);
  };
  return (
    <div class="row" role="group" aria-label="Actions">
      {offered.map((action) => (
        <Button key={action} kind={action === "retry" ? "main" : action in SAYS ? "danger" : "plain"} onClick={() => begin(action)}>
          {action}
        </Button>
      ))}
      {offered.includes("cancel") && job.lease?.cancel_requested_at && (
        <Button kind="danger" onClick={force}>
          cancel by force
        </Button>
      )}
      {may("enqueue") && <a href={toWith({ from: job.id }, "new-job")}>Enqueue one like it</a>}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
      {shows("edit") && <EditJob job={job} onClose={forms.edit.close} />}
      {shows("reschedule") && <Reschedule job={job} onClose={forms.reschedule.close} />}
    </div>
  );
}
