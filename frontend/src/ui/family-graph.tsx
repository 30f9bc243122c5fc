/** A job between its parents and its children: each a link, told by outline, colour and word. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { type Edge, layout, type Node, NODE } from "../lib/family.ts";
import { plural, shortId } from "../lib/format.ts";
import { to } from "../lib/route.ts";
import type { JobDetail } from "../api/jobs.ts";
import { GLYPHS } from "./basic.tsx";

const ENDED: ReadonlySet<string> = new Set(["completed", "cancelled", "dead_letter"]);
const MOST_CHARS = 20;
const WAITS: ReadonlySet<string> = new Set(["pending", "scheduled"]);

export function FamilyGraph({ job }: { job: JobDetail }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(640);
  useLayoutEffect(() => {
    const here = box.current;
    if (!here) return;
    const look = (): void => setRoom(Math.floor(here.clientWidth));
    look();
    const resized = new ResizeObserver(look);
    resized.observe(here);
    return () => resized.disconnect();
  }, []);
  const drawn = layout(job, job.parents, job.children, room);
  const { parents, children } = drawn.left;
  const left = [parents && plural(parents, "more parent"), children && plural(children, "more child", "more children")].filter(Boolean);
  const sides = `${plural(job.parents.length, "parent")}, ${plural(job.children.length, "child", "children")}`;
  return (
    <div ref={box}>
      <svg class="family" width={drawn.width} height={drawn.height} role="group" aria-label={`Family: ${sides}`}>
        {drawn.edges.map((edge) => (
          <path key={edge.from.join() + edge.to.join()} d={curve(edge)} />
        ))}
        {drawn.nodes.map((node) => (
          <Relative key={node.side + node.id} of={node} />
        ))}
      </svg>
      {left.length > 0 && <p class="dim">{left.join(" and ")} not drawn: those that failed or wait are drawn first, what is completed last.</p>}
    </div>
  );
}

function curve({ from: [x1, y1], to: [x2, y2] }: Edge): string {
  const half = (y1 + y2) / 2;
  return `M${x1} ${y1} C${x1} ${half} ${x2} ${half} ${x2} ${y2}`;
}

/** As much as there is room for: of a long name its end, which tells it from its neighbours. Letters that are wider still are cut off. */
function shortened(name: string): string {
  return name.length > MOST_CHARS ? `…${name.slice(1 - MOST_CHARS)}` : name;
}

function Relative({ of }: { of: Node }): JSX.Element {
  const state = of.state ?? "gone";
  const words = state.replaceAll("_", " ");
  const inside = (
    <>
      <title>{of.job_type ? `${of.job_type} ${of.id}` : of.id}</title>
      <rect width={NODE.width} height={NODE.height} rx={ENDED.has(state) || !of.state ? 2 : 12} stroke-dasharray={WAITS.has(state) ? "5 3" : undefined} />
      <svg width={NODE.width - 8} height={NODE.height}>
        <text x={12} y={18} class="type">
          {shortened(of.job_type ?? "removed")}
        </text>
      </svg>
      <text x={12} y={34} class="name">
        {of.side === "self" ? "this job" : shortId(of.id)}
      </text>
      <text x={12} y={51} class={`state state-${state}`}>
        {of.state ? (GLYPHS[state] ?? "●") : "○"} {words}
      </text>
    </>
  );
  const moved = `translate(${of.x} ${of.y})`;
  if (of.side === "self") return <g transform={moved} class="self">{inside}</g>; // prettier-ignore
  return (
    <g transform={moved}>
      <a href={to("jobs", of.id)} aria-label={[of.side, of.job_type, `${shortId(of.id)},`, words].filter(Boolean).join(" ")}>
        {inside}
      </a>
    </g>
  );
}
