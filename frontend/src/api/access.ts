/** Who may come in, and what they did. */

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
