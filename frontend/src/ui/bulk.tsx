/** Many jobs at once: first a plan that says what it will touch, then its progress, and a way back where there is one. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, type Failure, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Job } from "../api/jobs.ts";
import type { Kind, Operation } from "../api/operations.ts";
import { asFilter, isFiltered } from "../lib/filters.ts";
import { count, plural } from "../lib/format.ts";
import { refreshAll } from "../lib/live.ts";
import { RUNNING, useOperation } from "../lib/operation.ts";
import { useOver } from "../lib/over.ts";
import { to } from "../lib/route.ts";
import { Bar, Button } from "./basic.tsx";
import { Confirm, type Deed, Dialog, say } from "./dialog.tsx";
import { Named } from "./named.tsx";
import { Wrong } from "./states.tsx";

export const ACTIONS = ["retry", "cancel", "promote", "discard", "delete"] as const;
export type Action = (typeof ACTIONS)[number];
export const REMOVES: ReadonlySet<string> = new Set(["cancel", "discard", "delete", "remove_queue"]);

interface Props {
  query: URLSearchParams;
  rows: readonly Job[];
  selected: ReadonlySet<string>;
  onDone: () => void;
}

/** What may be done with the rows that are chosen, or with all that the filters match. */
export function BulkBar({ query, rows, selected, onDone }: Props): JSX.Element | null {
  const plan = usePlan();
  const [deed, setDeed] = useState<Deed>();
  const chosen = rows.filter((job) => selected.has(job.id));
  const offered = ACTIONS.filter((action) => chosen.some((job) => job.actions.includes(action)));
  if (!selected.size && !isFiltered(query)) return null;
  const fitting = (action: Action): Job[] => chosen.filter((job) => job.actions.includes(action));
  const actOnThem = async (action: Action): Promise<void> => {
    const fit = fitting(action);
    const results = await Promise.allSettled(fit.map((job) => act(job.id, action)));
    const failed = results.filter((result) => result.status === "rejected").length;
    say(`${action}: ${plural(fit.length - failed, "job")}${failed ? `, ${failed} could not` : ""}.`, undefined, failed ? "bad" : "good");
    onDone();
    refreshAll();
  };
  const begin = (action: Action): void => {
    if (!REMOVES.has(action)) return void actOnThem(action);
    const fit = fitting(action);
    const says = `This will ${action} ${plural(fit.length, "job")}: ${kindsOf(fit)}. ${AFTERWARDS[action] ?? ""}`;
    setDeed({ title: `${action} ${plural(fit.length, "job")}`, says, verb: action, danger: true, run: () => actOnThem(action) });
  };
  return (
    <div class="row card" role="toolbar" aria-label="Bulk actions">
      {selected.size ? (
        <>
          <strong>{plural(selected.size, "job")} chosen</strong>
          {offered.map((action) => (
            <Button key={action} kind={REMOVES.has(action) ? "danger" : "plain"} onClick={() => begin(action)}>
              {action} {fitting(action).length}
            </Button>
          ))}
          <Button onClick={onDone}>Choose none</Button>
        </>
      ) : (
        <>
          <span>All that match:</span>
          {ACTIONS.map((action) => (
            <Button key={action} busy={plan.isMaking} onClick={() => plan.make(action, asFilter(query))}>
              {action}…
            </Button>
          ))}
        </>
      )}
      {plan.error && <Wrong error={plan.error} />}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </div>
  );
}

const AFTERWARDS: Partial<Record<Action, string>> = {
  cancel: "Those that run are asked to stop; the others will not run.",
  discard: "They leave the dead letters and end as cancelled.",
  delete: "They go with their attempts and logs. This cannot be undone.",
};

/** "2 mail.send, 1 report.make": what a handful of jobs is made of. */
function kindsOf(jobs: readonly Job[]): string {
  const kinds = new Map<string, number>();
  for (const { job_type } of jobs) kinds.set(job_type, (kinds.get(job_type) ?? 0) + 1);
  return [...kinds].map(([type, n]) => `${n} ${type}`).join(", ");
}

/** One job's verb, by the route that it has. */
export function act(id: string, action: string): Promise<unknown> {
  return action === "delete" ? api.delete(`/v1/jobs/${id}`) : action === "discard" ? api.post(`/v1/dead-letters/${id}/resolve`, { action }) : api.post(`/v1/jobs/${id}/${action}`);
}

/** Makes plans. One that is made is shown by `Planned`, and has its place in the address: a link to it shows the same plan. */
export function usePlan(): { make: (action: Action, filter: Record<string, unknown>) => void; isMaking: boolean; error: Failure | undefined } {
  const over = useOver("plan");
  const [isMaking, setMaking] = useState(false);
  const [error, setError] = useState<Failure>();
  const make = async (action: Action, filter: Record<string, unknown>): Promise<void> => {
    setMaking(true);
    setError(undefined);
    try {
      over.open((await api.post<Operation>("/v1/operations", { action, filter, dry_run: true })).id);
    } catch (failure) {
      setError(failure as Failure);
    }
    setMaking(false);
  };
  return { make: (action, filter) => void make(action, filter), isMaking, error };
}

/** The plan that the address names: applied, followed to its end, and undone from here. */
export function Planned(): JSX.Element | null {
  const over = useOver("plan");
  if (!over.isOpen) return null;
  return (
    <Named<Operation> key={over.on} path={`/v1/operations/${segment(over.on)}`} onClose={over.close}>
      {(operation) => <Plan known={operation} onClose={over.close} />}
    </Named>
  );
}

function Plan({ known, onClose }: { known: Operation; onClose: () => void }): JSX.Element {
  const { operation = known, error, drifted, running, step } = useOperation(known);
  const { action, actions, estimate } = operation;
  const isPlanned = operation.status === "planned";
  const close = (): void => (refreshAll(), onClose());
  const offered = may("operate") ? actions : [];
  return (
    <Dialog title={`${action.replaceAll("_", " ")} all that match`} onClose={close}>
      {error && <Wrong error={error} />}
      {isPlanned ? <Touches of={operation} /> : <Progress of={operation} />}
      <div class="row end">
        <a href={to("operations", operation.id)}>This operation</a>
        {offered.includes("abort") && running && <Button onClick={() => step("abort")}>Stop here</Button>}
        {offered.includes("undo") && <Button onClick={() => step("undo")}>Undo</Button>}
        <Button onClick={close}>{isPlanned ? "Keep as it is" : "Close"}</Button>
        {isPlanned && offered.includes("apply") && (
          <Button kind={REMOVES.has(action) ? "danger" : "main"} disabled={estimate.count === 0} onClick={() => step("apply")}>
            {action} {count(estimate)} {estimate.count === 1 ? "job" : "jobs"}
            {drifted ? " all the same" : ""}
          </Button>
        )}
      </div>
    </Dialog>
  );
}

/** What a plan will touch, by state, type and error. */
export function Touches({ of }: { of: Operation }): JSX.Element {
  const kinds = (title: string, list: readonly Kind[] | undefined): JSX.Element | null =>
    list && list.length > 0 ? (
      <p class="dim wrap">
        {title}: {list.map((kind) => `${kind.name ?? "others"} ${count(kind.count)}`).join(", ")}
      </p>
    ) : null;
  return (
    <div>
      <p>
        This will {of.action} <strong>{count(of.estimate)}</strong> {of.estimate.count === 1 ? "job" : "jobs"}.{" "}
        {of.action === "delete" ? "It cannot be undone." : REMOVES.has(of.action) ? "It can be undone while the jobs are kept." : ""}
      </p>
      {kinds("By state", Object.entries(of.counts?.by_state ?? {}).map(([name, n]) => ({ name: name.replaceAll("_", " "), count: n })))}
      {kinds("By type", of.counts?.by_job_type)}
      {kinds("By error", of.counts?.by_error_class)}
    </div>
  );
}

/** How far an operation is. */
export function Progress({ of }: { of: Operation }): JSX.Element {
  return (
    <div>
      <p role="status">
        <strong>{of.status}</strong>: {count(of.affected)}
        {of.total === null ? "" : ` of ${count(of.total)}`} done{of.skipped ? `, ${count(of.skipped)} left alone` : ""}
        {of.undo ? `; ${count(of.undo.restored)} restored` : ""}
      </p>
      <Bar label="progress" share={of.progress ?? (RUNNING.has(of.status) ? 0 : 1)} />
      {Object.entries(of.skips).map(([why, n]) => (
        <p class="dim" key={why}>
          left alone, {why.replaceAll("_", " ")}: {count(n)}
        </p>
      ))}
      {of.error && <p class="fault wrap">{of.error}</p>}
    </div>
  );
}
