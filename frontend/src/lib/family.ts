/** Where parents, the job itself and children stand in the small graph of a job's page. Only numbers: no element is touched here. */

export interface Kin {
  id: string;
  state: string | null;
  job_type: string | null;
}

export interface Node extends Kin {
  side: "parent" | "self" | "child";
  x: number;
  y: number;
}

export interface Edge {
  from: readonly [number, number];
  to: readonly [number, number];
}

export interface Layout {
  width: number;
  height: number;
  nodes: Node[];
  edges: Edge[];
  /** How many of each side had no room. */
  left: { parents: number; children: number };
}

export const NODE = { width: 156, height: 60 } as const;
const GAP = 12;
const BETWEEN = 40;
const ROWS = 3;
const FEWEST_PX = NODE.width;

/** What wants a look comes first; what is done comes last. */
const ORDER = ["dead_letter", "quarantined", "cancelled", "running", "claimed", "queued", "scheduled", "pending"];

function rank(kin: Kin): number {
  const place = ORDER.indexOf(kin.state ?? "");
  return place < 0 ? ORDER.length : place;
}

/** Parents above, children below, in as many columns as `room` px have place for and three rows at most. */
export function layout(self: Kin, parents: readonly Kin[], children: readonly Kin[], room: number): Layout {
  const width = Math.max(FEWEST_PX, room);
  const columns = Math.max(1, Math.floor((width + GAP) / (NODE.width + GAP)));
  const shown = (kin: readonly Kin[]): Kin[] => [...kin].sort((a, b) => rank(a) - rank(b)).slice(0, columns * ROWS);
  const above = shown(parents);
  const below = shown(children);
  const nodes: Node[] = [];
  const edges: Edge[] = [];
  let y = 1;
  const middle = width / 2;

  const rows = (kin: readonly Kin[], side: "parent" | "child"): void => {
    for (let start = 0; start < kin.length; start += columns) {
      const row = kin.slice(start, start + columns);
      const used = row.length * NODE.width + (row.length - 1) * GAP;
      for (const [index, one] of row.entries()) nodes.push({ ...one, side, x: (width - used) / 2 + index * (NODE.width + GAP), y });
      y += NODE.height + GAP;
    }
    y -= kin.length ? GAP : 0;
  };

  rows(above, "parent");
  if (above.length) y += BETWEEN;
  const own = y;
  nodes.push({ ...self, side: "self", x: middle - NODE.width / 2, y });
  y += NODE.height;
  if (below.length) y += BETWEEN;
  rows(below, "child");
  for (const node of nodes) {
    const x = node.x + NODE.width / 2;
    if (node.side === "parent") edges.push({ from: [x, node.y + NODE.height], to: [middle, own] });
    if (node.side === "child") edges.push({ from: [middle, own + NODE.height], to: [x, node.y] });
  }
  return { width, height: y + 1, nodes, edges, left: { parents: parents.length - above.length, children: children.length - below.length } };
}
