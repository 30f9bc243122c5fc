/** Questions before deeds, and words after them. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Failure } from "../api/http.ts";
import { refreshAll } from "../lib/live.ts";
import { Button } from "./basic.tsx";
import { Wrong } from "./states.tsx";

/** A modal dialog, open for as long as it is drawn. Escape and the backdrop close it. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => (before?.isConnected && before !== document.body ? before : document.getElementById("main"))?.focus();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      onCancel={(event) => (event.preventDefault(), onClose())}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div class="dialog">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export interface Deed {
  title: string;
  /** What it will touch: a sentence with numbers. */
  says: ComponentChildren;
  verb: string;
  danger?: boolean;
  /** Does it, and says what was done; with a way to undo where the API has one. */
  run: () => Promise<Done | void>;
}

export interface Done {
  says: string;
  undo?: () => Promise<unknown>;
}

/** Asks, does, and tells how it went. An error stays in the dialog. */
export function Confirm({ deed, onClose }: { deed: Deed; onClose: () => void }): JSX.Element {
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const act = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      const done = await deed.run();
      refreshAll();
      if (done) say(done.says, done.undo);
      onClose();
    } catch (failure) {
      setError(failure as Failure);
      setBusy(false);
    }
  };
  return (
    <Dialog title={deed.title} onClose={onClose}>
      <form method="dialog" onSubmit={(event) => (event.preventDefault(), void act())}>
        <div class="says">{deed.says}</div>
        {error && <Wrong error={error} />}
        <div class="row end">
          <Button onClick={onClose}>Keep as it is</Button>
          <button type="submit" class={`button ${deed.danger ? "danger" : "main"}`} disabled={busy} aria-busy={busy} autofocus>
            {deed.verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface Word {
  id: number;
  text: string;
  undo?: (() => Promise<unknown>) | undefined;
  tone: "good" | "bad";
}

let words: Word[] = [];
let last = 0;
const watchers = new Set<() => void>();
const STAYS_MS = 8_000;

function drawn(next: Word[]): void {
  words = next;
  for (const watcher of watchers) watcher();
}

/** A word at the foot of the page, for some seconds; with `undo` there is a button for it. */
export function say(text: string, undo?: () => Promise<unknown>, tone: "good" | "bad" = "good"): void {
  const id = (last += 1);
  drawn([...words.slice(-3), { id, text, undo, tone }]);
  setTimeout(() => drawn(words.filter((word) => word.id !== id)), undo ? 2 * STAYS_MS : STAYS_MS);
}

/** Do it at once, and tell how it went. For deeds that take nothing away. */
export async function attempt(deed: () => Promise<Done | void>): Promise<void> {
  try {
    const done = await deed();
    if (done) say(done.says, done.undo);
    refreshAll();
  } catch (failure) {
    say((failure as Failure).message, undefined, "bad");
  }
}

/** The words that are said now. */
export function Words(): JSX.Element {
  const [, draw] = useState(0);
  useEffect(() => {
    const watcher = (): void => draw((n) => n + 1);
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  return (
    <div class="words" role="status" aria-live="polite">
      {words.map((word) => (
        <p key={word.id} class={`word ${word.tone}`}>
          {word.text}
          {word.undo && (
            <Button
              onClick={() => {
                drawn(words.filter((one) => one.id !== word.id));
                const undo = word.undo;
                if (undo) void attempt(async () => (await undo(), { says: "Undone." }));
              }}
            >
              Undo
            </Button>
          )}
        </p>
      ))}
    </div>
  );
}
