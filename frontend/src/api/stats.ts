/** What the statistics answer, as far as the page looks at it. */

import type { Counted } from "../lib/format.ts";

type States = Record<"pending" | "scheduled" | "queued" | "claimed" | "running" | "completed" | "cancelled" | "dead_letter" | "quarantined", Counted>;

export interface QueueBacklog {
  name: string;
  is_paused: boolean;
  queued: Counted;
  scheduled: Counted;
  claimed: number;
  running: number;
  dead_letter: Counted;
  oldest_queued_age_ms: number | null;
  arrived_per_second: number;
  completed_per_second: number;
}

export interface Overview {
  states: States;
  live_workers: number;
  worker_slots: number;
  oldest_queued_age_ms: number | null;
  failures_1h: number;
  dead_1h: number;
  throughput: { arrived_per_second: number; completed_per_second: number };
  paused_queues: string[];
  queues: QueueBacklog[];
  webhook: { status: string; failing_since: string | null } | null;
}

export interface History {
  bucket_ms: number;
  buckets: { at: string; arrived: number; completed: number; failed: number; dead: number }[];
}

interface Quantiles {
  count: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
}

export interface Latency {
  queue_wait: Quantiles;
  run_time: Quantiles;
}

export interface QueueStats {
  name: string;
  states: Partial<States>;
  arrived_per_second: number;
  drained_per_second: number;
  time_to_drain_ms: number | null;
  oldest_queued_age_ms: number | null;
  failures_1h: number;
  dead_1h: number;
  live_workers: number;
  worker_slots: number;
  quiet: { partitions: number; noisy: string[]; queued: Counted; running: number; oldest_queued_age_ms: number | null };
  memory_estimate_bytes: number | null;
}

export interface Partition {
  partition_key: string;
  waiting: Counted;
  running: number;
  weight: number;
  share: number;
  virtual_time: number;
  oldest_queued_age_ms: number | null;
}
