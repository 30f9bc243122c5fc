import assert from "node:assert/strict";
import { test } from "node:test";

import { meant } from "./keys.ts";

const does = (key: string) => ({ key, what: key, run: () => undefined });

test("two keys in a row win over one, and one alone still acts", () => {
  const shortcuts = [does("j"), does("g j"), does("g o")];
  assert.equal(meant(shortcuts, "g", "j")?.key, "g j");
  assert.equal(meant(shortcuts, "", "j")?.key, "j");
  assert.equal(meant(shortcuts, "x", "o"), undefined);
});
