/** What forms are made of: the API's own fields, read as the API wants them, and its faults told beside the field that has them. */

import { type Fault, Problem } from "../api/http.ts";

/** How a field is typed. `span`: a time with its unit, sent in ms. `words`: several, apart by spaces. `lines`: one per line. */
export type Kind = "text" | "number" | "span" | "choice" | "flag" | "json" | "words" | "lines" | "password" | "instant";

export interface Input {
  /** The API's name of the field; a dot leads into it: "retention.completed_ms". */
  name: string;
  label: string;
  is?: Kind;
  /** What it is now. */
  value?: unknown;
  hint?: string;
  choices?: readonly (readonly [value: string, label: string])[];
  /** What may well be meant: offered, not demanded. */
  suggestions?: readonly string[];
  required?: boolean;
  /** An empty field is sent as null ("no limit"); else it is left out. */
  orNull?: boolean;
}

const UNITS: readonly (readonly [string, number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
  ["ms", 1],
];
const WANTED = "say a time with its unit, such as 500 ms, 30 s, 5 min, 2 h or 7 d";

/** "90 s" → 90000; undefined where it is no time with a unit. */
export function msOf(text: string): number | undefined {
  const parts = /^(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)$/.exec(text.trim());
  const size = UNITS.find(([name]) => name === (parts?.[2] === "m" ? "min" : parts?.[2]))?.[1];
  return parts && size ? Math.round(Number(parts[1]) * size) : undefined;
}

/** 90000 → "90 s": the largest unit that leaves nothing over, so that it reads back as it was. */
export function spanOf(ms: number): string {
  const [name, size] = (ms && UNITS.find(([, size]) => ms % size === 0)) || ["ms", 1];
  return `${ms / size} ${name}`;
}

/** A value as the field shows it. */
export function textOf(input: Input): string {
  const { is, value } = input;
  if (is === "json") return value === undefined ? "" : JSON.stringify(value, null, 2);
  if (value === null || value === undefined) return "";
  if (is === "span") return spanOf(value as number);
  if (is === "words") return (value as string[]).join(" ");
  if (is === "lines") return (value as string[]).join("\n");
  if (is === "instant") return clockOf(value as string);
  return String(value);
}

/** An instant on the reader's own clock, as the browser's field for it wants it. */
function clockOf(instant: string): string {
  const at = new Date(instant);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** What was typed as the API wants it: a value, or undefined for a field to leave out; throws a text that says what is wrong. */
function valueOf(input: Input, text: string): unknown {
  const { is } = input;
  if (is === "flag") return text === "on";
  const trimmed = is === "password" ? text : text.trim();
  if (trimmed === "") return is === "words" || is === "lines" ? [] : input.orNull ? null : undefined;
  if (is === "number") {
    if (!Number.isFinite(Number(trimmed))) throw new Error("must be a number");
    return Number(trimmed);
  }
  if (is === "span") {
    const ms = msOf(trimmed);
    if (ms === undefined) throw new Error(WANTED);
    return ms;
  }
  if (is === "words") return trimmed.split(/\s+/);
  if (is === "lines") return trimmed.split(/\s*\n\s*/);
  if (is === "instant") {
    const at = new Date(trimmed);
    if (Number.isNaN(at.getTime())) throw new Error("must be a date and time that exist");
    return at.toISOString();
  }
  if (is !== "json") return trimmed;
  let value: unknown;
  try {
    value = JSON.parse(trimmed);
  } catch (error) {
    throw new Error(`is no JSON: ${(error as Error).message}`);
  }
  requireExact(value);
  return value;
}

/** A browser's numbers end at 2^53: what lies beyond would reach the API as another number. */
function requireExact(value: unknown): void {
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) throw new Error(`holds ${value}, which a browser cannot keep exactly: send it through the API`);
  if (typeof value === "object" && value !== null) Object.values(value).forEach(requireExact);
}

export type Faults = ReadonlyMap<string, string>;
export type Body = Record<string, unknown>;

/**
 * The body that a form sends: every field under its name, nested at its dots. `onlyChanged`: without what stands as it was, so
 * that a change by somebody else to another field stays. `faults`: what cannot be read, by field.
 */
export function bodyOf(inputs: readonly Input[], typed: (name: string) => string, onlyChanged = false): { body: Body; faults: Faults } {
  const body: Body = {};
  const faults = new Map<string, string>();
  for (const input of inputs) {
    const text = typed(input.name);
    if (onlyChanged && (input.is === "flag" ? (text === "on") === (input.value === true) : text === textOf(input))) continue;
    try {
      const value = valueOf(input, text);
      if (input.required && (value === undefined || value === null)) throw new Error("is required");
      if (value !== undefined && !(Array.isArray(value) && !value.length && !onlyChanged)) put(body, input.name.split("."), value);
    } catch (error) {
      faults.set(input.name, (error as Error).message);
    }
  }
  return { body, faults };
}

function put(body: Body, [first = "", ...rest]: string[], value: unknown): void {
  if (!rest.length) body[first] = value;
  else put((body[first] ??= {}) as Body, rest, value);
}

/** The API's faults by field, and those that belong to none of them. */
export function faultsOf(error: unknown, inputs: readonly Input[]): { faults: Faults; others: readonly Fault[] } {
  const faults = new Map<string, string>();
  const others: Fault[] = [];
  for (const fault of error instanceof Problem ? error.errors : []) {
    const at = fault.loc.join(".");
    const input = inputs.find(({ name }) => at === name || at.startsWith(`${name}.`)) ?? inputs.find(({ name }) => name.startsWith(`${at}.`));
    if (!input) others.push(fault);
    else if (!faults.has(input.name)) faults.set(input.name, at.startsWith(`${input.name}.`) ? `${at.slice(input.name.length + 1)}: ${fault.msg}` : fault.msg);
  }
  return { faults, others };
}
