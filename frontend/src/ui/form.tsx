/** A form over the API's fields: what it refuses stands at the field, which gets the focus; the rest stands below. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

import type { Failure } from "../api/http.ts";
import { type Body, bodyOf, type Faults, faultsOf, type Input, textOf } from "../lib/forms.ts";
import { refreshAll } from "../lib/live.ts";
import { Button } from "./basic.tsx";
import { Dialog, say } from "./dialog.tsx";
import { Wrong } from "./states.tsx";

interface Props {
  inputs: readonly Input[];
  /** Behind "More fields", until one of them is wanted or at fault. */
  more?: readonly Input[];
  verb: string;
  /** Sends it. What it returns is said; an error stays in the form. */
  onSend: (body: Body) => Promise<string | void>;
  onCancel?: () => void;
  cancel?: string;
  /** An edit: what stands as it was is not sent. */
  onlyChanged?: boolean;
  /** It changes nothing: nothing is to be read again after it, and nothing takes the focus before it. */
  asksOnly?: boolean;
  /** A link has filled it in: it is sent as soon as it stands. For forms that ask only. */
  atOnce?: boolean;
  /** What is wrong that the API could not know of. */
  check?: (body: Body) => Faults;
  /** What it comes to, below the fields, with every change that can be read. */
  preview?: (body: Body) => ComponentChildren;
  /** Told what is typed: at first, and with every change. */
  onTyped?: (body: Body) => void;
  children?: ComponentChildren;
}

const NONE: Faults = new Map();

export function Form({ inputs, more = [], verb, onSend, onCancel, cancel = "Cancel", onlyChanged = false, asksOnly = false, atOnce = false, check, preview, onTyped, children }: Props): JSX.Element {
  const form = useRef<HTMLFormElement>(null);
  const [faults, setFaults] = useState<Faults>(NONE);
  const [error, setError] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(false);
  const [, draw] = useState(0);
  const all = [...inputs, ...more];
  const read = (wholly: boolean): ReturnType<typeof bodyOf> => {
    const sent = form.current ? new FormData(form.current) : undefined;
    return bodyOf(all, (name) => (sent ? String(sent.get(name) ?? "") : typedAtFirst(all, name)), onlyChanged && !wholly);
  };
  const refuse = (found: Faults): void => {
    setFaults(found);
    const first = all.find(({ name }) => found.has(name))?.name;
    if (first && more.some(({ name }) => name === first)) setOpen(true);
    if (first) setTimeout(() => (form.current?.elements.namedItem(first) as HTMLElement | null)?.focus());
  };
  const send = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const { body, faults: unread } = read(false);
    setError(undefined);
    const wrong = unread.size ? unread : (check?.(body) ?? NONE);
    if (wrong.size) return refuse(wrong);
    if (onlyChanged && !Object.keys(body).length) return (say("Nothing was changed."), onCancel?.());
    setFaults(NONE);
    setBusy(true);
    try {
      const says = await onSend(body);
      if (!asksOnly) refreshAll();
      if (says) say(says);
    } catch (failure) {
      const { faults: found, others } = faultsOf(failure, all);
      refuse(found);
      if (!found.size || others.length) setError(failure as Failure);
    } finally {
      setBusy(false);
    }
  };
  const typed = (): void => {
    if (preview) draw((n) => n + 1);
    onTyped?.(read(true).body);
  };
  useEffect(() => {
    form.current?.querySelector<HTMLElement>("[autofocus]")?.focus(); // a dialog does so by itself, a screen does not
    onTyped?.(read(true).body);
    if (asksOnly && atOnce) form.current?.requestSubmit();
  }, []);
  return (
    <form ref={form} noValidate onSubmit={(event) => void send(event)} {...(preview || onTyped ? { onInput: typed } : {})}>
      {children}
      <div class="form">
        {inputs.map((input, index) => (
          <Typed key={input.name} input={input} fault={faults.get(input.name)} first={index === 0 && !asksOnly} />
        ))}
      </div>
      {more.length > 0 && (
        <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>More fields</summary>
          <div class="form">
            {more.map((input) => (
              <Typed key={input.name} input={input} fault={faults.get(input.name)} />
            ))}
          </div>
        </details>
      )}
      {preview?.(read(true).body)}
      {error && <Wrong error={error} />}
      <div class="row end">
        {onCancel && <Button onClick={onCancel}>{cancel}</Button>}
        <button class={`button ${asksOnly ? "" : "main"}`} disabled={busy} aria-busy={busy}>
          {verb}
        </button>
      </div>
    </form>
  );
}

function typedAtFirst(inputs: readonly Input[], name: string): string {
  const input = inputs.find((one) => one.name === name);
  if (!input) return "";
  return input.is === "flag" ? (input.value === true ? "on" : "") : textOf(input);
}

/** A form in a dialog, which closes when the API has taken it. */
export function FormDialog({ title, onClose, onSend, ...rest }: Omit<Props, "onCancel"> & { title: string; onClose: () => void }): JSX.Element {
  const send = async (body: Body): Promise<string | void> => {
    const says = await onSend(body);
    onClose();
    return says;
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <Form {...rest} onSend={send} onCancel={onClose} />
    </Dialog>
  );
}

const TALL: ReadonlySet<string> = new Set(["json", "lines"]);

/** One field with its label, its hint, and what is wrong with it: read to those who do not see it, too. */
function Typed({ input, fault, first = false }: { input: Input; fault: string | undefined; first?: boolean }): JSX.Element {
  const id = useId();
  const { name, is = "text", label, hint } = input;
  const about = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(" ");
  const common = { id, name, ...(about ? { "aria-describedby": about } : {}), ...(fault ? { "aria-invalid": true as const } : {}), ...(input.required ? { "aria-required": true as const } : {}), autofocus: first };
  const told = (
    <>
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {fault && (
        <span class="fault" role="alert" id={`${id}-fault`}>
          {fault}
        </span>
      )}
    </>
  );
  if (is === "flag")
    return (
      <div class="field">
        <span class="row">
          <input type="checkbox" {...common} defaultChecked={input.value === true} /> <label for={id}>{label}</label>
        </span>
        {told}
      </div>
    );
  const text = textOf(input);
  return (
    <div class={`field ${TALL.has(is) ? "tall" : ""}`}>
      <label class="label" for={id}>
        {label}
      </label>
      {is === "choice" ? (
        <select {...common}>
          {input.choices?.map(([value, shown]) => (
            <option key={value} value={value} selected={value === text}>
              {shown}
            </option>
          ))}
        </select>
      ) : TALL.has(is) ? (
        <textarea {...common} rows={is === "json" && input.value !== undefined ? 8 : 3} spellcheck={false} defaultValue={text} />
      ) : is === "password" ? (
        <input {...common} type="password" autocomplete={name === "current_password" ? "current-password" : "new-password"} />
      ) : is === "instant" ? (
        <input {...common} type="datetime-local" step={1} defaultValue={text} />
      ) : input.suggestions ? (
        <input {...common} list={`${id}-list`} autocomplete="off" defaultValue={text} />
      ) : (
        <input {...common} inputMode={is === "number" ? "decimal" : "text"} autocomplete="off" spellcheck={false} defaultValue={text} />
      )}
      {input.suggestions && (
        <datalist id={`${id}-list`}>
          {input.suggestions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {told}
    </div>
  );
}
