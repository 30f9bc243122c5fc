import assert from "node:assert/strict";
import { test } from "node:test";

import { Problem } from "../api/http.ts";
import { bodyOf, faultsOf, type Input, msOf, spanOf, textOf } from "./forms.ts";

const typed = (values: Record<string, string>) => (name: string) => values[name] ?? "";

test("a span is read with its unit and written so that it reads back as it was", () => {
  for (const ms of [0, 1, 500, 1_500, 30_000, 90_000, 300_000, 7_200_000, 604_800_000, 86_400_001]) assert.equal(msOf(spanOf(ms)), ms);
  assert.deepEqual(["90 s", "5min", "1.5 h", "2 m", "7d"].map(msOf), [90_000, 300_000, 5_400_000, 120_000, 604_800_000]);
  assert.deepEqual(["30", "", "s", "-1 s", "1e3 s", "1 y"].map(msOf), [undefined, undefined, undefined, undefined, undefined, undefined]);
  assert.deepEqual([0, 90_000, 86_400_000].map(spanOf), ["0 ms", "90 s", "1 d"]);
});

test("fields are sent under their names, nested at their dots, and empty ones are left out or null", () => {
  const inputs: Input[] = [
    { name: "name", label: "" },
    { name: "limit", label: "", is: "number", orNull: true },
    { name: "note", label: "" },
    { name: "retention.completed_ms", label: "", is: "span" },
    { name: "retention.dead_letter_ms", label: "", is: "span" },
    { name: "tags", label: "", is: "words" },
    { name: "none", label: "", is: "words" },
    { name: "payload", label: "", is: "json" },
    { name: "hold", label: "", is: "flag" },
  ];
  const said = { name: " a ", "retention.completed_ms": "1 h", "retention.dead_letter_ms": "2 d", tags: "x  y", payload: '{"n":1}', hold: "on" };
  const { body, faults } = bodyOf(inputs, typed(said));
  assert.equal(faults.size, 0);
  assert.deepEqual(body, { name: "a", limit: null, retention: { completed_ms: 3_600_000, dead_letter_ms: 172_800_000 }, tags: ["x", "y"], payload: { n: 1 }, hold: true });
});

test("what cannot be read is told by field, before anything is asked", () => {
  const inputs: Input[] = [{ name: "wait", label: "", is: "span" }, { name: "payload", label: "", is: "json" }, { name: "n", label: "", is: "number" }, { name: "name", label: "", required: true }];
  const { faults } = bodyOf(inputs, typed({ wait: "30", payload: "{", n: "many", name: " " }));
  assert.deepEqual([...faults.keys()], ["wait", "payload", "n", "name"]);
  assert.match(faults.get("wait") ?? "", /with its unit/);
});

test("a number that a browser would round is refused, not sent as another one", () => {
  const inputs: Input[] = [{ name: "payload", label: "", is: "json" }];
  assert.match(bodyOf(inputs, typed({ payload: '{"ids":[9007199254740993]}' })).faults.get("payload") ?? "", /cannot keep exactly/);
  assert.deepEqual(bodyOf(inputs, typed({ payload: '{"ids":[9007199254740991,1.5]}' })).body, { payload: { ids: [9007199254740991, 1.5] } });
});

test("an edit sends what was changed and nothing else", () => {
  const inputs: Input[] = [
    { name: "weight", label: "", is: "number", value: 3 },
    { name: "cap", label: "", is: "number", value: 5, orNull: true },
    { name: "wait_ms", label: "", is: "span", value: 90_000 },
    { name: "tags", label: "", is: "words", value: ["a", "b"] },
    { name: "jitter", label: "", is: "flag", value: true },
    { name: "payload", label: "", is: "json", value: { a: 1 } },
  ];
  const same = Object.fromEntries(inputs.map((input) => [input.name, textOf(input)]));
  assert.deepEqual(bodyOf(inputs, typed({ ...same, jitter: "on" }), true).body, {});
  assert.deepEqual(bodyOf(inputs, typed({ ...same, cap: "", tags: "", jitter: "" }), true).body, { cap: null, tags: [], jitter: false });
});

test("a fault of the API stands at its field, also below it and above it; the rest is left for all to see", () => {
  const errors = [
    { loc: ["name"], msg: "is required" },
    { loc: ["unique", "ttl_ms"], msg: "is too long" },
    { loc: ["retry_policy", "max_attempts"], msg: "too many" },
    { loc: ["header", "x"], msg: "missing" },
  ];
  const inputs: Input[] = [{ name: "name", label: "" }, { name: "unique.ttl_ms", label: "" }, { name: "retry_policy", label: "" }];
  const { faults, others } = faultsOf(new Problem(422, { errors }), inputs);
  assert.deepEqual(Object.fromEntries(faults), { name: "is required", "unique.ttl_ms": "is too long", retry_policy: "max_attempts: too many" });
  assert.deepEqual(others, [errors[3]]);
  assert.equal(faultsOf(new Error("gone"), inputs).faults.size, 0);
});
