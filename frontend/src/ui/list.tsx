/** A screen's list: its rows, or which of the two kinds of empty it is, or what went wrong. */

import type { ComponentChildren, JSX } from "preact";

import { plural } from "../lib/format.ts";
import type { Topic } from "../lib/live.ts";
import { usePages } from "../lib/pages.ts";
import { go, to } from "../lib/route.ts";
import { ListTrouble, NothingMatches, NothingYet } from "./states.tsx";
import { type Column, Table } from "./table.tsx";

interface Props<T> {
  what: string;
  path: string;
  query?: URLSearchParams;
  topics: readonly Topic[];
  id: (row: T) => string;
  columns: readonly Column<T>[];
  href?: (row: T) => string;
  /** How the first one comes to be. */
  children?: ComponentChildren;
  /** Where "clear the filters" leads: the screen without its query. */
  screen: string;
}

/** "classes" → "class", "batches" → "batch", "policies" → "policy", "queues" → "queue". */
function singular(what: string): string {
  return what.replace(/ies$/, "y").replace(/(ss|ch)es$/, "$1").replace(/([^s])s$/, "$1");
}

const NONE = new URLSearchParams();

export function List<T>({ what, path, query = NONE, topics, id, columns, href, children, screen }: Props<T>): JSX.Element {
  const list = usePages<T>(path, query, topics, id);
  if (list.loading) return <div class="loading" role="status" aria-label="loading" />;
  return (
    <>
      <ListTrouble of={list} />
      {list.rows.length > 0 && (
        <>
          <Table label={what} rows={list.rows} columns={columns} id={id} {...(href ? { href } : {})} onEnd={list.more ? list.onEnd : undefined} />
          <p class="dim" role="status">
            {plural(list.rows.length, singular(what), what)} loaded{list.more ? ", more below" : ": all there are"}
          </p>
        </>
      )}
      {list.rows.length === 0 && !list.error && (query.size ? <NothingMatches what={what} onClear={() => go(to(screen))} /> : <NothingYet what={what}>{children}</NothingYet>)}
    </>
  );
}
