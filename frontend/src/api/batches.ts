/** Batches. */

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
