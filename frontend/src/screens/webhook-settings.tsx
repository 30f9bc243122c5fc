/** Where a webhook leads, and what it is told. */

import type { JSX } from "preact";

import { api } from "../api/http.ts";
import type { Queue } from "../api/queues.ts";
import type { Webhook } from "../api/webhooks.ts";
import { namesOf, useAll } from "../lib/all.ts";
import type { Body, Input } from "../lib/forms.ts";
import { FormDialog } from "../ui/form.tsx";

export const EVENTS: Record<string, string> = {
  "job.dead_letter": "jobs die",
  "fingerprint.quarantined": "a payload is quarantined",
  "schedule.broken": "a schedule breaks",
};

/** A dot leads into a field, so that no event can be the name of one. */
const fieldOf = (event: string): string => `events.${event.replace(".", "-")}`;

export function SetWebhook({ of, onSecret, onClose }: { of: Webhook | undefined; onSecret: (secret: string) => void; onClose: () => void }): JSX.Element {
  const queues = namesOf(useAll<Queue>("/v1/queues"));
  const told = new Set(of?.events ?? ["job.dead_letter"]);
  const inputs: Input[] = [
    { name: "url", label: "Address", value: of?.url, required: true, hint: "https, to a public address; its calls are signed" },
    ...Object.entries(EVENTS).map(([event, words]): Input => ({ name: fieldOf(event), label: `Tell when ${words}`, is: "flag", value: told.has(event) })),
    { name: "queues", label: "Deaths in these queues only", is: "words", value: of?.queues ?? undefined, hint: `apart by spaces; empty: all${queues.length ? `, such as ${queues.slice(0, 3).join(" ")}` : ""}` },
  ];
  const save = async ({ url, events, queues: only = null }: Body): Promise<string> => {
    const chosen = Object.keys(EVENTS).filter((event) => (events as Record<string, boolean>)[fieldOf(event).slice("events.".length)]);
    const { secret } = await api.put<{ secret?: string }>("/v1/webhook", { url, events: chosen, queues: only });
    if (secret) onSecret(secret);
    return of ? "The webhook is changed; its secret stays." : "The webhook is set.";
  };
  return <FormDialog title={of ? "Change the webhook" : "Set a webhook"} inputs={inputs} verb={of ? "Save" : "Set it"} cancel="Keep as it is" onSend={save} onClose={onClose} />;
}
