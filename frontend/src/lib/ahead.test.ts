import assert from "node:assert/strict";
import { test } from "node:test";

import { firstAsked } from "./ahead.ts";
import { parse } from "./route.ts";

const of = (fragment: string) => firstAsked(parse(fragment));

test("what is asked ahead is what the screen asks, filters and all", () => {
  assert.equal(of("#/p/x"), "/v1/stats/overview");
  assert.equal(of("#/p/x/jobs?state=queued&state=running&q="), "/v1/jobs?state=queued&state=running&limit=100");
  assert.equal(of("#/p/x/jobs/1"), "/v1/jobs/1");
  assert.equal(of("#/p/x/queues/a%2Fb"), "/v1/queues/a%2Fb");
  assert.equal(of("#/p/x/dead-letters"), "/v1/dead-letters?group_by=error&limit=100");
  assert.equal(of("#/p/x/dead-letters?view=jobs"), "/v1/dead-letters?limit=100");
});

test("nothing is asked for a screen that is none, or that asks something else", () => {
  assert.equal(of("#/p/x/nowhere"), null);
  assert.equal(of("#/p/x/keys"), null);
});
