import assert from "node:assert/strict";
import { test } from "node:test";

import type { Overview, QueueBacklog } from "../api/stats.ts";
import type { Worker } from "../api/workers.ts";
import { findings } from "./verdict.ts";

const n = (count: number) => ({ count, approximate: false });
const queue = (name: string, more: Partial<QueueBacklog> = {}) =>
  ({
    name, is_paused: false, queued: n(0), scheduled: n(0), claimed: 0, running: 0, dead_letter: n(0), oldest_queued_age_ms: null,
    arrived_per_second: 0, completed_per_second: 0, ...more,
  }) as QueueBacklog; // prettier-ignore
const seen = (more: Partial<Overview> = {}, states: Record<string, ReturnType<typeof n>> = {}) =>
  ({
    states, live_workers: 1, worker_slots: 8, oldest_queued_age_ms: null, failures_1h: 0, dead_1h: 0, throughput: { arrived_per_second: 0, completed_per_second: 0 },
    paused_queues: [], queues: [], ...more,
  }) as unknown as Overview; // prettier-ignore
const worker = (queues: string[], is_live = true) => ({ queues, is_live }) as Worker;
const said = (found: ReturnType<typeof findings>) => found.map((one) => `${one.isGrave ? "! " : ""}${one.says}`);

test("nothing is found where nothing is wrong", () => {
  assert.deepEqual(findings(seen(), []), []);
});

test("jobs without a worker are grave, and what is grave stands first", () => {
  const found = findings(seen({ live_workers: 0, paused_queues: ["a"], queues: [queue("a", { is_paused: true, queued: n(2) })] }, { queued: n(3) }));
  assert.deepEqual(said(found), ["! No worker is alive, and 3 jobs wait.", "a is paused, and 2 jobs wait in it."]);
});

test("a queue that no live worker takes from is named, whatever the others do", () => {
  const of = seen({ queues: [queue("a", { queued: n(1) }), queue("b", { queued: n(2) }), queue("c")] }, { queued: n(3) });
  assert.deepEqual(said(findings(of, [worker(["a"]), worker(["b"], false)])), ["! No live worker takes from b, where 2 jobs wait."]);
  assert.deepEqual(findings(of, undefined), []);
});

test("many queues without a worker are not all named", () => {
  const queues = Array.from({ length: 9 }, (_, index) => queue(`q${index}`, { queued: n(1) }));
  assert.equal(findings(seen({ queues }, { queued: n(9) }), [worker(["x"])]).length, 4);
});

test("new deaths are grave, old ones are worth a look", () => {
  assert.deepEqual(said(findings(seen({ dead_1h: 1 }, { dead_letter: n(4) }))), ["! 1 job died within the last hour."]);
  assert.deepEqual(said(findings(seen({}, { dead_letter: n(4) }))), ["4 dead letters ask for a decision."]);
});

test("a webhook that fails is grave, a paused one is worth a look", () => {
  const of = (status: string): Overview => seen({ webhook: { status, failing_since: null } });
  assert.deepEqual(said(findings(of("failing"))), ["! Calls of the error webhook do not arrive: nobody is told of errors."]);
  assert.deepEqual(said(findings(of("paused"))), ["The error webhook is paused: what happens meanwhile is not told."]);
  assert.deepEqual(said(findings(of("active"))), []);
});

test("a backlog that grows, and workers without a free slot, are told", () => {
  const found = findings(seen({ queues: [queue("a", { queued: n(500), arrived_per_second: 9, completed_per_second: 2 })] }, { queued: n(500), running: n(8) }));
  assert.deepEqual(said(found), ["a fills faster than it empties: 500 wait.", "Every slot of every worker is taken, and 500 jobs wait."]);
});
