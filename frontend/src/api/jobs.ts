/** Jobs, as far as the page looks at them. The whole of what the API answers: GET /v1/openapi.json. */

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

/** A parent or a child; null: it is gone. */
export interface Relative {
  id: string;
  state: string | null;
  job_type: string | null;
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
  /** null: hidden for the reader's role. */
  message: string | null;
}

export interface Explanation {
  state: string;
  admissible: boolean;
  blocked_by: { reason: string; since: string | null; detail: string; clears_at: string | null }[];
  /** What holds nothing back although it may look so. */
  notes: string[];
  position: number | null;
  estimated_start_at: string | null;
}
