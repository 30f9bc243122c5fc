import assert from "node:assert/strict";
import { test } from "node:test";

import { partsOf, worded } from "./said.ts";

const JOB = "019ad2f0-1b2c-7d3e-8f40-112233445566";

test("an instant in a sentence is found, however it is written", () => {
  assert.deepEqual(partsOf("seen at 2026-11-30T05:00:00Z"), [
    { is: "text", text: "seen at " },
    { is: "instant", text: "2026-11-30T05:00:00Z" },
  ]);
  assert.deepEqual(partsOf("2026-11-30 05:00:00.12+05:30, it says")[0], { is: "instant", text: "2026-11-30T05:00:00.12+05:30" });
  for (const text of ["2026-11-30 05:00:00+00", "2026-11-30 05:00:00-0330"]) assert.ok(Number.isFinite(Date.parse(partsOf(text)[0]?.text ?? "")), text);
});

test("the jobs that hold a place are found, and nothing is lost between them", () => {
  const parts = partsOf(`taken by ${JOB}, ${JOB}`);
  assert.deepEqual(parts.map((part) => part.is), ["text", "id", "text", "id"]);
  assert.equal(parts.map((part) => part.text).join(""), `taken by ${JOB}, ${JOB}`);
});

test("a text without either stays as it is, markup and all", () => {
  const text = "<b>2026-11-30</b> and 12:30 &amp; 019ad2f0";
  assert.deepEqual(partsOf(text), [{ is: "text", text }]);
  assert.deepEqual(partsOf(""), []);
});

test("a code is told in words, a sentence is left alone", () => {
  assert.equal(worded("schedule_zone_data_changed"), "schedule zone data changed");
  assert.equal(worded("by ada: max_attempts"), "by ada: max_attempts");
  assert.equal(worded("My_Error"), "My_Error");
});
