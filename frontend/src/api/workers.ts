/** Workers. */

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
