/** What a screen asks first, so that it can be asked while the API still tells who asks: one round trip less until something shows. */

import { asked } from "./filters.ts";
import type { Place } from "./route.ts";

export const PAGE = 100;

const LISTED: ReadonlySet<string> = new Set(["jobs", "dead-letters", "queues", "schedules", "batches", "workers", "operations"]);

/** The path with its query; null where nothing is asked, or not at once. */
export function firstAsked({ path: [screen = "", one], query }: Place): string | null {
  if (screen === "") return "/v1/stats/overview";
  if (!LISTED.has(screen)) return null;
  if (one) return `/v1/${screen}/${encodeURIComponent(one)}`;
  const search = screen === "jobs" ? asked(query) : new URLSearchParams(screen === "dead-letters" && query.get("view") !== "jobs" ? { group_by: "error" } : {});
  search.set("limit", String(PAGE));
  return `/v1/${screen}?${search}`;
}
