import assert from "node:assert/strict";
import { test } from "node:test";

import { waitsOf } from "./backoff.ts";

const POLICY = { strategy: "exponential", base_delay_ms: 5_000, multiplier: 2, max_delay_ms: 3_600_000, max_attempts: 5 };

test("there is one wait less than attempts, each as its strategy says, none above the greatest", () => {
  assert.deepEqual(waitsOf(POLICY, 50), [5_000, 10_000, 20_000, 40_000]);
  assert.deepEqual(waitsOf({ ...POLICY, strategy: "linear" }, 50), [5_000, 10_000, 15_000, 20_000]);
  assert.deepEqual(waitsOf({ ...POLICY, strategy: "fixed" }, 50), [5_000, 5_000, 5_000, 5_000]);
  assert.deepEqual(waitsOf({ ...POLICY, max_delay_ms: 12_000 }, 50), [5_000, 10_000, 12_000, 12_000]);
});

test("a single attempt waits for nothing, and a thousand do not overflow", () => {
  assert.deepEqual(waitsOf({ ...POLICY, max_attempts: 1 }, 50), []);
  assert.deepEqual(waitsOf({ ...POLICY, multiplier: 100, max_attempts: 1_000 }, 1_000).at(-1), 3_600_000);
});
