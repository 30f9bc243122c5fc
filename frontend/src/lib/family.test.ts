import assert from "node:assert/strict";
import { test } from "node:test";

import { layout, NODE } from "./family.ts";

const self = { id: "me", state: "pending", job_type: "a" };
const kin = (n: number, state = "completed") => Array.from({ length: n }, (_, index) => ({ id: `${state}${index}`, state, job_type: "b" }));
const of = (drawn: ReturnType<typeof layout>, side: string) => drawn.nodes.filter((node) => node.side === side);

test("parents stand above, children below, and each is joined to the job", () => {
  const drawn = layout(self, kin(2), kin(3), 700);
  const [me] = of(drawn, "self");
  assert.ok(me && of(drawn, "parent").every((node) => node.y + NODE.height < me.y));
  assert.ok(me && of(drawn, "child").every((node) => node.y > me.y + NODE.height));
  assert.equal(drawn.edges.length, 5);
});

test("no two nodes overlap and none leaves the drawing, at any width and number", () => {
  for (const width of [120, 290, 640, 1_000]) {
    for (const [above, below] of [[0, 1], [1, 0], [5, 2], [30, 1_000]] as const) {
      const drawn = layout(self, kin(above), kin(below, "queued"), width);
      for (const [index, a] of drawn.nodes.entries()) {
        assert.ok(a.x >= 0 && a.x + NODE.width <= drawn.width && a.y >= 0 && a.y + NODE.height <= drawn.height, `${width}: ${a.id}`);
        for (const b of drawn.nodes.slice(index + 1)) {
          const apart = a.x + NODE.width <= b.x || b.x + NODE.width <= a.x || a.y + NODE.height <= b.y || b.y + NODE.height <= a.y;
          assert.ok(apart, `${width}: ${a.id} and ${b.id}`);
        }
      }
    }
  }
});

test("what has no room is counted, and what wants a look is not among it", () => {
  const drawn = layout(self, [...kin(900), ...kin(2, "dead_letter")], [], 330);
  assert.deepEqual(drawn.left, { parents: 902 - of(drawn, "parent").length, children: 0 });
  assert.equal(of(drawn, "parent").length, 6);
  assert.deepEqual(of(drawn, "parent").slice(0, 2).map((node) => node.state), ["dead_letter", "dead_letter"]);
});
