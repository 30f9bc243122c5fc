import assert from "node:assert/strict";
import { test } from "node:test";

import { merged } from "./pages.ts";

const rows = (text: string) => text.split("").map((id) => ({ id }));
const ids = (list: { id: string }[]) => list.map((row) => row.id).join("");
const id = (row: { id: string }) => row.id;

test("what was read again stands above what was below it, each row once", () => {
  assert.equal(ids(merged(rows("xab"), rows("abcdef"), id, false)), "xabcdef");
});

test("a row that left the top is gone, a row that moved up is there once", () => {
  assert.equal(ids(merged(rows("ac"), rows("abcdef"), id, false)), "acdef");
  assert.equal(ids(merged(rows("ea"), rows("abcde"), id, false)), "eabcd");
});

test("a whole list replaces what there was", () => {
  assert.equal(ids(merged(rows("a"), rows("abc"), id, true)), "a");
  assert.equal(ids(merged(rows(""), rows("abc"), id, false)), "abc");
});
