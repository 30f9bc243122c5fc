/** What the API answers, as far as the page looks at it. The whole of it: GET /v1/openapi.json. */

import type { Counted } from "../lib/format.ts";

export interface JobError {
  class: string | null;
  message: string | null;
}

export interface Job {
  id: string;
  job_type: string;
  queue: string;
  state: string;
  priority: number;
  run_at: string;
  created_at: string;
  updated_at: string;
  finalized_at: string | null;
  attempt_count: number;
  max_attempts: number;
  error: JobError | null;
  reason: string | null;
  tags: string[];
  actions: string[];
  lease: { worker_id: string | null; claimed_at: string; started_at: string | null; lease_expires_at: string; cancel_requested_at: string | null } | null;
  progress: { current: number | null; total: number | null; message: string | null } | null;
  partition_key: string | null;
  concurrency: { key: string | null; limit: number } | null;
  rate_class: string | null;
  sticky_worker: string | null;
  weight: number;
  fingerprint: string | null;
  crash_count: number;
  batch_id: string | null;
  scheduled_job_id: string | null;
  scheduled_for: string | null;
  principal_id: string | null;
  correlation_id: string | null;
  idempotency_key: string | null;
  unique: { window: string; until: string | null } | null;
  traceparent: string | null;
  timeout_ms: number | null;
  retention_ms: number | null;
  retry_policy: unknown;
  schema_version: number | null;
  headers: Record<string, string>;
  pending_parents: number;
  on_parent_failure: string;
  is_held: boolean;
}

export interface Relative {
  id: string;
  state: string | null;
}

export interface JobDetail extends Job {
  payload: unknown;
  result: unknown;
  checkpoint: unknown;
  output: unknown;
  parents: Relative[];
  children: Relative[];
}

export interface Execution {
  id: string;
  attempt: number;
  fence: number;
  status: string;
  queued_at: string;
  started_at: string;
  finished_at: string;
  duration_ms: number;
  worker_id: string | null;
  error: JobError | null;
  stack: string | null;
  exit_code: number | null;
}

export interface TimelineEvent {
  at: string;
  event: string;
  state: string | null;
  attempt: number | null;
  detail: string | null;
  worker_id: string | null;
}

export interface LogLine {
  id: string;
  ts: string;
  level: string;
  message: string;
}

export interface Explanation {
  state: string;
  admissible: boolean;
  blocked_by: { reason: string; since: string | null; detail: string; clears_at: string | null }[];
  position: number | null;
  estimated_start_at: string | null;
}

export interface Listed<T> {
  items: T[];
  next_cursor: string | null;
}

export interface Operation {
  id: string;
  action: string;
  filter: Record<string, unknown>;
  status: string;
  estimate: Counted;
  counts?: { by_state: Record<string, number>; by_job_type: Kind[]; by_error_class: Kind[] };
  sample: string[];
  total: number | null;
  affected: number;
  skipped: number;
  skips: Record<string, number>;
  progress: number | null;
  error: string | null;
  undo: { requested_at: string; finished_at: string | null; restored: number; skipped: number } | null;
  actions: string[];
  created_at: string;
  applied_at: string | null;
  finished_at: string | null;
}

/** `name` null: all others together. */
export interface Kind {
  name: string | null;
  count: number;
}

export interface ErrorGroup {
  error_group: string;
  error_class: string | null;
  message: string;
  count: Counted;
  total: number;
  first_seen_at: string;
  last_seen_at: string;
  last_24_h: number[];
  queues: string[];
  job_types: string[];
  sample_job_id: string | null;
  filter: Record<string, unknown>;
}

export interface DeadLetter {
  id: string;
  job_id: string;
  queue: string;
  job_type: string;
  reason: string;
  attempt_count: number;
  error: JobError | null;
  moved_at: string;
}

export interface Queue {
  id: string;
  name: string;
  priority: number;
  weight: number;
  max_concurrency: number | null;
  max_unfinished_jobs: number | null;
  on_saturated: string;
  is_paused: boolean;
  is_closed: boolean;
  visibility_timeout_secs: number;
  quarantine_after: number;
  default_retry_policy: string | null;
  retention: { completed_ms: number; cancelled_ms: number; dead_letter_ms: number };
}

export interface RateClass {
  name: string;
  limit: number;
  window_ms: number;
  burst: number;
  is_paused: boolean;
  tokens: number;
  closed_until: string | null;
}

export interface ConcurrencyLimit {
  name: string;
  queue: string | null;
  job_type: string | null;
  max_concurrent: number;
  on_saturated: string;
  running: number;
}

export interface RetryPolicy {
  name: string;
  strategy: string;
  base_delay_ms: number;
  multiplier: number;
  max_delay_ms: number;
  max_attempts: number;
  jitter: boolean;
}

export interface Schedule {
  name: string;
  cron: string | null;
  every_ms: number | null;
  timezone: string;
  description: string | null;
  job: Record<string, unknown>;
  on_missed: string;
  backfill_limit: number;
  overlap: string;
  on_gap: string;
  on_fold: string;
  starts_at: string | null;
  ends_at: string | null;
  jitter_ms: number;
  is_paused: boolean;
  next_run_at: string | null;
  last_run_at: string | null;
  declared_by: string | null;
  note: string | null;
  error: string | null;
}

export interface Preview {
  fires: string[];
  description: string;
  transitions: { at: string; kind: string; local_before: string; local_after: string; offset_before: string; offset_after: string }[];
}

export interface ScheduleEvent {
  at: string;
  kind: string;
  scheduled_at: string;
  job_id: string | null;
  reason: string | null;
}

export interface Batch {
  id: string;
  name: string | null;
  status: string;
  total: number;
  pending: number;
  completed: number;
  failed: number;
  cancelled: number;
  created_at: string;
  sealed_at: string | null;
  finalized_at: string | null;
  callbacks: Record<string, unknown>;
  fired: string[];
  error: string | null;
}

export interface Worker {
  id: string;
  name: string;
  hostname: string;
  version: string;
  pid: number | null;
  queues: string[];
  job_types: string[] | null;
  max_concurrency: number;
  active_job_count: number;
  cpu_percent: number | null;
  memory_mb: number | null;
  status: string;
  command: string | null;
  is_live: boolean;
  started_at: string;
  last_seen_at: string;
}

export interface ApiKey {
  id: string;
  name: string;
  scopes: string[];
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

export interface Note {
  id: string;
  at: string;
  actor_kind: string;
  actor: string | null;
  actor_id: string | null;
  action: string;
  target_kind: string;
  target_id: string;
  before: unknown;
  after: unknown;
  request_id: string | null;
}
