import assert from "node:assert/strict";
import { test } from "node:test";

import { asFilter, asked, isFiltered } from "./filters.ts";

const query = new URLSearchParams("state=queued&state=running&queue=a&queue=b&nonsense=1&sort=run_at&tag=&priority=3");

test("single names are asked once, and a name that the API does not know is left to it to refuse", () => {
  assert.equal(asked(query).toString(), "state=queued&state=running&queue=a&nonsense=1&sort=run_at&priority=3");
});

test("a plan's filter has lists where names repeat, numbers where there are numbers, and no order", () => {
  assert.deepEqual(asFilter(query), { state: ["queued", "running"], queue: "a", nonsense: "1", priority: 3 });
});

test("an order alone filters nothing, nor do columns or what is open", () => {
  assert.equal(asked(new URLSearchParams("columns=id+state&open=plan&on=1")).toString(), "");
  assert.equal(isFiltered(new URLSearchParams("columns=id")), false);
  assert.equal(isFiltered(new URLSearchParams("sort=run_at")), false);
  assert.equal(isFiltered(new URLSearchParams("q=1")), true);
});

test("a kind of error stays in the question and in the plan: without it a plan would touch every dead job", () => {
  const one = new URLSearchParams("state=dead_letter&error_group=0d5a");
  assert.equal(asked(one).toString(), "state=dead_letter&error_group=0d5a");
  assert.deepEqual(asFilter(one), { state: ["dead_letter"], error_group: "0d5a" });
});
