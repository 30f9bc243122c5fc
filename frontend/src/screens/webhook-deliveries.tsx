/** What a project's webhook was told, and what came back. */

import type { JSX } from "preact";

import type { Delivery } from "../api/webhooks.ts";
import { count } from "../lib/format.ts";
import { State, Time } from "../ui/basic.tsx";
import { List } from "../ui/list.tsx";
import type { Column } from "../ui/table.tsx";
import { EVENTS } from "./webhook-settings.tsx";

/** "500, try 3", or the reason why there was no answer. */
function answer(one: Delivery): string {
  return [one.last_status === null ? "" : `HTTP ${one.last_status}`, one.last_error ?? ""].filter(Boolean).join(": ");
}

const COLUMNS: readonly Column<Delivery>[] = [
  { name: "Made", cell: (one) => <Time at={one.created_at} /> },
  { name: "What", cell: (one) => EVENTS[one.event] ?? "a test" },
  { name: "State", cell: (one) => <State is={one.status} /> },
  { name: "Tells", cell: (one) => count(one.things), end: true, wide: true },
  { name: "Attempts", cell: (one) => one.attempts, end: true, wide: true },
  { name: "Answer", cell: (one) => <span title={answer(one)}>{answer(one)}</span>, wide: true },
  { name: "Ended", cell: (one) => <Time at={one.ended_at} />, wide: true },
];

export function Deliveries(): JSX.Element {
  return (
    <List<Delivery> what="calls" path="/v1/webhook/deliveries" topics={["overview"]} id={(one) => one.id} columns={COLUMNS} screen="projects">
      It is called when something happens, or when you send a test.
    </List>
  );
}
