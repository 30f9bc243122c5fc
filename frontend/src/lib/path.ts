/**
 * The way that a job took through its states, from what is stored of it: its timeline and the attempts that have ended.
 *
 * Nothing writes this down while a job runs, so what lies between two events is filled in: before a claim it was queued,
 * after an attempt that failed and was not the last it was scheduled.
 */

export interface Passing {
  state: string;
  /** When it came there; null: not known. */
  at: string | null;
  attempt: number | null;
}

export interface Happened {
  at: string;
  event: string;
  attempt: number | null;
}

export interface Ended {
  attempt: number;
  started_at: string;
  queued_at: string;
}

export interface Traveller {
  state: string;
  created_at: string;
  run_at: string;
  finalized_at: string | null;
  parents?: readonly unknown[];
  is_held?: boolean;
}

const AT_ONCE_MS = 1_000;
const LATER: ReadonlySet<string> = new Set(["failed", "crashed", "lease_expired", "snoozed"]);
const LEASED: ReadonlySet<string> = new Set(["claimed", "running"]);
const ENDS: Readonly<Record<string, string>> = { completed: "completed", cancelled: "cancelled", discarded: "cancelled", dead_letter: "dead_letter" };
const BACK: Readonly<Record<string, string>> = { retried: "queued", released: "queued", promoted: "queued", rescheduled: "scheduled" };

/** The states in the order that they were passed; the last is where the job is now. */
export function pathOf(job: Traveller, events: readonly Happened[], attempts: readonly Ended[] = []): Passing[] {
  const way: Passing[] = [];
  const queuedAt = new Map(attempts.map((one) => [one.started_at, one.queued_at]));
  const come = (state: string, at: string | null, attempt: number | null = null): void => {
    if (way.at(-1)?.state !== state) way.push({ state, at, attempt });
  };
  const claimed = (at: string, attempt: number | null, isNow: boolean): void => {
    const queued = queuedAt.get(at) ?? null;
    if (!way.length) born(job, queued ?? (isNow ? job.run_at : null), come);
    if (LEASED.has(way.at(-1)?.state ?? "")) return;
    come("queued", queued);
    come("claimed", at, attempt);
  };
  for (const [index, { event, at, attempt }] of events.entries()) {
    if (event === "claimed" || event === "started") {
      claimed(at, attempt, event === "claimed");
      if (event === "started") come("running", at, attempt);
    } else if (event in ENDS || event in BACK) {
      if (!way.length) born(job, event === "promoted" ? at : job.run_at, come);
      come(ENDS[event] ?? BACK[event] ?? job.state, at, attempt);
    } else if (LATER.has(event)) {
      const next = events[index + 1];
      const isLast = next?.event === "dead_letter" || (!next && !["scheduled", "queued"].includes(job.state));
      if (!isLast) come("scheduled", at, attempt);
    }
  }
  if (!way.length && ["pending", "scheduled"].includes(job.state)) come(job.state, job.created_at);
  if (!way.length) born(job, job.run_at, come);
  if (way.at(-1)?.state === "scheduled" && LEASED.has(job.state)) come("queued", job.run_at);
  come(job.state, job.finalized_at ?? (job.state === "queued" ? job.run_at : null));
  return way;
}

/** How it began. `queuedAt`: when it first could run, as far as that is known. */
function born(job: Traveller, queuedAt: string | null, come: (state: string, at: string | null) => void): void {
  const waited = queuedAt === null ? 0 : Date.parse(queuedAt) - Date.parse(job.created_at);
  if (job.parents?.length || job.is_held) come("pending", job.created_at);
  else if (waited > AT_ONCE_MS) come("scheduled", job.created_at);
  else come("queued", job.created_at);
}

/** How often the way went from one state to the next: "running>scheduled" → 3. */
export function steps(way: readonly Passing[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const [index, { state }] of way.slice(1).entries()) {
    const step = `${way[index]?.state}>${state}`;
    found.set(step, (found.get(step) ?? 0) + 1);
  }
  return found;
}

/** How long it stayed in each state of the way, in ms; null where an instant is not known. The last one lasts until `now` unless it is final. */
export function stays(way: readonly Passing[], now: number, isFinal: boolean): (number | null)[] {
  return way.map(({ at }, index) => {
    const next = way[index + 1];
    if (at === null || (next && next.at === null) || (!next && isFinal)) return null;
    return Math.max(0, (next?.at ? Date.parse(next.at) : now) - Date.parse(at));
  });
}
