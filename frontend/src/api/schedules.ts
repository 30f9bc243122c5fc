/** Schedules. */

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
