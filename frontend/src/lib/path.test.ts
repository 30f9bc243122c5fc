import assert from "node:assert/strict";
import { test } from "node:test";

import { pathOf, stays, steps } from "./path.ts";

const at = (second: number) => new Date(Date.UTC(2026, 10, 30, 2, 0, second)).toISOString();
const job = (state: string, more: object = {}) => ({ state, created_at: at(0), run_at: at(0), finalized_at: null, ...more });
const happened = (event: string, second: number, attempt: number | null = null) => ({ event, at: at(second), attempt });
const attempt = (n: number, queued: number, started: number) => ({ attempt: n, queued_at: at(queued), started_at: at(started) });
const words = (way: { state: string }[]) => way.map((one) => one.state).join(" ");

test("a job that nobody has taken is where it was born", () => {
  assert.equal(words(pathOf(job("queued"), [happened("created", 0)])), "queued");
  assert.equal(words(pathOf(job("scheduled", { run_at: at(50) }), [happened("created", 0)])), "scheduled");
  assert.equal(words(pathOf(job("pending", { parents: [1] }), [happened("created", 0)])), "pending");
});

test("a job whose time has come was scheduled before it was queued", () => {
  const way = pathOf(job("queued", { run_at: at(30) }), [happened("created", 0)]);
  assert.deepEqual(way.map((one) => [one.state, one.at]), [["scheduled", at(0)], ["queued", at(30)]]);
});

test("a completed job passed queued, claimed and running, also where only its start and end are told", () => {
  const events = [happened("created", 0), happened("started", 3, 1), happened("completed", 5, 1)];
  const way = pathOf(job("completed", { finalized_at: at(5) }), events, [attempt(1, 0, 3)]);
  assert.equal(words(way), "queued claimed running completed");
  assert.deepEqual(way.map((one) => one.at), [at(0), at(3), at(3), at(5)]);
});

test("an attempt that failed leads back over scheduled and queued, the last one to the dead letters", () => {
  const events = [
    happened("created", 0), happened("started", 1, 1), happened("failed", 2, 1), happened("started", 10, 2), happened("failed", 11, 2),
    happened("dead_letter", 11, 2),
  ]; // prettier-ignore
  const way = pathOf(job("dead_letter", { finalized_at: at(11) }), events, [attempt(1, 0, 1), attempt(2, 8, 10)]);
  assert.equal(words(way), "queued claimed running scheduled queued claimed running dead_letter");
  assert.equal(way[4]?.at, at(8));
  assert.equal(steps(way).get("claimed>running"), 2);
  assert.equal(steps(way).get("running>scheduled"), 1);
});

test("a retry that waits ends in scheduled, one whose backoff is over in queued", () => {
  const events = [happened("created", 0), happened("started", 1, 1), happened("failed", 2, 1)];
  assert.equal(words(pathOf(job("scheduled", { run_at: at(60) }), events)), "queued claimed running scheduled");
  assert.equal(words(pathOf(job("queued", { run_at: at(20) }), events)), "queued claimed running scheduled queued");
});

test("a lease that is held now counts, begun or not", () => {
  assert.equal(words(pathOf(job("claimed"), [happened("created", 0), happened("claimed", 4, 1)])), "queued claimed");
  const events = [happened("created", 0), happened("claimed", 4, 1), happened("started", 5, 1), happened("cancel_requested", 6, 1)];
  assert.equal(words(pathOf(job("running"), events)), "queued claimed running");
});

test("dead, retried by hand, and running again", () => {
  const events = [
    happened("created", 0), happened("started", 1, 1), happened("failed", 2, 1), happened("dead_letter", 2, 1), happened("retried", 30), happened("claimed", 31, 1),
    happened("started", 31, 1),
  ]; // prettier-ignore
  assert.equal(words(pathOf(job("running"), events)), "queued claimed running dead_letter queued claimed running");
});

test("a crash that fills the measure ends in quarantine, a release in the queue, a cancelled wait in cancelled", () => {
  const crashed = [happened("created", 0), happened("started", 1, 1), happened("crashed", 2, 1)];
  assert.equal(words(pathOf(job("quarantined"), crashed)), "queued claimed running quarantined");
  const released = [happened("created", 0), happened("started", 1, 1), happened("released", 2, 1)];
  assert.equal(words(pathOf(job("queued"), released)), "queued claimed running queued");
  assert.equal(words(pathOf(job("cancelled", { finalized_at: at(9) }), [happened("created", 0), happened("cancelled", 9)])), "queued cancelled");
});

test("a job that waited for its parents came from pending", () => {
  const events = [happened("created", 0), happened("started", 20, 1), happened("completed", 21, 1)];
  const way = pathOf(job("completed", { parents: [1] }), events, [attempt(1, 15, 20)]);
  assert.equal(words(way), "pending queued claimed running completed");
});

test("how long it stayed is told between known instants, and until now where it still is", () => {
  const way = pathOf(job("running"), [happened("created", 0), happened("claimed", 4, 1), happened("started", 5, 1)]);
  assert.deepEqual(stays(way, Date.parse(at(9)), false), [4_000, 1_000, 4_000]);
  assert.equal(stays(way, Date.parse(at(9)), true).at(-1), null);
});
