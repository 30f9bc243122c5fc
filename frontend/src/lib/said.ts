/** Texts that the API writes for people, taken apart: the instants and job ids in them can then be shown as such. */

export type Part = { is: "text" | "instant" | "id"; text: string };

const FOUND = /(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?))|\b([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})\b/g;

/** The parts of a text in their order; put together they are the text, with instants as RFC 3339 says. */
export function partsOf(text: string): Part[] {
  const parts: Part[] = [];
  let from = 0;
  for (const found of text.matchAll(FOUND)) {
    const [all, instant, id = ""] = found;
    if (found.index > from) parts.push({ is: "text", text: text.slice(from, found.index) });
    parts.push(instant ? { is: "instant", text: asRfc3339(instant) } : { is: "id", text: id });
    from = found.index + all.length;
  }
  if (from < text.length) parts.push({ is: "text", text: text.slice(from) });
  return parts;
}

/** "2026-11-30 05:00:00.1+00", as a database writes it → "2026-11-30T05:00:00.1+00:00". */
function asRfc3339(instant: string): string {
  return instant.replace(" ", "T").replace(/([+-]\d\d)(?::?(\d\d))?$/, (_, hours: string, minutes = "00") => `${hours}:${minutes}`);
}

/** "lease_expired" → "lease expired". A sentence stays as it is: an underscore in it is somebody's name. */
export function worded(text: string): string {
  return /^[a-z]+(_[a-z]+)+$/.test(text) ? text.replaceAll("_", " ") : text;
}
