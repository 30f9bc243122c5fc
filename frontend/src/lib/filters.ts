/** The filters of the list of jobs: their names are the API's, so that the page's own link says what was asked. */

import { NO_FILTERS } from "./over.ts";

export const STATES = ["pending", "scheduled", "queued", "claimed", "running", "retrying", "completed", "cancelled", "dead_letter", "quarantined"] as const;

/** One text field each, beside state and search. */
export const FIELDS = [
  "queue", "job_type", "job_type_prefix", "tag", "any_tag", "partition_key", "rate_class", "priority", "fingerprint", "batch_id", "scheduled_job_id",
  "worker_id", "principal_id", "correlation_id", "error_class", "error_group", "created_after", "created_before",
] as const; // prettier-ignore

export const SORTS = ["-created_at", "created_at", "-run_at", "run_at", "-finalized_at", "finalized_at"] as const;

const MANY = new Set(["state", "tag", "any_tag"]);

/**
 * What of a link's query the API is asked: each name once but for those that may repeat. A name that the API does not know is
 * asked as well, and refused there: leaving it out would ask for more than the link says, and a plan would touch it. What is open
 * over the list (`open`, `on`) and its `columns` are no filters.
 */
export function asked(query: URLSearchParams): URLSearchParams {
  const search = new URLSearchParams();
  for (const [name, value] of query) if (value && !NO_FILTERS.has(name) && (MANY.has(name) || !search.has(name))) search.append(name, value);
  return search;
}

/** Is anything asked that could leave rows out? */
export function isFiltered(query: URLSearchParams): boolean {
  return [...asked(query).keys()].some((name) => name !== "sort");
}

/** The filter of a bulk plan: repeated names as lists. Sorting is no filter. */
export function asFilter(query: URLSearchParams): Record<string, string | string[] | number> {
  const filter: Record<string, string | string[] | number> = {};
  for (const [name, value] of asked(query)) {
    if (name === "sort") continue;
    if (name === "priority") filter[name] = Number(value);
    else if (MANY.has(name)) filter[name] = [...((filter[name] as string[] | undefined) ?? []), value];
    else filter[name] = value;
  }
  return filter;
}
