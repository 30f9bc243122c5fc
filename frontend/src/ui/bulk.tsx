/** Many jobs at once: first a plan that says what it will touch, then its progress, and a way back where there is one. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { api, type Failure } from "../api/http.ts";
import type { Job, Operation } from "../api/types.ts";
import { asFilter, isFiltered } from "../lib/filters.ts";
import { count, number, plural } from "../lib/format.ts";
import { refreshAll } from "../lib/live.ts";
import { to } from "../lib/route.ts";
import { Bar, Button } from "./basic.tsx";
import { Dialog, say } from "./dialog.tsx";
import { Wrong } from "./states.tsx";

export const ACTIONS = ["retry", "cancel", "promote", "discard", "delete"] as const;
export type Action = (typeof ACTIONS)[number];
const REMOVES: ReadonlySet<string> = new Set(["cancel", "discard", "delete"]);
const OVER: ReadonlySet<string> = new Set(["completed", "failed", "aborted", "undone"]);

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
export function Plan({ action, filter, onClose }: { action: Action; filter: Record<string, unknown>; onClose: () => void }): JSX.Element {
  const [operation, setOperation] = useState<Operation>();
  const [error, setError] = useState<Failure>();
  const attempt = async (work: () => Promise<Operation>): Promise<void> => {
    setError(undefined);
    try {
      setOperation(await work());
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  useEffect(() => void attempt(() => api.post<Operation>("/v1/operations", { action, filter, dry_run: true })), []);
  const running = operation && operation.status !== "planned" && !OVER.has(operation.status);
  useEffect(() => {
    if (!running) return;
    const timer = setTimeout(() => void attempt(() => api.get<Operation>(`/v1/operations/${operation.id}`)), 700);
    return () => clearTimeout(timer);
  }, [operation, running]);
  const total = operation ? number(operation.total) : 0;
  const close = (): void => (refreshAll(), onClose());
  return (
    <Dialog title={`${action} all that match`} onClose={close}>
      {error && <Wrong error={error} />}
      {!operation && !error && <div class="loading" role="status" aria-label="making the plan" />}
      {operation?.status === "planned" && (
        <p>
          This will {action} <strong>{plural(total, "job")}</strong>. {REMOVES.has(action) ? "Cancel and discard can be undone while the jobs are kept; delete cannot." : ""}
        </p>
      )}
      {operation && operation.status !== "planned" && (
        <>
          <p role="status">
            {operation.status}: {count(operation.affected)} of {count(operation.total)}
          </p>
          <Bar label="progress" share={total ? operation.affected / total : 1} />
          {operation.error && <p class="fault">{operation.error}</p>}
        </>
      )}
      <div class="row end">
        {operation && <a href={to("operations", operation.id)}>This operation</a>}
        {running && <Button onClick={() => void attempt(() => api.post<Operation>(`/v1/operations/${operation.id}/abort`))}>Stop here</Button>}
        <Button onClick={close}>{operation?.status === "planned" ? "Keep as it is" : "Close"}</Button>
        {operation?.status === "planned" && (
          <Button kind={REMOVES.has(action) ? "danger" : "main"} disabled={total === 0} onClick={() => void attempt(() => api.post<Operation>(`/v1/operations/${operation.id}/apply`))}>
            {action} {plural(total, "job")}
          </Button>
        )}
      </div>
    </Dialog>
  );
}
