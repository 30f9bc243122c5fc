import assert from "node:assert/strict";
import { test } from "node:test";

import { fragment, parse, queryOf } from "./route.ts";

test("a place survives its own fragment, whatever is in it", () => {
  const query = queryOf({ state: ["queued", "running"], q: "a&b=c #1", none: null, empty: "" });
  const place = parse(fragment("019a", ["schedules", "nightly/report 1%"], query));
  assert.equal(place.project, "019a");
  assert.deepEqual(place.path, ["schedules", "nightly/report 1%"]);
  assert.deepEqual([...place.query], [["state", "queued"], ["state", "running"], ["q", "a&b=c #1"]]);
});

test("a broken fragment is a place all the same", () => {
  assert.deepEqual(parse("#/p/1/jobs/%E0%A4%A").path, ["jobs", "%E0%A4%A"]);
  assert.deepEqual(parse("").path, []);
  assert.equal(parse("#/p").project, "");
});
