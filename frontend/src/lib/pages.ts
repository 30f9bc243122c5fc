/** A list that is read page by page as one goes down, and read again from the top when it changes. */

import { useEffect, useMemo, useState } from "preact/hooks";

import { api, type Failure } from "../api/http.ts";
import { PAGE } from "./ahead.ts";
import { now } from "./clock.ts";
import { onChange, type Topic } from "./live.ts";

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface List<T> {
  rows: readonly T[];
  error: Failure | undefined;
  /** Not one page has come yet. */
  loading: boolean;
  /** There is more to come. */
  more: boolean;
  at: number;
  reload: () => void;
  onEnd: () => void;
}

const READ_AGAIN = 3;
const MOST_ROWS = 10_000;
/** A page may be short or empty though there is more (the API bounds its work): so many in a row are asked for at once. */
const EMPTY_IN_A_ROW = 20;

/** New rows over old: those read again in the order they came, then what was below them. */
export function merged<T>(fresh: readonly T[], old: readonly T[], id: (row: T) => string, isWhole: boolean): T[] {
  if (isWhole) return [...fresh];
  const seen = new Set(fresh.map(id));
  const lastFresh = fresh.at(-1);
  const from = lastFresh === undefined ? 0 : old.findIndex((row) => id(row) === id(lastFresh)) + 1;
  return [...fresh, ...old.slice(from).filter((row) => !seen.has(id(row)))];
}

/** The list at `path` with this query. `path` null: nothing yet. */
export function usePages<T>(path: string | null, query: URLSearchParams, topics: readonly Topic[], id: (row: T) => string): List<T> {
  const key = path === null ? null : `${api.project} ${path}?${query}`;
  const [state, set] = useState<{ key: string | null; rows: readonly T[]; cursor: string | null; error: Failure | undefined; at: number; read: boolean }>(
    { key: null, rows: [], cursor: null, error: undefined, at: 0, read: false },
  );
  const about = topics.join();

  const reader = useMemo(() => {
    const stop = new AbortController();
    let rows: readonly T[] = [];
    let cursor: string | null = null;
    let pages = 0;
    let busy = false;

    const page = async (after: string | null): Promise<Page<T>> => {
      const search = new URLSearchParams(query);
      search.set("limit", String(PAGE));
      if (after) search.set("cursor", after);
      return api.get<Page<T>>(path ?? "", { query: search, signal: stop.signal });
    };
    const shown = (error?: Failure): void => {
      if (!stop.signal.aborted) set({ key, rows, cursor, error, at: error && pages ? stateAt : (stateAt = now()), read: true });
    };
    let stateAt = 0;
    const guarded = async (work: () => Promise<void>): Promise<void> => {
      if (path === null || busy) return;
      busy = true;
      try {
        await work();
        shown();
      } catch (error) {
        shown(error as Failure);
      } finally {
        busy = false;
      }
    };
    const top = (): Promise<void> =>
      guarded(async () => {
        const fresh: T[] = [];
        let after: string | null = null;
        let turns = 0;
        const wanted = Math.min(Math.max(1, pages), READ_AGAIN);
        do {
          const answer: Page<T> = await page(after);
          fresh.push(...answer.items);
          after = answer.next_cursor;
          turns += 1;
        } while (after !== null && (turns < wanted || (fresh.length === 0 && turns < EMPTY_IN_A_ROW)));
        const isWhole = after === null || pages <= READ_AGAIN;
        rows = merged(fresh, rows, id, isWhole);
        if (isWhole) [cursor, pages] = [after, turns];
      });
    const next = (): Promise<void> =>
      guarded(async () => {
        for (let turn = 0; cursor !== null && turn < EMPTY_IN_A_ROW && rows.length < MOST_ROWS; turn += 1) {
          const answer = await page(cursor);
          const seen = new Set(rows.map(id));
          rows = [...rows, ...answer.items.filter((row) => !seen.has(id(row)))];
          cursor = answer.next_cursor;
          pages += 1;
          if (answer.items.length) break;
        }
      });
    return { top, next, stop: () => stop.abort() };
  }, [key]);

  useEffect(() => {
    void reader.top();
    const off = onChange(about.split(",") as Topic[], () => void reader.top());
    return () => (off(), reader.stop());
  }, [reader, about]);

  const mine = state.key === key;
  return {
    rows: mine ? state.rows : [],
    error: mine ? state.error : undefined,
    loading: !mine || !state.read,
    more: mine && state.cursor !== null && state.rows.length < MOST_ROWS,
    at: state.at,
    reload: () => void reader.top(),
    onEnd: () => void (mine && state.cursor !== null && reader.next()),
  };
}
