/** The states a job can be in, with the way that this one took: as a drawing where there is room, and in order with the time spent in each. */

import type { JSX } from "preact";

import { useNow } from "../lib/clock.ts";
import { duration, utc } from "../lib/format.ts";
import { type Passing, stays, steps } from "../lib/path.ts";
import { State } from "./basic.tsx";

const W = 104;
const H = 30;
const AT: Record<string, readonly [number, number]> = {
  pending: [10, 34], scheduled: [10, 104], queued: [160, 69], claimed: [310, 69], running: [460, 69],
  completed: [620, 19], cancelled: [620, 69], dead_letter: [620, 119], quarantined: [310, 136],
}; // prettier-ignore
/** The usual ways, drawn faintly; the way of the job itself is drawn over them, whatever it was. */
const USUAL = [
  "pending>queued", "scheduled>queued", "queued>claimed", "claimed>running", "running>completed", "running>cancelled", "running>dead_letter", "running>scheduled", "claimed>quarantined",
]; // prettier-ignore
const MOST_SHOWN = 24;

function curve(step: string): string {
  const [from = "", to = ""] = step.split(">");
  const [x1, y1] = AT[from] ?? [0, 0];
  const [x2, y2] = AT[to] ?? [0, 0];
  if (x1 === x2) return `M${x1 + W / 2} ${y1 < y2 ? y1 + H : y1} L${x2 + W / 2} ${y1 < y2 ? y2 : y2 + H}`;
  if (x2 > x1 && x2 - x1 < 200) return `M${x1 + W} ${y1 + H / 2} L${x2} ${y2 + H / 2}`;
  if (x2 > x1) return `M${x1 + W / 2} ${y1} C${x1 + W / 2} -6 ${x2 - 60} -6 ${x2} ${y2 + H / 2}`;
  if (to === "scheduled") return `M${x1 + W / 2} ${y1 + H} C${x1 + W / 2} 225 ${x2 + W / 2} 225 ${x2 + W / 2} ${y2 + H}`;
  return `M${x1 + W / 2} ${y1} C${x1 + W / 2} -8 ${x2 + W / 2} -8 ${x2 + W / 2} ${y2}`;
}

/** Where the number of times stands: above the middle of a short step, in the bow of a long one. */
function middle(step: string): readonly [number, number] {
  const [from = "", to = ""] = step.split(">");
  const [x1, y1] = AT[from] ?? [0, 0];
  const [x2, y2] = AT[to] ?? [0, 0];
  if (x2 < x1 || x2 - x1 >= 200) return [(x1 + x2 + W) / 2, to === "scheduled" ? 201 : 12];
  return [(x1 + W + x2) / 2, (y1 + y2 + H) / 2 - 5];
}

export function StatesGraph({ way, isFinal }: { way: readonly Passing[]; isFinal: boolean }): JSX.Element {
  const now = way.at(-1)?.state ?? "";
  const seen = new Set(way.map((one) => one.state));
  const taken = steps(way);
  const said = way.map((one) => one.state.replaceAll("_", " "));
  return (
    <>
      <svg class="states" viewBox="0 0 734 210" role="img" aria-label={`The way so far: ${said.slice(-MOST_SHOWN).join(", ")}`}>
        {[...new Set([...USUAL, ...taken.keys()])].map((step) => (
          <path key={step} d={curve(step)} class={taken.has(step) ? "on" : ""} />
        ))}
        {Object.entries(AT).map(([state, [x, y]]) => (
          <g key={state} class={state === now ? "here" : seen.has(state) ? "on" : ""}>
            <rect x={x} y={y} width={W} height={H} rx={8} />
            <text x={x + W / 2} y={y + 19.5} text-anchor="middle">
              {state.replace("_", " ")}
            </text>
          </g>
        ))}
        {[...taken].map(([step, times]) => {
          const [x, y] = middle(step);
          return times < 2 ? null : (
            <text key={step} x={x} y={y} text-anchor="middle" class="times">
              {times}×
            </text>
          );
        })}
      </svg>
      <Way of={way} isFinal={isFinal} />
    </>
  );
}

/** The same in words: each state with the time spent in it. */
function Way({ of, isFinal }: { of: readonly Passing[]; isFinal: boolean }): JSX.Element {
  const lasted = stays(of, useNow(), isFinal);
  const before = Math.max(0, of.length - MOST_SHOWN);
  return (
    <ol class="way" aria-label="The way so far">
      {before > 0 && <li class="dim">{before} states before</li>}
      {of.slice(before).map((one, index) => (
        <li key={index} title={one.at ? utc(one.at) : ""}>
          <State is={one.state} />
          {(lasted[before + index] ?? null) !== null && <span class="dim"> {duration(lasted[before + index])}</span>}
        </li>
      ))}
    </ol>
  );
}
