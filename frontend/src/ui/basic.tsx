/** The small parts that every screen is made of. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

import { useNow } from "../lib/clock.ts";
import { duration, local, relative, shortId, utc } from "../lib/format.ts";

/** An instant, relative; the absolute in UTC and on the reader's clock when one points at it. */
export function Time({ at }: { at: string | null | undefined }): JSX.Element {
  const now = useNow();
  if (!at) return <span class="dim">–</span>;
  return (
    <time dateTime={at} title={`${utc(at)}\n${local(at)}`}>
      {relative(at, now)}
    </time>
  );
}

/** How long something has lasted: until its end, or until now. */
export function Since({ from, until }: { from: string | null | undefined; until?: string | null | undefined }): JSX.Element {
  const now = useNow();
  if (!from) return <span class="dim">–</span>;
  return <span title={utc(from)}>{duration((until ? Date.parse(until) : now) - Date.parse(from))}</span>;
}

export const GLYPHS: Record<string, string> = {
  pending: "◔", scheduled: "◷", queued: "●", claimed: "◐", running: "▶", completed: "✓", cancelled: "⊘", dead_letter: "✕", quarantined: "⚠",
  failed: "✕", crashed: "✕", expired: "✕", live: "●", stale: "○", paused: "‖", open: "●", sealed: "◐", completed_with_failures: "⚠",
  active: "●", failing: "✕", waiting: "◷", delivered: "✓", dropped: "⊘",
}; // prettier-ignore

/** A state by word, glyph and colour: none of them alone. */
export function State({ is }: { is: string | null | undefined }): JSX.Element {
  if (!is) return <span class="dim">gone</span>;
  return (
    <span class={`state state-${is}`}>
      <span aria-hidden="true">{GLYPHS[is] ?? "●"}</span> {is.replaceAll("_", " ")}
    </span>
  );
}

/** An id that a click copies; `href` makes it a link beside that. */
export function Id({ id, href, long = false }: { id: string; href?: string; long?: boolean }): JSX.Element {
  const text = long ? id : shortId(id);
  return (
    <span class="id">
      {href ? (
        <a href={href} title={id}>
          {text}
        </a>
      ) : (
        <span title={id}>{text}</span>
      )}
      <Copy text={id} what="id" />
    </span>
  );
}

/** A button that puts a text on the clipboard and says so. */
export function Copy({ text, what }: { text: string; what: string }): JSX.Element {
  const [done, set] = useState(false);
  const copy = async (event: Event): Promise<void> => {
    event.preventDefault();
    event.stopPropagation();
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    set(true);
    setTimeout(() => set(false), 1_200);
  };
  return (
    <button type="button" class="copy" aria-label={`Copy ${what} ${text}`} onClick={copy}>
      <svg width="13" height="13" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true">
        {done ? <path d="M2 9l4 4 8-10" /> : <path d="M5 5h9v9H5zM11 5V2H2v9h3" />}
      </svg>
      <span class="sr" role="status">
        {done ? "copied" : ""}
      </span>
    </button>
  );
}

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "type"> & { kind?: "plain" | "main" | "danger"; busy?: boolean };

/** A button. `busy`: what it began is not over yet. */
export function Button({ kind = "plain", busy = false, disabled, children, class: more, ...rest }: ButtonProps): JSX.Element {
  return (
    <button type="button" class={`button ${kind} ${more ?? ""}`} disabled={busy || disabled === true} aria-busy={busy} {...rest}>
      {children as ComponentChildren}
    </button>
  );
}

/** A labelled field. `fault`: what the API says about it. */
export function Field({ label, hint, fault, children }: { label: string; hint?: string; fault?: string | undefined; children: ComponentChildren }): JSX.Element {
  return (
    <label class="field">
      <span class="label">{label}</span>
      {children}
      {hint && <span class="hint">{hint}</span>}
      {fault && (
        <span class="fault" role="alert">
          {fault}
        </span>
      )}
    </label>
  );
}

/** Name and value, one under the other. What has no value is left out. */
export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A card with a heading. `narrow`: no wider than a form reads well. */
export function Card({ title, aside, children, id, narrow = false }: { title: string; aside?: ComponentChildren; children: ComponentChildren; id?: string; narrow?: boolean }): JSX.Element {
  return (
    <section class={`card ${narrow ? "narrow" : ""}`} id={id} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

/** A number with its name, for the top of a screen. `tone` colours what wants attention; `href`: where to look. */
export function Tile({ name, value, note, tone, href }: { name: string; value: ComponentChildren; note?: ComponentChildren; tone?: "bad" | "warn" | "good" | undefined; href?: string }): JSX.Element {
  const inside = (
    <>
      <span class="tile-name">{name}</span>
      <span class="tile-value">{value}</span>
      {note && <span class="tile-note">{note}</span>}
    </>
  );
  return href ? (
    <a class={`tile ${tone ?? ""}`} href={href}>
      {inside}
    </a>
  ) : (
    <div class={`tile ${tone ?? ""}`}>{inside}</div>
  );
}

/** A part of a whole, 0…1. With a label it is a progress bar to everybody, without one a drawing. */
export function Bar({ share, label }: { share: number; label?: string }): JSX.Element {
  const percent = Math.round(100 * Math.min(1, Math.max(0, share)));
  const inside = <span style={{ width: `${percent}%` }} />;
  if (!label) return <div class="bar" aria-hidden="true">{inside}</div>; // prettier-ignore
  return (
    <div class="bar" role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={percent}>
      {inside}
    </div>
  );
}
