/** The editor of a schedule. What is typed is shown as occurrences at once, by the API's own rules, and around the next clock changes. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { api, type Failure, Problem, segment } from "../api/http.ts";
import type { Preview, Schedule } from "../api/types.ts";
import { utc, zone as ownZone } from "../lib/format.ts";
import { refreshAll } from "../lib/live.ts";
import { go, to } from "../lib/route.ts";
import { Button, Card, Field } from "../ui/basic.tsx";
import { say } from "../ui/dialog.tsx";
import { Wrong } from "../ui/states.tsx";
import { Fires } from "./schedules.tsx";

interface Draft {
  name: string;
  cron: string;
  every: string;
  timezone: string;
  on_missed: string;
  overlap: string;
  on_gap: string;
  on_fold: string;
  jitter_ms: string;
  job: string;
}

const CHOICES = {
  on_missed: ["run_once", "skip", "backfill"],
  overlap: ["allow", "skip", "buffer_one", "cancel_running"],
  on_gap: ["fire_after", "skip"],
  on_fold: ["first", "second", "both"],
} as const;
const LABELS: Record<keyof typeof CHOICES, string> = {
  on_missed: "When occurrences were missed", overlap: "While the one before runs", on_gap: "In an hour that is skipped", on_fold: "In an hour that comes twice",
}; // prettier-ignore
const PREVIEW_AFTER_MS = 250;
const PREVIEWED = 8;

function draftOf(of: Schedule | undefined): Draft {
  return {
    name: of?.name ?? "", cron: of ? (of.cron ?? "") : "0 6 * * *", every: of?.every_ms ? String(of.every_ms / 1_000) : "", timezone: of?.timezone ?? ownZone(),
    on_missed: of?.on_missed ?? "run_once", overlap: of?.overlap ?? "allow", on_gap: of?.on_gap ?? "fire_after", on_fold: of?.on_fold ?? "first",
    jitter_ms: String(of?.jitter_ms ?? 0), job: JSON.stringify(of?.job ?? { job_type: "demo.hello", payload: {} }, null, 2),
  }; // prettier-ignore
}

/** When it fires: by expression, or every so often. */
function timingOf(draft: Draft): Record<string, unknown> {
  return draft.every ? { every_ms: Math.round(Number(draft.every) * 1_000) } : { cron: draft.cron, timezone: draft.timezone, on_gap: draft.on_gap, on_fold: draft.on_fold };
}

export function ScheduleEditor({ of, onDone }: { of?: Schedule; onDone: () => void }): JSX.Element {
  const [draft, setDraft] = useState(() => draftOf(of));
  const [preview, setPreview] = useState<Preview>();
  const [refused, setRefused] = useState("");
  const [error, setError] = useState<Failure>();
  const set = (name: keyof Draft) => (event: { currentTarget: { value: string } }) => setDraft({ ...draft, [name]: event.currentTarget.value });
  const timing = JSON.stringify(timingOf(draft));

  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setPreview(await api.post<Preview>("/v1/schedules/preview", { ...JSON.parse(timing), n: PREVIEWED }, { signal: stop.signal }));
        setRefused("");
      } catch (failure) {
        if (!stop.signal.aborted) setRefused(failure instanceof Problem ? (failure.errors[0]?.msg ?? failure.message) : (failure as Error).message);
      }
    }, PREVIEW_AFTER_MS);
    return () => (clearTimeout(timer), stop.abort());
  }, [timing]);

  const save = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setError(undefined);
    try {
      const { on_missed, overlap } = draft;
      const body = { on_missed, overlap, jitter_ms: Number(draft.jitter_ms), job: JSON.parse(draft.job), ...timingOf(draft) };
      await api.put(`/v1/schedules/${segment(draft.name)}`, body);
      say(`${draft.name} is saved.`);
      refreshAll();
      if (of) onDone();
      else go(to("schedules", draft.name));
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <form onSubmit={(event) => void save(event)} class="columns">
      <Card title={of ? `Edit ${of.name}` : "New schedule"}>
        <div class="form">
          <Field label="Name">
            <input value={draft.name} onInput={set("name")} required disabled={of !== undefined} />
          </Field>
          <Field label="Cron expression" hint="minute hour day month weekday" fault={draft.every ? undefined : refused || undefined}>
            <input class="mono" value={draft.cron} onInput={set("cron")} disabled={draft.every !== ""} />
          </Field>
          <Field label="or every … seconds" fault={draft.every ? refused || undefined : undefined}>
            <input type="number" min={1} step="any" value={draft.every} onInput={set("every")} />
          </Field>
          <Field label="Zone">
            <input value={draft.timezone} onInput={set("timezone")} list="zones" disabled={draft.every !== ""} />
            <datalist id="zones">
              {Intl.supportedValuesOf("timeZone").map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </Field>
          {(Object.keys(CHOICES) as (keyof typeof CHOICES)[]).map((name) => (
            <Field key={name} label={LABELS[name]}>
              <select value={draft[name]} onChange={set(name)}>
                {CHOICES[name].map((choice) => (
                  <option key={choice} value={choice}>
                    {choice.replaceAll("_", " ")}
                  </option>
                ))}
              </select>
            </Field>
          ))}
          <Field label="Jitter, ms">
            <input type="number" min={0} value={draft.jitter_ms} onInput={set("jitter_ms")} />
          </Field>
        </div>
        <Field label="Job (JSON)" hint="{{scheduled_at}} and {{schedule}} in the payload's strings are filled in">
          <textarea rows={9} value={draft.job} onInput={set("job")} spellcheck={false} />
        </Field>
        {error && <Wrong error={error} />}
        <div class="row end">
          <Button onClick={onDone}>Cancel</Button>
          <button class="button main">Save</button>
        </div>
      </Card>
      <Card title="It would fire">
        {refused ? (
          <p class="fault wrap" role="alert">
            {refused}
          </p>
        ) : preview ? (
          <>
            <p>{preview.description}</p>
            <Fires of={preview.fires} zone={draft.every ? "UTC" : draft.timezone} />
            {preview.transitions.length > 0 && (
              <>
                <h3>Clock changes ahead</h3>
                <ul class="reasons">
                  {preview.transitions.slice(0, 4).map((change) => (
                    <li key={change.at}>
                      {utc(change.at)}: <strong>{change.kind}</strong>, {change.local_before} becomes {change.local_after}
                    </li>
                  ))}
                </ul>
              </>
            )}
          </>
        ) : (
          <div class="loading" role="status" aria-label="loading" />
        )}
      </Card>
    </form>
  );
}
