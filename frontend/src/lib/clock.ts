/** One ticking clock for all relative times of the page: the server's, as far as its answers tell it. */

import { useEffect, useState } from "preact/hooks";

const watchers = new Set<(now: number) => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** An answer tells whole seconds, and when it was written lies somewhere in the round trip: less than this is no difference. */
const NOTHING_MS = 3_000;
const SLOW_MS = 5_000;
let ahead = 0;

/** How far the server's clock is ahead of this machine's, in ms (negative: behind), given an answer's `Date` and when it was asked for and came. */
export function skewOf(date: string | null, askedAt: number, cameAt: number): number | undefined {
  const told = date === null ? Number.NaN : Date.parse(date);
  if (!Number.isFinite(told) || cameAt - askedAt > SLOW_MS) return undefined;
  const skew = told + 500 - (askedAt + cameAt) / 2;
  return Math.abs(skew) < NOTHING_MS ? 0 : Math.round(skew);
}

/** Learn from an answer what time it is there. */
export function hear(date: string | null, askedAt: number): void {
  const skew = skewOf(date, askedAt, Date.now());
  // an answer's second and its way move it about: what differs by less is the same
  if (skew !== undefined && (skew === 0 || Math.abs(skew - ahead) > NOTHING_MS)) ahead = skew;
}

/** The server's time now, in ms since 1970: what instants of the API are to be held against. */
export function now(): number {
  return Date.now() + ahead;
}

/** How far the server's clock is ahead of this machine's, in ms; 0 where it makes no difference. */
export function skew(): number {
  return ahead;
}

function tick(): void {
  if (!document.hidden) for (const watcher of watchers) watcher(now());
}

/** The server's time now, drawn again every second while the tab is seen. */
export function useNow(): number {
  const [at, set] = useState(now);
  useEffect(() => {
    watchers.add(set);
    timer ??= setInterval(tick, 1_000);
    return () => {
      watchers.delete(set);
      if (watchers.size === 0) {
        clearInterval(timer);
        timer = undefined;
      }
    };
  }, []);
  return at;
}
