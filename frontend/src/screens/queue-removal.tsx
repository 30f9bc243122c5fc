/** The end of a queue: an empty one goes at once, one with jobs only after its name was typed, as an operation that can be watched. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, Problem, segment } from "../api/http.ts";
import type { QueueStats } from "../api/stats.ts";
import type { Operation } from "../api/operations.ts";
import type { Queue } from "../api/queues.ts";
import { count, number } from "../lib/format.ts";
import { refreshAll, useResource } from "../lib/live.ts";
import { useOperation } from "../lib/operation.ts";
import { go, to, toWith } from "../lib/route.ts";
import { Button, Field } from "../ui/basic.tsx";
import { Progress } from "../ui/bulk.tsx";
import { Dialog, say } from "../ui/dialog.tsx";
import { Shown, Wrong } from "../ui/states.tsx";

export function RemoveQueue({ of, onClose }: { of: Queue; onClose: () => void }): JSX.Element {
  const path = `/v1/queues/${segment(of.name)}`;
  const stats = useResource<QueueStats>(`${path}/stats`);
  const { operation, error, running, begin, step } = useOperation();
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const isFull = error instanceof Problem && error.code === "queue_not_empty";
  const remove = async (force: boolean): Promise<void> => {
    setBusy(true);
    await begin(async () => {
      const answer = await api.delete<Operation | undefined>(path, force ? { force: true } : {});
      if (answer) return answer;
      say(`${of.name} is deleted.`);
      go(to("queues"));
      onClose();
      return undefined;
    });
    setBusy(false);
  };
  const close = (): void => {
    if (operation?.status === "completed") go(to("queues"));
    else refreshAll();
    onClose();
  };
  return (
    <Dialog title={`Delete the queue ${of.name}`} onClose={close}>
      {operation ? (
        <Progress of={operation} />
      ) : (
        <>
          <Shown of={stats}>{(value) => <p>{saysOf(value)}</p>}</Shown>
          {error && <Wrong error={error} />}
          {isFull && (
            <>
              <p>
                Deleted with <a href={toWith({ queue: of.name }, "jobs")}>its jobs</a>, it takes no more jobs from now on; what runs is asked to stop, and every job goes with its history. This cannot be undone.
              </p>
              <Field label={`To delete them all, type ${of.name}`}>
                <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" spellcheck={false} />
              </Field>
            </>
          )}
        </>
      )}
      <div class="row end">
        {operation && <a href={to("operations", operation.id)}>This operation</a>}
        {running && operation?.actions.includes("abort") && <Button onClick={() => step("abort")}>Stop here</Button>}
        <Button onClick={close}>{operation ? "Close" : "Keep it"}</Button>
        {!operation && (
          <Button kind="danger" busy={busy} disabled={isFull && typed !== of.name} onClick={() => void remove(isFull)}>
            {isFull ? "Delete it with all its jobs" : "Delete it"}
          </Button>
        )}
      </div>
    </Dialog>
  );
}

/** What stands in it now, state by state. */
function saysOf(stats: QueueStats): string {
  const there = Object.entries(stats.states).filter(([, jobs]) => number(jobs) > 0);
  const list = there.map(([state, jobs]) => `${count(jobs)} ${state.replaceAll("_", " ")}`).join(", ");
  return `${list ? `In it now: ${list}.` : "Nothing waits or runs in it now."} Right away only an empty one goes, which holds no ended jobs either.`;
}
