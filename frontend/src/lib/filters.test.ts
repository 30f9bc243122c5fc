import assert from "node:assert/strict";
import { test } from "node:test";

import { asFilter, asked, isFiltered } from "./filters.ts";

const query = new URLSearchParams("state=queued&state=running&queue=a&queue=b&nonsense=1&sort=run_at&tag=&priority=3");

test("only what the API knows is asked, and single names once", () => {
  assert.equal(asked(query).toString(), "state=queued&state=running&queue=a&sort=run_at&priority=3");
});

test("a plan's filter has lists where names repeat, numbers where there are numbers, and no order", () => {
  assert.deepEqual(asFilter(query), { state: ["queued", "running"], queue: "a", priority: 3 });
});

test("an order alone filters nothing", () => {
  assert.equal(isFiltered(new URLSearchParams("sort=run_at&x=1")), false);
  assert.equal(isFiltered(new URLSearchParams("q=1")), true);
});
