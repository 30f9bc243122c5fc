/**
 * What is open over a screen: its name stands in the address (`?open=edit&on=mail`), so that a link opens it and Back closes it.
 *
 * For forms and views. A question before a deed is not in the address: no link is to stand one press before a deletion.
 */

import { parse, setQuery, usePlace } from "./route.ts";

export interface Over {
  isOpen: boolean;
  /** What it is about; "" where that goes without saying. */
  on: string;
  open: (on?: string) => void;
  close: () => void;
}

/** Names in a query that are no filters: what is open, and how a list looks. */
export const NO_FILTERS: ReadonlySet<string> = new Set(["open", "on", "columns"]);

interface Step {
  over?: boolean;
}

let isClosing = false;

/** What is open under this name, if it is. */
export function useOver(name: string): Over {
  const { query } = usePlace();
  const isOpen = query.get("open") === name;
  const open = (on = ""): void => {
    const before = location.hash;
    setQuery({ open: name, on });
    if (location.hash !== before) history.replaceState({ over: true } satisfies Step, "");
  };
  return { isOpen, on: isOpen ? (query.get("on") ?? "") : "", open, close: () => close(name) };
}

/** Back over the step that opened it; where a link did, without a step. Nothing where one has gone elsewhere meanwhile. */
function close(name: string): void {
  if (isClosing || parse(location.hash).query.get("open") !== name) return;
  if (!(history.state as Step | null)?.over) return setQuery({ open: null, on: null }, true);
  isClosing = true;
  addEventListener("hashchange", () => (isClosing = false), { once: true });
  history.back();
}
