/** A dialog about one thing that the address names: as it is now, not as a list showed it some time ago. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { api, type Failure } from "../api/http.ts";
import { Dialog } from "./dialog.tsx";
import { Wrong } from "./states.tsx";

/** Reads `path` once, and draws with what is there, or says why there is nothing. */
export function Named<T>({ path, onClose, children }: { path: string; onClose: () => void; children: (value: T) => ComponentChildren }): JSX.Element | null {
  const [value, set] = useState<T>();
  const [error, setError] = useState<Failure>();
  useEffect(() => void api.get<T>(path).then(set, setError), []);
  if (value !== undefined) return <>{children(value)}</>;
  return error ? (
    <Dialog title="This cannot be shown" onClose={onClose}>
      <Wrong error={error} />
    </Dialog>
  ) : null;
}
