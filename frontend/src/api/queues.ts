/** Queues, and what limits them. */

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
