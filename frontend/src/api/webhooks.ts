/** The error webhook and its calls. */

export interface Webhook {
  url: string;
  events: string[];
  queues: string[] | null;
  is_paused: boolean;
  status: string;
  failing_since: string | null;
  failed_attempts: number;
  last_error: string | null;
  last_status: number | null;
  last_failure_at: string | null;
  last_success_at: string | null;
  waiting: number;
  old_secret_until: string | null;
}

export interface Delivery {
  id: string;
  event: string;
  things: number;
  status: string;
  attempts: number;
  last_status: number | null;
  last_error: string | null;
  created_at: string;
  ended_at: string | null;
}
