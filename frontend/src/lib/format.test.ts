import assert from "node:assert/strict";
import { test } from "node:test";

import { count, duration, inZone, rate, relative, shortId, utc } from "./format.ts";

const NOW = Date.parse("2026-11-29T12:00:00Z");

test("a duration has two units at most, and carries over", () => {
  const said = [0, 840, 3_200, 9_940, 59_600, 250_000, 3_599_700, 183_600_000, 86_400_000].map(duration);
  assert.deepEqual(said, ["0 ms", "840 ms", "3.2 s", "9.9 s", "1 min", "4 min 10 s", "1 h", "2 d 3 h", "1 d"]);
});

test("a duration that is missing or negative says so", () => {
  assert.deepEqual([duration(null), duration(undefined), duration(Number.NaN), duration(-2_000)], ["–", "–", "–", "−2 s"]);
});

test("a relative time looks both ways and is never empty", () => {
  assert.equal(relative("2026-11-29T12:03:00Z", NOW), "in 3 min");
  assert.equal(relative("2026-11-29T11:59:48Z", NOW), "12 s ago");
  assert.equal(relative("2026-11-29T12:00:00.4Z", NOW), "now");
  assert.equal(relative("soon", NOW), "–");
});

test("a bounded count shows that it is one", () => {
  assert.equal(count({ count: 10_000, approximate: true }), "10,000+");
  assert.equal(count({ count: 12, approximate: false }), "12");
  assert.equal(count(null), "–");
});

test("a rate is per second where a minute's number would be long", () => {
  assert.deepEqual([rate(0.5), rate(12), rate(60_000), rate(null)], ["0.5/min", "12/min", "1,000/s", "–"]);
});

test("instants show in UTC and in a zone across a clock change", () => {
  assert.equal(utc("2026-03-29T01:00:00Z"), "2026-03-29 01:00:00 UTC");
  assert.match(inZone("2026-03-29T00:59:59Z", "Europe/Berlin"), /01:59:59/);
  assert.match(inZone("2026-03-29T01:00:00Z", "Europe/Berlin"), /03:00:00/);
  assert.equal(inZone("2026-03-29T01:00:00Z", "Nowhere/Land"), "2026-03-29 01:00:00 UTC");
});

test("two ids of one millisecond look different", () => {
  assert.equal(shortId("01a229a9-4936-7860-8603-7b8c57e25e30"), "…a94936-8608603");
  assert.notEqual(shortId("01a229a9-4936-7860-8603-7b8c57e25e30"), shortId("01a229a9-4936-7860-8604-7b8c57e25e30"));
  assert.equal(shortId("a1b2c3d4e5f6a7b8c9d0"), "a1b2…b8c9d0");
});

test("an hour that comes twice says which of the two it is, others are left alone", () => {
  assert.equal(inZone("2026-10-25T00:30:00Z", "Europe/Berlin"), "Sun, 25 Oct 2026, 02:30:00 GMT+2");
  assert.equal(inZone("2026-10-25T01:30:00Z", "Europe/Berlin"), "Sun, 25 Oct 2026, 02:30:00 GMT+1");
  assert.equal(inZone("2026-10-25T02:30:00Z", "Europe/Berlin"), "Sun, 25 Oct 2026, 03:30:00");
  assert.equal(inZone("2026-03-29T01:30:00Z", "Europe/Berlin"), "Sun, 29 Mar 2026, 03:30:00");
  assert.match(inZone("2026-04-04T15:15:00Z", "Australia/Lord_Howe"), /01:45:00 GMT\+10:30$/);
});
