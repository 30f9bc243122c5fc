/** Many jobs at once: first a plan that says what it will touch, then its progress, and a way back where there is one. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { api } from "../api/http.ts";
import type { Job, Kind, Operation } from "../api/types.ts";
import { asFilter, isFiltered } from "../lib/filters.ts";
import { count, plural } from "../lib/format.ts";
import { refreshAll } from "../lib/live.ts";
import { RUNNING, useOperation } from "../lib/operation.ts";
import { to } from "../lib/route.ts";
import { Bar, Button } from "./basic.tsx";
import { Dialog, say } from "./dialog.tsx";
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
  const [planned, setPlanned] = useState<{ action: Action; filter: Record<string, unknown> }>();
  const chosen = rows.filter((job) => selected.has(job.id));
  const offered = ACTIONS.filter((action) => chosen.some((job) => job.actions.includes(action)));
  if (!selected.size && !isFiltered(query)) return null;
  const one = async (action: Action): Promise<void> => {
    const fit = chosen.filter((job) => job.actions.includes(action));
    const results = await Promise.allSettled(fit.map((job) => act(job.id, action)));
    const failed = results.filter((result) => result.status === "rejected").length;
    say(`${action}: ${plural(fit.length - failed, "job")}${failed ? `, ${failed} could not` : ""}.`, undefined, failed ? "bad" : "good");
    onDone();
    refreshAll();
  };
  return (
    <div class="row card" role="toolbar" aria-label="Bulk actions">
      {selected.size ? (
        <>
          <strong>{plural(selected.size, "job")} chosen</strong>
          {offered.map((action) => (
            <Button key={action} kind={REMOVES.has(action) ? "danger" : "plain"} onClick={() => void one(action)}>
              {action} {chosen.filter((job) => job.actions.includes(action)).length}
            </Button>
          ))}
          <Button onClick={onDone}>Choose none</Button>
        </>
      ) : (
        <>
          <span>All that match:</span>
          {ACTIONS.map((action) => (
            <Button key={action} onClick={() => setPlanned({ action, filter: asFilter(query) })}>
              {action}…
            </Button>
          ))}
        </>
      )}
      {planned && <Plan {...planned} onClose={() => setPlanned(undefined)} />}
    </div>
  );
}

/** One job's verb, by the route that it has. */
export function act(id: string, action: string): Promise<unknown> {
  return action === "delete" ? api.delete(`/v1/jobs/${id}`) : action === "discard" ? api.post(`/v1/dead-letters/${id}/resolve`, { action }) : api.post(`/v1/jobs/${id}/${action}`);
}

/** Makes the plan, shows it, applies it, and follows it to its end. */
export function Plan({ action, filter, onClose }: { action: string; filter: Record<string, unknown>; onClose: () => void }): JSX.Element {
  const { operation, error, drifted, running, begin, step } = useOperation();
  useEffect(() => void begin(() => api.post<Operation>("/v1/operations", { action, filter, dry_run: true })), []);
  const close = (): void => (refreshAll(), onClose());
  const planned = operation?.status === "planned" ? operation : undefined;
  return (
    <Dialog title={`${action} all that match`} onClose={close}>
      {error && <Wrong error={error} />}
      {!operation && !error && <div class="loading" role="status" aria-label="making the plan" />}
      {planned && <Touches of={planned} />}
      {operation && !planned && <Progress of={operation} />}
      <div class="row end">
        {operation && <a href={to("operations", operation.id)}>This operation</a>}
        {operation?.actions.includes("abort") && running && <Button onClick={() => step("abort")}>Stop here</Button>}
        {operation?.actions.includes("undo") && <Button onClick={() => step("undo")}>Undo</Button>}
        <Button onClick={close}>{planned ? "Keep as it is" : "Close"}</Button>
        {planned && (
          <Button kind={REMOVES.has(action) ? "danger" : "main"} disabled={planned.estimate.count === 0} onClick={() => step("apply")}>
            {action} {count(planned.estimate)} {planned.estimate.count === 1 ? "job" : "jobs"}
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
