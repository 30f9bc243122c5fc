/** What a screen shows when there is nothing, not yet anything, or something old. */

import type { ComponentChildren, JSX } from "preact";

import { type Failure, Problem } from "../api/http.ts";
import { useNow } from "../lib/clock.ts";
import { duration } from "../lib/format.ts";
import type { Resource } from "../lib/live.ts";
import { Button } from "./basic.tsx";

/** Nothing yet: what would be here, and how the first one comes to be. */
export function NothingYet({ what, children }: { what: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">No {what} yet</p>
      <div>{children}</div>
    </div>
  );
}

/** Nothing matches: what was asked leaves nothing, though there may be something. */
export function NothingMatches({ what, onClear }: { what: string; onClear: () => void }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">No {what} match these filters</p>
      <Button onClick={onClear}>Clear the filters</Button>
    </div>
  );
}

/** Something went wrong: the API's own words, its request id, and another try. */
export function Wrong({ error, onRetry }: { error: Failure; onRetry?: () => void }): JSX.Element {
  const problem = error instanceof Problem ? error : undefined;
  return (
    <div class="wrong" role="alert">
      <p>
        <strong>{problem?.status === 403 ? "Not allowed: " : problem?.status === 404 ? "Not there: " : ""}</strong>
        {error.message}
      </p>
      {problem?.errors.map((fault) => (
        <p key={fault.loc.join(".")}>
          <code>{fault.loc.join(".")}</code> {fault.msg}
        </p>
      ))}
      {problem?.requestId && <p class="dim">request {problem.requestId}</p>}
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** The content of a resource: a wait, an error, or the value; and when only an old value is at hand, how old it is. */
export function Shown<T>({ of, children }: { of: Resource<T>; children: (value: T) => ComponentChildren }): JSX.Element {
  if (of.value === undefined) {
    if (of.error) return <Wrong error={of.error} onRetry={of.reload} />;
    return (
      <div class="loading" role="status">
        <span class="sr">loading</span>
      </div>
    );
  }
  return (
    <>
      {of.error && <Stale at={of.at} error={of.error} onRetry={of.reload} />}
      {children(of.value)}
    </>
  );
}

/** What went wrong with a list: above rows that were read before, their age as well. */
export function ListTrouble({ of }: { of: { error: Failure | undefined; rows: readonly unknown[]; at: number; reload: () => void } }): JSX.Element | null {
  if (!of.error) return null;
  return of.rows.length ? <Stale at={of.at} error={of.error} onRetry={of.reload} /> : <Wrong error={of.error} onRetry={of.reload} />;
}

function Stale({ at, error, onRetry }: { at: number; error: Failure; onRetry: () => void }): JSX.Element {
  const now = useNow();
  return (
    <p class="stale" role="status">
      As of {duration(now - at)} ago: {error.message}. <Button onClick={onRetry}>Try again</Button>
    </p>
  );
}
