/** Dead letters, by kind of error and one by one. */

import type { Counted } from "../lib/format.ts";
import type { JobError } from "./jobs.ts";

export interface ErrorGroup {
  error_group: string;
  error_class: string | null;
  /** null: hidden for the reader's role. */
  message: string | null;
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
