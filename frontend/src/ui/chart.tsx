/** Lines over time. Bound to its box, coloured by the theme; its numbers are also there as a table for those who cannot see it. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { count } from "../lib/format.ts";
import { useDark } from "../lib/theme.ts";

export interface Line {
  name: string;
  colour: string;
  values: readonly (number | null)[];
}

const HEIGHT = 190;
/** Jobs are counted: there is no half of one. */
const WHOLE = [1, 2, 5].flatMap((digit) => [...Array(8).keys()].map((zeros) => digit * 10 ** zeros)).sort((a, b) => a - b);

/** "14:05" on the reader's clock; `at`: s since 1970. */
function clock(at: number): string {
  return new Date(at * 1_000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** `times`: ms since 1970. `unit` stands behind each value. */
export function Chart({ title, times, lines, unit = "" }: { title: string; times: readonly number[]; lines: readonly Line[]; unit?: string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const isDark = useDark(); // its legend keeps the colours that it was made with
  useEffect(() => {
    const here = box.current;
    if (!here) return;
    const axis = { stroke: () => colour("--dim"), grid: { stroke: "#7d8d9833", width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const said = (value: number | null): string => (value === null || value === undefined ? "–" : `${count(Math.round(value * 10) / 10)}${unit}`);
    const plot = new uPlot(
      {
        width: Math.max(200, here.clientWidth), height: HEIGHT, legend: { show: true, live: true }, cursor: { drag: { x: false, y: false } },
        axes: [{ ...axis, size: 32, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 58, incrs: WHOLE, values: (_, ticks) => ticks.map((tick) => `${count(tick)}${unit}`) }],
        hooks: { ready: [(drawn) => drawn.setLegend({ idx: times.length - 1 })] },
        scales: { y: { range: (_, __, top) => [0, top > 0 ? top * 1.1 : 1] } },
        series: [{ label: "at", value: (_, at) => (at ? clock(at) : "–") }, ...lines.map((line) => ({ label: line.name, stroke: () => colour(line.colour), width: 1.6, value: (_: uPlot, value: number | null) => said(value), points: { show: false } }))],
      },
      [times.map((at) => at / 1_000), ...lines.map((line) => [...line.values])],
      here,
    ); // prettier-ignore
    const resized = new ResizeObserver(() => plot.setSize({ width: Math.max(200, here.clientWidth), height: HEIGHT }));
    resized.observe(here);
    return () => (resized.disconnect(), plot.destroy());
  }, [times, lines, isDark]);
  const last = lines.map((line) => `${line.name} ${line.values.at(-1) ?? "–"}${unit}`).join(", ");
  return <div class="chart" ref={box} role="img" aria-label={`${title}; the latest: ${last}`} />;
}
