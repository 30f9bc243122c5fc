/** A whole list at once, where it is a short one: names to choose from, who uses what. */

import { useEffect, useState } from "preact/hooks";

import { api } from "../api/http.ts";

const PAGE = 200;
const MOST_PAGES = 10;

/** Up to two thousand rows of a list; undefined until they are here, or where they cannot be read. */
export function useAll<T>(path: string): readonly T[] | undefined {
  const [rows, set] = useState<readonly T[]>();
  useEffect(() => {
    const stop = new AbortController();
    const read = async (): Promise<void> => {
      const found: T[] = [];
      let cursor: string | null = null;
      for (let page = 0; page < MOST_PAGES; page += 1) {
        const answer: { items: T[]; next_cursor?: string | null } = await api.get(path, { query: { limit: PAGE, cursor }, signal: stop.signal });
        found.push(...answer.items);
        cursor = answer.next_cursor ?? null;
        if (!cursor) break;
      }
      set(found);
    };
    read().catch(() => undefined);
    return () => stop.abort();
  }, [path]);
  return rows;
}

export const namesOf = (rows: readonly { name: string }[] | undefined): string[] => rows?.map((row) => row.name) ?? [];
