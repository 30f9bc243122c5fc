/** Is something wrong? What the figures of the overview mean, the worst first, each with the place that it leads to. */

import type { Overview } from "../api/stats.ts";
import type { Worker } from "../api/workers.ts";
import { count, duration, number, plural } from "./format.ts";

export interface Finding {
  /** Somebody has to act now; else it is worth a look. */
  isGrave: boolean;
  says: string;
  place: string[];
  query?: Record<string, string>;
}

export const OLD_MS = 5 * 60_000;
const GROWS = 1.5;
const MANY = 100;
const NAMED = 3;

/** `workers`: all of them, where they are known: then a queue that nobody takes from is told. */
export function findings(of: Overview, workers?: readonly Worker[]): Finding[] {
  const found: Finding[] = [];
  const add = (isGrave: boolean, says: string, place: string[], query?: Record<string, string>): void => void found.push({ isGrave, says, place, ...(query ? { query } : {}) });
  const waiting = number(of.states.queued);
  const leased = number(of.states.running) + number(of.states.claimed);
  const waits = (n: number): string => `${plural(n, "job")} ${n === 1 ? "waits" : "wait"}`;

  if (of.live_workers === 0 && waiting > 0) add(true, `No worker is alive, and ${waits(waiting)}.`, ["workers"]);
  if (of.live_workers > 0 && workers) {
    const served = new Set(workers.filter((one) => one.is_live).flatMap((one) => one.queues));
    const alone = of.queues.filter((queue) => !queue.is_paused && number(queue.queued) > 0 && !served.has(queue.name));
    for (const queue of alone.slice(0, NAMED)) add(true, `No live worker takes from ${queue.name}, where ${waits(number(queue.queued))}.`, ["queues", queue.name]);
    if (alone.length > NAMED) add(true, `The same is so of ${plural(alone.length - NAMED, "more queue")}.`, ["queues"]);
  }
  // Grave, because whoever set it believes that a death would be told.
  if (of.webhook?.status === "failing") add(true, "Calls of the error webhook do not arrive: nobody is told of errors.", ["projects"]);
  if (of.dead_1h > 0) add(true, `${plural(of.dead_1h, "job")} died within the last hour.`, ["dead-letters"]);
  const oldest = of.oldest_queued_age_ms ?? 0;
  if (oldest > OLD_MS && of.live_workers > 0) add(false, `The oldest job that could run has waited for ${duration(oldest)}.`, ["jobs"], { state: "queued", sort: "run_at" });
  for (const queue of of.queues) {
    const isFuller = number(queue.queued) >= MANY && queue.arrived_per_second > GROWS * queue.completed_per_second;
    if (isFuller && !queue.is_paused) add(false, `${queue.name} fills faster than it empties: ${count(queue.queued)} wait.`, ["queues", queue.name]);
  }
  if (of.worker_slots > 0 && leased >= of.worker_slots && waiting > 0) add(false, `Every slot of every worker is taken, and ${waits(waiting)}.`, ["workers"]);
  const dead = number(of.states.dead_letter);
  if (dead > 0 && of.dead_1h === 0) add(false, `${plural(dead, "dead letter")} ${dead === 1 ? "asks" : "ask"} for a decision.`, ["dead-letters"]);
  const aside = number(of.states.quarantined);
  if (aside > 0) add(false, `${plural(aside, "job")} ${aside === 1 ? "is" : "are"} in quarantine.`, ["quarantine"]);
  if (of.webhook?.status === "paused") add(false, "The error webhook is paused: what happens meanwhile is not told.", ["projects"]);
  for (const name of of.paused_queues.slice(0, NAMED)) {
    const held = number(of.queues.find((queue) => queue.name === name)?.queued);
    add(false, held > 0 ? `${name} is paused, and ${waits(held)} in it.` : `${name} is paused.`, ["queues", name]);
  }
  if (of.paused_queues.length > NAMED) add(false, `${plural(of.paused_queues.length - NAMED, "more queue")} paused.`, ["queues"]);
  return found.sort((a, b) => Number(b.isGrave) - Number(a.isGrave));
}
