/** Where the page is: `#/p/<project>/jobs?state=queued`. All that a link needs is in there, and nothing secret. */

import { useEffect, useState } from "preact/hooks";

/** A place: its segments without project, and its query (a key may repeat). */
export interface Place {
  project: string;
  path: string[];
  query: URLSearchParams;
}

/** The place that a fragment names. Unknown and broken fragments are the overview. */
export function parse(fragment: string): Place {
  const [path = "", query = ""] = fragment.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  if (parts[0] === "p") return { project: parts[1] ?? "", path: parts.slice(2), query: new URLSearchParams(query) };
  return { project: "", path: parts, query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

type Values = Record<string, string | readonly string[] | null | undefined>;

/** The fragment of a place. */
export function fragment(project: string, path: readonly string[], query: URLSearchParams | Values = {}): string {
  const search = query instanceof URLSearchParams ? query : queryOf(query);
  const tail = search.size ? `?${search}` : "";
  return `#/${[...(project ? ["p", project] : []), ...path].map(encodeURIComponent).join("/")}${tail}`;
}

/** Values as a query; what is empty is left out. */
export function queryOf(values: Values): URLSearchParams {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one) search.append(name, one as string);
  }
  return search;
}

/** The place now; drawn again when it changes. */
export function usePlace(): Place {
  const [place, set] = useState(() => parse(location.hash));
  useEffect(() => {
    const changed = (): void => set(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return place;
}

/** A fragment in the project that is open. */
export function to(...path: string[]): string {
  return fragment(parse(location.hash).project, path);
}

/** The same with a query. */
export function toWith(query: Values, ...path: string[]): string {
  return fragment(parse(location.hash).project, path, query);
}

/** Go there. `quietly`: without a step in the history (a filter being typed). */
export function go(target: string, quietly = false): void {
  if (!quietly) {
    location.hash = target;
    return;
  }
  history.replaceState(null, "", target);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Change some of the query of where we are; null takes a name out. */
export function setQuery(changes: Values, quietly = false): void {
  const { project, path, query } = parse(location.hash);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one) query.append(name, one as string);
  }
  go(fragment(project, path, query), quietly);
}
