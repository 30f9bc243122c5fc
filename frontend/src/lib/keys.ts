/** Keys: `useKeys` gives a screen its own for as long as it is there; `?` lists all that act now. Nothing acts while one types. */

import { useLayoutEffect, useRef } from "preact/hooks";

/** `key`: what is pressed, or two in a row: "j", "?", "g o". */
export interface Shortcut {
  key: string;
  what: string;
  run: () => void;
}

const layers: { current: readonly Shortcut[] }[] = [];
const SECOND_WITHIN_MS = 1_200;

/** All that act now, the nearest first, each key once. */
export function active(): Shortcut[] {
  const seen = new Map<string, Shortcut>();
  for (const layer of [...layers].reverse()) for (const one of layer.current) if (!seen.has(one.key)) seen.set(one.key, one);
  return [...seen.values()];
}

/** These keys act while the component is there. */
export function useKeys(shortcuts: readonly Shortcut[]): void {
  const layer = useRef(shortcuts);
  layer.current = shortcuts;
  // Before anything is painted: what is seen can be walked at once.
  useLayoutEffect(() => {
    layers.push(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, []);
}

/** Does this element take text, so that a letter is a letter? */
function types(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true]");
}

/** Is this press the element's own: Enter or space on a button, a link, a box? */
function isIts(target: EventTarget | null, key: string): boolean {
  return (key === "Enter" || key === " ") && !!(target as HTMLElement | null)?.closest?.("button, a, summary, input");
}

/** Which shortcut a press means, given the press before it. */
export function meant(shortcuts: readonly Shortcut[], before: string, key: string): Shortcut | undefined {
  return (before ? shortcuts.find((one) => one.key === `${before} ${key}`) : undefined) ?? shortcuts.find((one) => one.key === key);
}

/** Listen to the keyboard: once, for the whole page. */
export function listen(): () => void {
  let before = "";
  let at = 0;
  const pressed = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (types(event.target)) {
      if (event.key === "Escape") (event.target as HTMLElement).blur();
      return;
    }
    if (document.querySelector("dialog[open]") || isIts(event.target, event.key)) return;
    const recent = event.timeStamp - at < SECOND_WITHIN_MS ? before : "";
    const found = meant(active(), recent, event.key);
    before = event.key;
    at = event.timeStamp;
    if (!found) return;
    event.preventDefault();
    before = "";
    found.run();
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}
