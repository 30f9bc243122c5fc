/** Limits over all queues and workers: rate classes with their kill switch, and standing limits of a queue or a type. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, segment } from "../api/http.ts";
import { may } from "../api/session.ts";
import type { ConcurrencyLimit, Queue, RateClass } from "../api/queues.ts";
import { namesOf, useAll } from "../lib/all.ts";
import { count, duration } from "../lib/format.ts";
import type { Body, Input } from "../lib/forms.ts";
import { useOver } from "../lib/over.ts";
import { toWith } from "../lib/route.ts";
import { Button, Card, State, Time } from "../ui/basic.tsx";
import { attempt, Confirm, type Deed } from "../ui/dialog.tsx";
import { FormDialog } from "../ui/form.tsx";
import { List } from "../ui/list.tsx";
import { Named } from "../ui/named.tsx";
import type { Column } from "../ui/table.tsx";
import { SATURATED } from "./queue-settings.tsx";

const classPath = (name: string): string => `/v1/rate-classes/${segment(name)}`;
const limitPath = (name: string): string => `/v1/concurrency-limits/${segment(name)}`;

export function Limits(): JSX.Element {
  return (
    <>
      <header>
        <h1>Limits</h1>
      </header>
      <RateClasses />
      <StandingLimits />
    </>
  );
}

function spec(one: RateClass, is_paused: boolean): object {
  return { limit: one.limit, window_ms: one.window_ms, burst: one.burst, is_paused };
}

/** The kill switch. The word of it offers the way back. */
function flip(one: RateClass): void {
  const says = one.is_paused ? "resumed, it refills from zero" : "paused: nothing of it starts";
  const set = (is_paused: boolean): Promise<unknown> => api.put(classPath(one.name), spec(one, is_paused));
  void attempt(async () => (await set(!one.is_paused), { says: `${one.name}: ${says}.`, undo: () => set(one.is_paused) }));
}

function RateClasses(): JSX.Element {
  const [making, editing] = [useOver("new-class"), useOver("class")];
  const [deed, setDeed] = useState<Deed>();
  const remove = (one: RateClass): void =>
    setDeed({
      title: `Delete the rate class ${one.name}`,
      says: "Its jobs are free of it at once, those that wait already too.",
      verb: "Delete it",
      danger: true,
      run: async () => (await api.delete(classPath(one.name)), { says: `${one.name} is deleted.`, undo: () => api.put(classPath(one.name), spec(one, one.is_paused)) }),
    });
  const columns: Column<RateClass>[] = [
    { name: "Name", cell: (one) => <a class="clip" href={toWith({ rate_class: one.name }, "jobs")}>{one.name}</a> },
    { name: "State", cell: (one) => (one.is_paused ? <State is="paused" /> : one.closed_until ? <>closed until <Time at={one.closed_until} /></> : <State is="open" />) }, // prettier-ignore
    { name: "Rate", cell: (one) => `${count(one.limit)} per ${duration(one.window_ms)}`, wide: true },
    { name: "Burst", cell: (one) => count(one.burst), end: true, wide: true },
    { name: "Left", cell: (one) => count(one.tokens), end: true, wide: true },
    ...(may("admin")
      ? [
          {
            name: "",
            cell: (one: RateClass) => (
              <span class="row tight">
                <Button aria-label={`${one.is_paused ? "Resume" : "Pause"} ${one.name}`} onClick={() => flip(one)}>
                  {one.is_paused ? "Resume" : "Pause"}
                </Button>
                <Button aria-label={`Edit ${one.name}`} onClick={() => editing.open(one.name)}>
                  Edit
                </Button>
                <Button aria-label={`Delete ${one.name}`} onClick={() => remove(one)}>
                  Delete
                </Button>
              </span>
            ),
          },
        ]
      : []),
  ];
  return (
    <Card title="Rate classes" aside={may("admin") ? <Button onClick={() => making.open()}>New rate class</Button> : null}>
      <List<RateClass> what="rate classes" path="/v1/rate-classes" topics={["queues", "overview"]} id={(one) => one.name} columns={columns} screen="limits">
        So many jobs per so long, over all workers: a job that names the class pays its weight. Paused, nothing of it starts.
      </List>
      {making.isOpen && may("admin") && <EditRateClass of={{}} onClose={making.close} />}
      {editing.isOpen && may("admin") && (
        <Named<RateClass> key={editing.on} path={classPath(editing.on)} onClose={editing.close}>
          {(one) => <EditRateClass of={one} onClose={editing.close} />}
        </Named>
      )}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </Card>
  );
}

function EditRateClass({ of, onClose }: { of: Partial<RateClass>; onClose: () => void }): JSX.Element {
  const inputs: Input[] = [
    ...(of.name ? [] : [{ name: "name", label: "Name", required: true, hint: "what jobs say as rate_class" }]),
    { name: "limit", label: "Tokens", is: "number", value: of.limit, required: true, hint: "a job costs its weight, 1 if it says none" },
    { name: "window_ms", label: "per", is: "span", value: of.window_ms ?? 1_000, required: true },
    { name: "burst", label: "At most at once", is: "number", value: of.burst, hint: "empty: as many as per window" },
  ];
  const save = async ({ name = of.name, ...body }: Body): Promise<string> => (await api.put(classPath(String(name ?? "")), body), `${name} is ${of.name ? "changed" : "made"}.`);
  return <FormDialog title={of.name ? `Edit ${of.name}` : "New rate class"} inputs={inputs} verb={of.name ? "Save" : "Make it"} onSend={save} onClose={onClose} />;
}

function StandingLimits(): JSX.Element {
  const [making, editing] = [useOver("new-limit"), useOver("limit")];
  const [deed, setDeed] = useState<Deed>();
  const remove = (one: ConcurrencyLimit): void =>
    setDeed({
      title: `Delete the limit ${one.name}`,
      says: "What waits for it may go at once.",
      verb: "Delete it",
      danger: true,
      run: async () => {
        await api.delete(limitPath(one.name));
        const { queue, job_type, max_concurrent, on_saturated } = one;
        return { says: `${one.name} is deleted.`, undo: () => api.put(limitPath(one.name), { queue, job_type, max_concurrent, on_saturated }) };
      },
    });
  const columns: Column<ConcurrencyLimit>[] = [
    { name: "Name", cell: (one) => <span class="clip">{one.name}</span> },
    { name: "Of", cell: (one) => <span class="clip">{one.queue ? `queue ${one.queue}` : `type ${one.job_type}`}</span> },
    { name: "Running", cell: (one) => `${one.running > one.max_concurrent ? "over " : ""}${Math.min(one.running, one.max_concurrent)} of ${count(one.max_concurrent)}`, end: true, wide: true },
    { name: "When full", cell: (one) => SATURATED.find(([name]) => name === one.on_saturated)?.[1], wide: true },
    ...(may("admin")
      ? [
          {
            name: "",
            cell: (one: ConcurrencyLimit) => (
              <span class="row tight">
                <Button aria-label={`Edit ${one.name}`} onClick={() => editing.open(one.name)}>
                  Edit
                </Button>
                <Button aria-label={`Delete ${one.name}`} onClick={() => remove(one)}>
                  Delete
                </Button>
              </span>
            ),
          },
        ]
      : []),
  ];
  return (
    <Card title="Standing limits" aside={may("admin") ? <Button onClick={() => making.open()}>New limit</Button> : null}>
      <List<ConcurrencyLimit> what="standing limits" path="/v1/concurrency-limits" topics={["queues", "overview"]} id={(one) => one.name} columns={columns} screen="limits">
        So many jobs of a queue, or of a type in whichever queues, at once over all workers.
      </List>
      {making.isOpen && may("admin") && <EditLimit of={{}} onClose={making.close} />}
      {editing.isOpen && may("admin") && (
        <Named<ConcurrencyLimit> key={editing.on} path={limitPath(editing.on)} onClose={editing.close}>
          {(one) => <EditLimit of={one} onClose={editing.close} />}
        </Named>
      )}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </Card>
  );
}

function EditLimit({ of, onClose }: { of: Partial<ConcurrencyLimit>; onClose: () => void }): JSX.Element {
  const queues = useAll<Queue>("/v1/queues");
  const types = useAll<{ name: string }>("/v1/job-types");
  const inputs: Input[] = [
    ...(of.name ? [] : [{ name: "name", label: "Name", required: true }]),
    { name: "queue", label: "Of the queue", value: of.queue, suggestions: namesOf(queues), hint: "either a queue" },
    { name: "job_type", label: "or of the job type", value: of.job_type, suggestions: namesOf(types), hint: "or a type, not both" },
    { name: "max_concurrent", label: "Jobs at once", is: "number", value: of.max_concurrent, required: true, hint: "0: none starts" },
    { name: "on_saturated", label: "When that many run", is: "choice", value: of.on_saturated ?? "queue", choices: SATURATED },
  ];
  const save = async ({ name = of.name, ...body }: Body): Promise<string> => (await api.put(limitPath(String(name ?? "")), body), `${name} is ${of.name ? "changed" : "made"}.`);
  return <FormDialog title={of.name ? `Edit ${of.name}` : "New limit"} inputs={inputs} verb={of.name ? "Save" : "Make it"} onSend={save} onClose={onClose} />;
}
