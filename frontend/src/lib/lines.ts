/** A job's log: read to its end, then what comes behind it. */

import { useEffect, useState } from "preact/hooks";

import { api, type Failure } from "../api/http.ts";
import type { LogLine } from "../api/jobs.ts";
import type { Listed } from "../api/listed.ts";
import { isStill, onChange } from "./live.ts";

/** The API keeps so many. */
const MOST = 10_000;
const PAGE = 200;
const LIVE_MS = 2_000;

export interface Lines {
  /** In blocks as they came: what is there already is not drawn anew. */
  blocks: readonly (readonly LogLine[])[];
  loading: boolean;
  error: Failure | undefined;
  reload: () => void;
}

/** The last of the blocks, as many as hold the most lines. */
export function bounded<T>(blocks: readonly (readonly T[])[], most = MOST): readonly (readonly T[])[] {
  let left = most;
  let from = blocks.length;
  while (from > 0 && left > 0) left -= blocks[(from -= 1)]?.length ?? 0;
  return blocks.slice(from);
}

/** The lines at `path` of at least this level ("" for all). `isLive`: a worker may be writing now. */
export function useLines(path: string, level: string, isLive: boolean): Lines {
  const [state, set] = useState<Omit<Lines, "reload">>({ blocks: [], loading: true, error: undefined });
  const [turn, again] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let blocks: readonly (readonly LogLine[])[] = [];
    let last = "";
    let busy = false;
    const read = async (): Promise<void> => {
      if (busy) return;
      busy = true;
      try {
        for (let more = true; more; ) {
          const page = await api.get<Listed<LogLine>>(path, { query: { after: last, level, limit: PAGE }, signal: stop.signal });
          last = page.items.at(-1)?.id ?? last;
          more = page.next_cursor !== null && page.items.length > 0;
          if (page.items.length) blocks = bounded([...blocks, page.items]);
          if (page.items.length || !more) set({ blocks, loading: false, error: undefined });
        }
      } catch (error) {
        if (!stop.signal.aborted) set({ blocks, loading: false, error: error as Failure });
      } finally {
        busy = false;
      }
    };
    void read();
    const off = onChange(["jobs"], () => void read());
    const timer = isLive ? setInterval(() => !isStill() && void read(), LIVE_MS) : undefined;
    return () => (stop.abort(), off(), clearInterval(timer));
  }, [path, level, isLive, turn]);
  return { ...state, reload: () => again(turn + 1) };
}
