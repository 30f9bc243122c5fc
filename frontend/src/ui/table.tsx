/**
 * A table that stays quick with ten thousand rows: only those in sight are in the document.
 *
 * Keys: j and k move, Enter opens, x selects, Escape lets go. Where a screen has several tables, they act on the one that has
 * the focus, else on the first. On a narrow screen the columns called `wide` are left out.
 */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { holdStill } from "../lib/live.ts";
import { go } from "../lib/route.ts";
import { useKeys } from "../lib/keys.ts";

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  /** Numbers stand to the right. */
  end?: boolean;
  /** Not shown where there is little room. */
  wide?: boolean;
}

interface Props<T> {
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  id: (row: T) => string;
  href?: (row: T) => string;
  /** With it rows can be selected; the page keeps still while any are. */
  selected?: ReadonlySet<string>;
  onSelect?: (selected: Set<string>) => void;
  /** Called when the end comes near. */
  onEnd?: (() => void) | undefined;
}

const ROW_PX = 37;
const AROUND = 12;
const VIRTUAL_FROM = 120;

/** Which rows are to be in the document: the first and the one after the last. */
export function inSight(count: number, top: number, height: number, rowPx = ROW_PX): [number, number] {
  if (count <= VIRTUAL_FROM) return [0, count];
  const first = Math.min(Math.max(0, Math.floor(top / rowPx) - AROUND), Math.max(0, count - 1));
  return [first, Math.min(count, Math.ceil((top + height) / rowPx) + AROUND)];
}

/** What the keys do to a table, by its box. */
const tables = new Map<HTMLElement, { move: (by: number) => void; open: () => void; toggle: () => void; drop: () => void }>();

function current(): ReturnType<typeof tables.get> {
  const boxes = [...document.querySelectorAll<HTMLElement>("main .table-box")].filter((box) => tables.has(box));
  return tables.get(boxes.find((box) => box.contains(document.activeElement)) ?? (boxes[0] as HTMLElement));
}

const KEYS = [
  { key: "j", what: "next row", run: () => current()?.move(1) },
  { key: "k", what: "row before", run: () => current()?.move(-1) },
  { key: "Enter", what: "open the row", run: () => current()?.open() },
  { key: "x", what: "select the row", run: () => current()?.toggle() },
  { key: "Escape", what: "leave the rows", run: () => current()?.drop() },
] as const;

/** A cell that has no room for its text tells the whole of it when one points at it. */
function tell(event: MouseEvent): void {
  const cell = (event.target as HTMLElement).closest("td");
  if (cell && !cell.querySelector("[title], button")) cell.title = cell.scrollWidth > cell.clientWidth ? (cell.textContent ?? "") : "";
}

export function Table<T>({ label, rows, columns, id, href, selected, onSelect, onEnd }: Props<T>): JSX.Element {
  const body = useRef<HTMLDivElement>(null);
  const [view, setView] = useState<readonly [number, number]>(() => inSight(rows.length, 0, 900));
  const [at, setAt] = useState(-1);
  const [widths, setWidths] = useState<readonly number[]>();
  const count = rows.length;

  useLayoutEffect(() => {
    const look = (): void => {
      const box = body.current?.getBoundingClientRect();
      if (!box) return;
      const next = inSight(count, Math.max(0, -box.top), innerHeight);
      setView((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
      if (onEnd && box.bottom < innerHeight + 600) onEnd();
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [onEnd, count]);

  useEffect(() => (selected?.size ? holdStill() : undefined), [!!selected?.size]);

  const move = (to: number): void => {
    const next = Math.min(Math.max(0, to), rows.length - 1);
    setAt(next);
    const box = body.current?.getBoundingClientRect();
    if (!box) return;
    const y = box.top + next * ROW_PX;
    if (y < 80 || y > innerHeight - 80) scrollBy({ top: y - innerHeight / 2 });
  };
  const toggle = (row: T | undefined): void => {
    if (!row || !onSelect) return;
    const next = new Set(selected);
    if (!next.delete(id(row))) next.add(id(row));
    onSelect(next);
  };
  useKeys(KEYS.filter(({ key }) => (key === "Enter" ? href : key === "x" ? onSelect : true)));
  useLayoutEffect(() => {
    const here = body.current;
    if (!here) return;
    const open = (): void => {
      const row = rows[at];
      if (href && row) go(href(row));
    };
    const drop = (): void => (setAt(-1), onSelect?.(new Set()));
    tables.set(here, { move: (by) => move(at + by), open, toggle: () => toggle(rows[at]), drop });
    return () => void tables.delete(here);
  });
  // Columns as wide as the first rows made them: else they would jump as other rows come into sight.
  const isVirtual = count > VIRTUAL_FROM;
  const shape = columns.map((column) => column.name).join();
  useLayoutEffect(() => setWidths(undefined), [shape, isVirtual]);
  useLayoutEffect(() => {
    if (!isVirtual || widths) return;
    setWidths([...(body.current?.querySelectorAll("th") ?? [])].map((cell) => cell.offsetWidth));
  }, [isVirtual, widths]);
  useEffect(() => {
    const anew = (): void => setWidths(undefined);
    addEventListener("resize", anew);
    return () => removeEventListener("resize", anew);
  }, []);

  const first = Math.min(view[0], count);
  const end = isVirtual ? Math.min(count, Math.max(view[1], first)) : count;
  const all = rows.length > 0 && rows.every((row) => selected?.has(id(row)));
  return (
    <div class="table-box" ref={body} tabIndex={0} role="region" aria-label={`${label}, table`}>
      <table aria-label={label} aria-rowcount={count + 1} class={widths ? "held" : ""} onMouseOver={tell}>
        {widths && (
          <colgroup>
            {widths.map((px, index) => (
              <col key={index} style={{ width: `${px}px` }} />
            ))}
          </colgroup>
        )}
        <thead>
          <tr>
            {onSelect && (
              <th class="pick" scope="col">
                <input type="checkbox" aria-label="Select all that are loaded" checked={all} onChange={() => onSelect(new Set(all ? [] : rows.map(id)))} />
              </th>
            )}
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classes(column)}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Gap rows={first} />}
          {rows.slice(first, end).map((row, index) => (
            <tr key={id(row)} aria-rowindex={first + index + 2} class={first + index === at ? "at" : ""} aria-selected={selected?.has(id(row)) ?? undefined}>
              {onSelect && (
                <td class="pick">
                  <input type="checkbox" aria-label={`Select ${id(row)}`} checked={selected?.has(id(row)) ?? false} onChange={() => toggle(row)} />
                </td>
              )}
              {columns.map((column) => (
                <td key={column.name} class={classes(column)} data-name={column.name}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {end < rows.length && <Gap rows={rows.length - end} />}
        </tbody>
      </table>
    </div>
  );
}

function Gap({ rows }: { rows: number }): JSX.Element {
  return (
    <tr aria-hidden="true" class="gap">
      <td colSpan={99} style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  );
}

function classes<T>(column: Column<T>): string {
  return `${column.end ? "end" : ""} ${column.wide ? "wide" : ""}`.trim();
}
