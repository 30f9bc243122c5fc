/** Bulk operations. */

import type { Counted } from "../lib/format.ts";

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
