/** A bulk operation from its first answer to its end: asked after while it runs, with the steps that it offers. */

import { useEffect, useState } from "preact/hooks";

import { api, type Failure, Problem } from "../api/http.ts";
import type { Operation } from "../api/operations.ts";

export const RUNNING: ReadonlySet<string> = new Set(["applying", "undoing"]);
const AGAIN_MS = 700;

export interface Followed {
  operation: Operation | undefined;
  error: Failure | undefined;
  /** The match has grown since the plan: only an apply that says so goes on. */
  drifted: boolean;
  running: boolean;
  /** Do it, and follow what comes back. */
  begin: (work: () => Promise<Operation | undefined>) => Promise<void>;
  /** apply, abort or undo. */
  step: (verb: string) => void;
}

/** `known`: the operation as it was read elsewhere. */
export function useOperation(known?: Operation): Followed {
  const [operation, setOperation] = useState(known);
  const [error, setError] = useState<Failure>();
  const [drifted, setDrifted] = useState(false);
  const begin = async (work: () => Promise<Operation | undefined>): Promise<void> => {
    setError(undefined);
    try {
      const answer = await work();
      if (answer) setOperation(answer);
    } catch (failure) {
      setDrifted(failure instanceof Problem && failure.code === "plan_drifted");
      setError(failure as Failure);
    }
  };
  useEffect(() => known && setOperation(known), [known]);
  const running = operation !== undefined && RUNNING.has(operation.status);
  useEffect(() => {
    if (!running || !operation) return;
    const timer = setTimeout(() => void begin(() => api.get<Operation>(`/v1/operations/${operation.id}`)), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [operation, running]);
  const step = (verb: string): void => {
    const body = verb === "apply" && drifted ? { allow_drift: true } : {};
    if (operation) void begin(() => api.post<Operation>(`/v1/operations/${operation.id}/${verb}`, body));
  };
  return { operation, error, drifted, running, begin, step };
}
