import assert from "node:assert/strict";
import { test } from "node:test";

import { hear, now, skew, skewOf } from "./clock.ts";

const AT = Date.parse("2026-11-30T05:00:00Z");
const told = (ms: number): string => new Date(AT + ms).toUTCString();

test("a clock that is right but for a second and the way of the answer is right", () => {
  assert.equal(skewOf(told(0), AT - 400, AT + 900), 0);
  assert.equal(skewOf(told(-1_000), AT, AT + 100), 0);
});

test("a clock that is wrong is told by how much, in either direction", () => {
  assert.ok(Math.abs((skewOf(told(300_000), AT, AT + 100) ?? 0) - 300_000) < 1_000);
  assert.ok(Math.abs((skewOf(told(-300_000), AT, AT + 100) ?? 0) + 300_000) < 1_000);
});

test("an answer without a time, or one that took long, tells nothing", () => {
  assert.equal(skewOf(null, AT, AT), undefined);
  assert.equal(skewOf("yesterday", AT, AT), undefined);
  assert.equal(skewOf(told(300_000), AT, AT + 20_000), undefined);
});

test("once heard, the server's clock is the page's, and a second more or less does not move it", () => {
  const asked = Date.now();
  hear(new Date(asked + 600_000).toUTCString(), asked);
  const first = skew();
  assert.ok(Math.abs(now() - Date.now() - 600_000) < 2_000);
  hear(new Date(asked + 601_000).toUTCString(), asked);
  assert.equal(skew(), first);
  hear(new Date(asked).toUTCString(), asked);
  assert.equal(skew(), 0);
});
