/** The states a job can be in, with the way that this one took. */

import type { JSX } from "preact";

const W = 104;
const H = 30;
const AT: Record<string, readonly [number, number]> = {
  pending: [10, 20], scheduled: [10, 90], queued: [160, 55], claimed: [310, 55], running: [460, 55],
  completed: [620, 5], cancelled: [620, 55], dead_letter: [620, 105], quarantined: [310, 115],
}; // prettier-ignore
const STEPS: readonly (readonly [string, string])[] = [
  ["pending", "queued"], ["scheduled", "queued"], ["queued", "claimed"], ["claimed", "running"], ["running", "completed"], ["running", "cancelled"],
  ["running", "dead_letter"], ["running", "scheduled"], ["claimed", "quarantined"],
]; // prettier-ignore

/** Which states a timeline passed, from its events' states and the state now. */
export function passed(states: readonly (string | null)[], now: string): Set<string> {
  const seen = new Set(states.filter((state): state is string => !!state && state in AT));
  seen.add(now);
  if (now === "completed" || seen.has("running")) for (const state of ["queued", "claimed", "running"]) seen.add(state);
  if (seen.has("claimed")) seen.add("queued");
  return seen;
}

export function StatesGraph({ states, now }: { states: readonly (string | null)[]; now: string }): JSX.Element {
  const seen = passed(states, now);
  const way = Object.keys(AT).filter((state) => seen.has(state));
  return (
    <svg class="states" viewBox="0 0 734 150" role="img" aria-label={`The way so far: ${way.join(", ").replaceAll("_", " ")}; now ${now.replaceAll("_", " ")}`} width="100%" style={{ maxWidth: "760px" }}>
      {STEPS.map(([from, to]) => {
        const [x1, y1] = AT[from] ?? [0, 0];
        const [x2, y2] = AT[to] ?? [0, 0];
        const on = seen.has(from) && seen.has(to);
        const back = x2 < x1;
        const path = back
          ? `M${x1 + W / 2} ${y1 + H} C${x1} ${y1 + 105} ${x2 + 150} ${y2 + 70} ${x2 + W} ${y2 + H / 2}`
          : from === "claimed" && to === "quarantined"
            ? `M${x1 + W / 2} ${y1 + H} L${x2 + W / 2} ${y2}`
            : `M${x1 + W} ${y1 + H / 2} L${x2} ${y2 + H / 2}`;
        return <path key={from + to} d={path} fill="none" stroke={on ? "var(--main)" : "var(--line)"} stroke-width={on ? 2.5 : 1.2} />;
      })}
      {Object.entries(AT).map(([state, [x, y]]) => {
        const on = seen.has(state);
        const here = state === now;
        return (
          <g key={state}>
            <rect x={x} y={y} width={W} height={H} rx={8} fill={here ? "var(--main)" : "var(--card)"} stroke={on ? "var(--main)" : "var(--line)"} stroke-width={on ? 2 : 1.2} />
            <text x={x + W / 2} y={y + 19.5} text-anchor="middle" fill={here ? "#fff" : on ? "var(--text)" : "var(--dim)"} style={{ fill: here ? "#fff" : on ? "var(--text)" : "var(--dim)", fontWeight: here ? 650 : 400 }}>
              {state.replace("_", " ")}
            </text>
          </g>
        );
      })}
    </svg>
  );
}
