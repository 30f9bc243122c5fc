/** Retry policies: how long a failed attempt waits for the next one, and which queues do so. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { Queue, RetryPolicy } from "../api/queues.ts";
import { useAll } from "../lib/all.ts";
import { type Backoff, waitsOf } from "../lib/backoff.ts";
import { duration, plural } from "../lib/format.ts";
import type { Body, Input } from "../lib/forms.ts";
import { useOver } from "../lib/over.ts";
import { to } from "../lib/route.ts";
import { Button } from "../ui/basic.tsx";
import { Confirm, type Deed } from "../ui/dialog.tsx";
import { FormDialog } from "../ui/form.tsx";
import { List } from "../ui/list.tsx";
import { Named } from "../ui/named.tsx";
import type { Column } from "../ui/table.tsx";

const DEFAULT: Backoff & { jitter: boolean } = { strategy: "exponential", base_delay_ms: 5_000, multiplier: 2, max_delay_ms: 3_600_000, max_attempts: 5, jitter: true };
const STRATEGIES = [
  ["fixed", "always the same"],
  ["linear", "longer by the first wait each time"],
  ["exponential", "multiplied each time"],
] as const;
const SHOWN = 8;

/** "5 s, 10 s, 20 s, …" */
function waits(policy: Backoff): string {
  const all = waitsOf(policy, SHOWN + 1).map(duration);
  return all.length ? [...all.slice(0, SHOWN), ...(all.length > SHOWN ? ["…"] : [])].join(", ") : "no retry";
}

export function RetryPolicies(): JSX.Element {
  const queues = useAll<Queue>("/v1/queues");
  const [making, editing] = [useOver("new"), useOver("edit")];
  const [deed, setDeed] = useState<Deed>();
  const users = (policy: RetryPolicy): string[] => (queues ?? []).filter((queue) => queue.default_retry_policy === policy.name).map((queue) => queue.name);
  const remove = (policy: RetryPolicy): void => {
    const used = users(policy);
    setDeed({
      title: `Delete the retry policy ${policy.name}`,
      says: `${used.length ? `${plural(used.length, "queue")} (${used.join(", ")}) and the` : "The"} jobs that name it fall back to the built-in one: ${waits(DEFAULT)}.`,
      verb: "Delete it",
      danger: true,
      run: async () => (await api.delete(`/v1/retry-policies/${segment(policy.name)}`), { says: `${policy.name} is deleted.` }),
    });
  };
  const columns: Column<RetryPolicy>[] = [
    { name: "Name", cell: (policy) => policy.name },
    { name: "Attempts", cell: (policy) => policy.max_attempts, end: true, wide: true },
    { name: "Waits", cell: (policy) => <span title={waits(policy)}>{waits(policy)}{policy.jitter ? ", up to half less" : ""}</span>, wide: true }, // prettier-ignore
    { name: "Queues", cell: (policy) => users(policy).map((name, index) => <>{index > 0 && ", "}<a href={to("queues", name)}>{name}</a></>) }, // prettier-ignore
    ...(may("admin")
      ? [
          {
            name: "",
            cell: (policy: RetryPolicy) => (
              <span class="row tight">
                <Button aria-label={`Edit ${policy.name}`} onClick={() => editing.open(policy.name)}>
                  Edit
                </Button>
                <Button aria-label={`Delete ${policy.name}`} onClick={() => remove(policy)}>
                  Delete
                </Button>
              </span>
            ),
          },
        ]
      : []),
  ];
  return (
    <>
      <header>
        <h1>Retry policies</h1>
        {may("admin") && (
          <Button kind="main" onClick={() => making.open()}>
            New policy
          </Button>
        )}
      </header>
      <p class="dim">
        Jobs and queues that name none have the built-in one: {plural(DEFAULT.max_attempts, "attempt")}, waits of {waits(DEFAULT)}, up to half less by chance.
      </p>
      <List<RetryPolicy> what="retry policies" path="/v1/retry-policies" topics={["queues", "overview"]} id={(policy) => policy.name} columns={columns} screen="retry-policies">
        A queue can have one as its default, and a job can name one.
      </List>
      {making.isOpen && may("admin") && <Edit of={{}} onClose={making.close} />}
      {editing.isOpen && may("admin") && (
        <Named<RetryPolicy> key={editing.on} path={`/v1/retry-policies/${segment(editing.on)}`} onClose={editing.close}>
          {(policy) => <Edit of={policy} onClose={editing.close} />}
        </Named>
      )}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </>
  );
}

function Edit({ of, onClose }: { of: Partial<RetryPolicy>; onClose: () => void }): JSX.Element {
  const now = { ...DEFAULT, ...of };
  const inputs: Input[] = [
    ...(of.name ? [] : [{ name: "name", label: "Name", required: true, hint: "letters, digits and _ . : / -" }]),
    { name: "max_attempts", label: "Attempts, the first included", is: "number", value: now.max_attempts },
    { name: "strategy", label: "The waits are", is: "choice", value: now.strategy, choices: STRATEGIES },
    { name: "base_delay_ms", label: "First wait", is: "span", value: now.base_delay_ms },
    { name: "multiplier", label: "Multiplier", is: "number", value: now.multiplier, hint: "of exponential ones" },
    { name: "max_delay_ms", label: "Longest wait", is: "span", value: now.max_delay_ms },
    { name: "jitter", label: "Up to half of each less, by chance", is: "flag", value: now.jitter, hint: "so that what failed together does not come back together" },
  ];
  const save = async (body: Body): Promise<string> => {
    if (of.name) await api.patch(`/v1/retry-policies/${segment(of.name)}`, body);
    else await api.post("/v1/retry-policies", body);
    return of.name ? `${of.name} is changed: jobs that name it follow from their next failure on.` : `${body["name"]} is made.`;
  };
  return (
    <FormDialog
      title={of.name ? `Edit ${of.name}` : "New retry policy"}
      inputs={inputs}
      onlyChanged={of.name !== undefined}
      verb={of.name ? "Save" : "Make it"}
      onSend={save}
      onClose={onClose}
      preview={(body) => (
        <p class="dim" role="status">
          It waits: {waits({ ...now, ...body })}
        </p>
      )}
    />
  );
}
