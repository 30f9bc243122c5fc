/**
 * What is on the screen stays true: `useResource` reads, keeps, and reads again when the API says that something changed.
 *
 * One long poll of `/v1/changes` serves the whole page. It rests while the tab is hidden, and while rows are selected
 * (`holdStill`), so that nothing moves under a finger.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { api, Failure, Problem, Unreachable } from "../api/http.ts";
import { now } from "./clock.ts";

export type Topic = "jobs" | "queues" | "schedules" | "workers" | "overview";

const POLL_MS = 5_000;
const AWAY_MS = 2_000;
const BURST_MS = 700;

interface Changes {
  cursor?: string;
  next_cursor?: string;
  jobs?: unknown[];
  queues?: unknown[];
  schedules?: unknown[];
  workers?: unknown[];
  truncated?: boolean;
  overview?: unknown;
}

type Listener = (topics: ReadonlySet<Topic> | null) => void;
const listeners = new Set<Listener>();
let holds = 0;

/** Nothing is read anew until the returned function is called. */
export function holdStill(): () => void {
  holds += 1;
  let held = true;
  return () => {
    if (held) holds -= 1;
    held = false;
  };
}

/** Is the page to leave what it shows as it is? */
export function isStill(): boolean {
  return holds > 0 || document.hidden;
}

/** Tell everybody that all may have changed: after an action of one's own, or of R. */
export function refreshAll(): void {
  for (const listener of listeners) listener(null);
}

/** Be told when one of the topics changes, or the tab comes back. Returns what ends it. */
export function onChange(topics: readonly Topic[], act: () => void): () => void {
  const mine = new Set(topics);
  const listener: Listener = (changed) => {
    if (changed === null || [...changed].some((topic) => mine.has(topic))) act();
  };
  const back = (): void => {
    if (!isStill()) act();
  };
  listeners.add(listener);
  document.addEventListener("visibilitychange", back);
  return () => {
    listeners.delete(listener);
    document.removeEventListener("visibilitychange", back);
  };
}

/** Which topics an answer is about. */
export function topicsOf(changes: Changes): Set<Topic> {
  if (changes.truncated) return new Set(["jobs", "queues", "schedules", "workers", "overview"]);
  const topics = new Set<Topic>();
  for (const topic of ["jobs", "queues", "schedules", "workers"] as const) if (changes[topic]?.length) topics.add(topic);
  if (topics.size || changes.overview) topics.add("overview");
  return topics;
}

/** Follow the project until the returned function is called. Where the API has no changes to tell, every few seconds count as one. */
export function follow(): () => void {
  const stop = new AbortController();
  void run(stop.signal);
  return () => stop.abort();
}

async function run(signal: AbortSignal): Promise<void> {
  let cursor: string | undefined;
  const untold = new Set<Topic>(); // what came while nothing was to move is told once it may
  const tell = (): void => {
    if (!untold.size || isStill()) return;
    for (const listener of listeners) listener(new Set(untold));
    untold.clear();
  };
  while (!signal.aborted) {
    if (isStill()) {
      await pause(300, signal);
      continue;
    }
    tell();
    try {
      const query = { since: cursor, wait_ms: cursor ? 15_000 : 0 };
      const changes = await api.get<Changes>("/v1/changes", { query, signal });
      if (cursor) for (const topic of topicsOf(changes)) untold.add(topic);
      cursor = changes.cursor ?? changes.next_cursor;
      tell();
      await pause(BURST_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status === 422) cursor = undefined;
      await pause(error instanceof Unreachable ? AWAY_MS : POLL_MS, signal);
      if (!isStill()) refreshAll();
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/** What is known of something. `at`: when it was read; `error`: why it could not be read anew (what was read before is kept). */
export interface Resource<T> {
  value: T | undefined;
  error: Failure | undefined;
  at: number;
  loading: boolean;
  reload: () => void;
}

interface Kept {
  value: unknown;
  etag: string | null;
  at: number;
}

/** Answers by path, for a page that comes back to a screen. Bounded: the oldest goes. */
const kept = new Map<string, Kept>();
const KEPT = 60;

/** Forget everything that was read: somebody else signs in. */
export function forgetAll(): void {
  kept.clear();
}

/**
 * The answer of a GET. `path` null: nothing yet. `topics`: what it is about; with none it is read again only by `reload`.
 * Two things at least make it fresh: a change of its topics, and the tab coming back.
 */
export function useResource<T>(path: string | null, topics: readonly Topic[] = []): Resource<T> {
  const key = path === null ? null : `${api.project} ${path}`;
  const [state, set] = useState<{ key: string | null; error: Failure | undefined; loading: boolean }>({ key, error: undefined, loading: true });
  const wanted = useRef(key);
  wanted.current = key;
  const about = topics.join();

  const load = useMemo(() => {
    let running: AbortController | null = null;
    const read = async (): Promise<void> => {
      if (path === null || key === null || running) return;
      const mine = (running = new AbortController());
      try {
        const before = kept.get(key);
        const answer = await api.fresh<T>(path, { etag: before?.etag ?? null, signal: mine.signal });
        if (answer) keep(key, { value: answer.value, etag: answer.etag, at: now() });
        else if (before) before.at = now();
        if (wanted.current === key) set({ key, error: undefined, loading: false });
      } catch (error) {
        if (!mine.signal.aborted && wanted.current === key) set({ key, error: error as Failure, loading: false });
      } finally {
        if (running === mine) running = null;
      }
    };
    return { read, stop: () => running?.abort() };
  }, [key]);

  useEffect(() => {
    if (key === null) return;
    if (!kept.has(key)) set({ key, error: undefined, loading: true });
    void load.read();
    const off = onChange(about.split(",") as Topic[], () => void load.read());
    return () => (off(), load.stop());
  }, [key, about, load]);

  const known = key === null ? undefined : kept.get(key);
  return {
    value: known?.value as T | undefined,
    at: known?.at ?? 0,
    error: state.key === key ? state.error : undefined,
    loading: !known && (state.key !== key || state.loading),
    reload: () => void load.read(),
  };
}

function keep(key: string, value: Kept): void {
  kept.delete(key);
  kept.set(key, value);
  for (const oldest of kept.keys()) {
    if (kept.size <= KEPT) break;
    kept.delete(oldest);
  }
}
