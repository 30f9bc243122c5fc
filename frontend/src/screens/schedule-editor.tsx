/** The editor of a schedule. What is typed is shown as occurrences at once, by the API's own rules, and around the next clock changes. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { api, Problem, segment } from "../api/http.ts";
import type { Preview, Schedule } from "../api/schedules.ts";
import { utc, zone as ownZone } from "../lib/format.ts";
import type { Body, Input } from "../lib/forms.ts";
import { go, to } from "../lib/route.ts";
import { Card } from "../ui/basic.tsx";
import { Form } from "../ui/form.tsx";
import { Fires } from "./schedules.tsx";

const worded = (...choices: string[]): (readonly [string, string])[] => choices.map((choice) => [choice, choice.replaceAll("_", " ")]);
const PREVIEW_AFTER_MS = 250;
const PREVIEWED = 8;

function inputsOf(of: Schedule | undefined): [usual: Input[], further: Input[]] {
  const usual: Input[] = [
    ...(of ? [] : [{ name: "name", label: "Name", required: true, hint: "letters, digits and _ . : / -" }]),
    { name: "cron", label: "Cron expression", value: of ? of.cron : "0 6 * * *", hint: "minute hour day month weekday, or @daily" },
    { name: "every_ms", label: "or every", is: "span", value: of?.every_ms, hint: "such as 5 min; takes the place of the expression" },
    { name: "timezone", label: "Zone", value: of?.timezone ?? ownZone(), suggestions: Intl.supportedValuesOf("timeZone") },
    { name: "on_missed", label: "When occurrences were missed", is: "choice", value: of?.on_missed ?? "run_once", choices: worded("run_once", "skip", "backfill") },
    { name: "overlap", label: "While the one before runs", is: "choice", value: of?.overlap ?? "allow", choices: worded("allow", "skip", "buffer_one", "cancel_running") },
    { name: "job", label: "Job (JSON)", is: "json", required: true, value: of?.job ?? { job_type: "demo.hello", payload: {} }, hint: "{{scheduled_at}} and {{schedule}} in the payload's strings are filled in" },
  ];
  const further: Input[] = [
    { name: "backfill_limit", label: "Backfill at most", is: "number", value: of?.backfill_limit || undefined, hint: "of missed ones, with backfill" },
    { name: "on_gap", label: "In an hour that is skipped", is: "choice", value: of?.on_gap ?? "fire_after", choices: worded("fire_after", "skip") },
    { name: "on_fold", label: "In an hour that comes twice", is: "choice", value: of?.on_fold ?? "first", choices: worded("first", "second", "both") },
    { name: "jitter_ms", label: "Jitter", is: "span", value: of?.jitter_ms ?? 0, hint: "each later by up to so long, by chance" },
    { name: "starts_at", label: "Not before, on your own clock", is: "instant", value: of?.starts_at },
    { name: "ends_at", label: "Not from … on", is: "instant", value: of?.ends_at },
  ];
  return [usual, further];
}

const CHANGES: Record<string, string> = { gap: "clocks go forward", fold: "clocks go back" };

/** "2026-10-25T03:00:00" → "03:00". */
const clock = (local: string): string => local.slice(11, 16);

/** What is sent: either an expression with its zone and rules, or a span. */
function specOf({ cron, every_ms, timezone, on_gap, on_fold, ...rest }: Body): Body {
  return { ...rest, ...(every_ms === undefined ? { cron, timezone, on_gap, on_fold } : { every_ms }) };
}

/** When it fires, alone: what a preview asks. */
function timingOf(body: Body): string {
  const { cron, every_ms, timezone, on_gap, on_fold } = specOf(body);
  return JSON.stringify({ cron, every_ms, timezone, on_gap, on_fold });
}

export function ScheduleEditor({ of, onDone }: { of?: Schedule; onDone: () => void }): JSX.Element {
  const [timing, setTiming] = useState("");
  const [usual, further] = inputsOf(of);
  const save = async ({ name = of?.name, ...body }: Body): Promise<string> => {
    await api.put(`/v1/schedules/${segment(String(name))}`, specOf(body));
    if (of) onDone();
    else go(to("schedules", String(name)));
    return `${name} is saved.`;
  };
  return (
    <>
      <header>
        <h1>{of ? `Edit ${of.name}` : "New schedule"}</h1>
      </header>
      <div class="columns">
        <Card title="When, and which job">
          <Form inputs={usual} more={further} verb="Save" onSend={save} onCancel={onDone} onTyped={(body) => setTiming(timingOf(body))} />
        </Card>
        <Card title="It would fire">{timing && <Occurrences timing={timing} />}</Card>
      </div>
    </>
  );
}

/** The next occurrences of what is being typed, or the reason why there are none. */
function Occurrences({ timing }: { timing: string }): JSX.Element {
  const [preview, setPreview] = useState<Preview & { zone: string }>();
  const [refused, setRefused] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      const asked = JSON.parse(timing) as { timezone?: string };
      try {
        const answer = await api.post<Preview>("/v1/schedules/preview", { ...asked, n: PREVIEWED }, { signal: stop.signal });
        setPreview({ ...answer, zone: asked.timezone ?? "UTC" });
        setRefused("");
      } catch (failure) {
        if (!stop.signal.aborted) setRefused(failure instanceof Problem ? (failure.errors[0]?.msg ?? failure.message) : (failure as Error).message);
      }
    }, PREVIEW_AFTER_MS);
    return () => (clearTimeout(timer), stop.abort());
  }, [timing]);
  if (refused)
    return (
      <p class="fault wrap" role="alert">
        {refused}
      </p>
    );
  if (!preview) return <div class="loading" role="status" aria-label="loading" />;
  return (
    <>
      <p>{preview.description}</p>
      <Fires of={preview.fires} zone={preview.zone} />
      {preview.transitions.length > 0 && (
        <>
          <h3>Clock changes ahead</h3>
          <ul class="reasons">
            {preview.transitions.slice(0, 4).map((change) => (
              <li key={change.at}>
                {utc(change.at)}: <strong>{CHANGES[change.kind] ?? change.kind}</strong>, {clock(change.local_before)} ({change.offset_before}) becomes {clock(change.local_after)} ({change.offset_after})
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
