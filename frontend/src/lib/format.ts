/** Times, durations and counts as people read them. No function here looks at a clock: `now` is handed in. */

const UNITS: readonly (readonly [string, number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
];

/** "840 ms", "3.2 s", "4 min 10 s", "2 d 3 h": two units at most. "–" for nothing. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1).replace(/\.0$/, "")} s`;
  const rounded = ms < 3_600_000 ? Math.round(ms / 1_000) * 1_000 : Math.round(ms / 60_000) * 60_000;
  const first = UNITS.findIndex(([, size]) => rounded >= size);
  const [name, size] = UNITS[first] ?? ["s", 1_000];
  const whole = Math.floor(rounded / size);
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((rounded - whole * size) / next[1]) : 0;
  return next && rest > 0 ? `${whole} ${name} ${rest} ${next[0]}` : `${whole} ${name}`;
}

/** "in 3 min", "12 s ago", "now": of an RFC 3339 instant, seen at `now` (ms since 1970). */
export function relative(instant: string | null | undefined, now: number): string {
  if (!instant) return "–";
  const away = Date.parse(instant) - now;
  if (!Number.isFinite(away)) return "–";
  if (Math.abs(away) < 1_000) return "now";
  const span = coarse(Math.abs(away));
  return away > 0 ? `in ${span}` : `${span} ago`;
}

/** One unit: what a list has room for. */
function coarse(ms: number): string {
  for (const [name, size] of UNITS) if (ms >= size) return `${Math.floor(ms / size)} ${name}`;
  return "0 s";
}

/** "2026-11-29 14:05:09 UTC", from the text itself. */
export function utc(instant: string): string {
  const at = new Date(instant);
  return Number.isNaN(at.getTime()) ? instant : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** The same instant on the reader's own clock, with the zone's short name. */
export function local(instant: string): string {
  const at = new Date(instant);
  if (Number.isNaN(at.getTime())) return instant;
  const told = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return `${unmistakable(at, told, zone())} (${zone()})`;
}

/** The reader's zone, as IANA names it. */
export function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** An instant in a named zone: "Sun 29 Mar 2026, 02:30:00". */
export function inZone(instant: string, timeZone: string): string {
  const style = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
  try {
    return unmistakable(new Date(instant), new Intl.DateTimeFormat("en-GB", { ...style, hourCycle: "h23", timeZone }), timeZone);
  } catch {
    return utc(instant);
  }
}

const FOLDS_MS = [1_800_000, 3_600_000];

/** The time, and in an hour that comes twice which of the two it is: "02:30:00 GMT+2". */
function unmistakable(at: Date, told: Intl.DateTimeFormat, timeZone: string): string {
  const text = told.format(at);
  const isTwice = FOLDS_MS.some((ms) => [ms, -ms].some((away) => told.format(at.getTime() + away) === text));
  if (!isTwice) return text;
  const parts = new Intl.DateTimeFormat("en-GB", { timeZone, timeZoneName: "shortOffset" }).formatToParts(at);
  return `${text} ${parts.find((part) => part.type === "timeZoneName")?.value ?? ""}`;
}

/** What the API sends where a count has a bound. */
export interface Counted {
  count: number;
  approximate: boolean;
}

/** "1,234" or "10,000+". */
export function count(value: number | Counted | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Math.round(value).toLocaleString("en-US");
  return value.count.toLocaleString("en-US") + (value.approximate ? "+" : "");
}

/** The number in a count, bounded or not. */
export function number(value: number | Counted | null | undefined): number {
  return typeof value === "number" ? value : (value?.count ?? 0);
}

/** "3 jobs", "1 job". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Jobs per second or minute, whichever reads better. */
export function rate(perMinute: number | null | undefined): string {
  if (perMinute === null || perMinute === undefined) return "–";
  if (perMinute >= 600) return `${count(perMinute / 60)}/s`;
  return `${perMinute >= 10 ? count(perMinute) : perMinute.toFixed(1).replace(/\.0$/, "")}/min`;
}

/** The signs in which ids of one moment differ: of a UUIDv7 the millisecond and the counter, else the two ends. */
export function shortId(id: string): string {
  const parts = /^[0-9a-f]{4}([0-9a-f]{4})-([0-9a-f]{4})-7([0-9a-f]{3})-([0-9a-f]{4})-[0-9a-f]{12}$/.exec(id);
  if (parts) return `…${parts[1]?.slice(2)}${parts[2]}-${parts[3]}${parts[4]}`;
  return id.length > 14 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id;
}
