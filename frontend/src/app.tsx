/** Which screen for which place. */

import type { ComponentType, JSX } from "preact";
import { useEffect } from "preact/hooks";

import { api } from "./api/http.ts";
import { type Me, useSession } from "./api/session.ts";
import { follow, forgetAll } from "./lib/live.ts";
import { fragment, go, to, usePlace } from "./lib/route.ts";
import { Account } from "./screens/account.tsx";
import { Audit } from "./screens/audit.tsx";
import { Batches, BatchScreen } from "./screens/batches.tsx";
import { DeadLetters } from "./screens/dead-letters.tsx";
import { JobScreen } from "./screens/job.tsx";
import { Jobs } from "./screens/jobs.tsx";
import { Limits } from "./screens/limits.tsx";
import { Keys } from "./screens/keys.tsx";
import { NewJob } from "./screens/new-job.tsx";
import { Operations, OperationScreen } from "./screens/operations.tsx";
import { Overview } from "./screens/overview.tsx";
import { Members } from "./screens/members.tsx";
import { Projects } from "./screens/projects.tsx";
import { QuarantineScreen } from "./screens/quarantine.tsx";
import { QueueScreen } from "./screens/queue.tsx";
import { Queues } from "./screens/queues.tsx";
import { ScheduleEditor } from "./screens/schedule-editor.tsx";
import { RetryPolicies } from "./screens/retry-policies.tsx";
import { Schedules, ScheduleScreen } from "./screens/schedules.tsx";
import { SignIn } from "./screens/sign-in.tsx";
import { Workers, WorkerScreen } from "./screens/workers.tsx";
import { NothingYet } from "./ui/states.tsx";
import { Shell } from "./ui/shell.tsx";

/** `path`: what follows the screen's own name. */
export interface ScreenProps {
  path: readonly string[];
  query: URLSearchParams;
}

const SCREENS: Record<string, ComponentType<ScreenProps>> = {
  jobs: ({ path, query }) => (path[0] ? <JobScreen id={path[0]} /> : <Jobs query={query} />),
  "new-job": ({ query }) => <NewJob query={query} key={query.get("from") ?? ""} />,
  "dead-letters": ({ query }) => <DeadLetters query={query} />,
  "": () => <Overview />,
  queues: ({ path }) => (path[0] ? <QueueScreen name={path[0]} /> : <Queues />),
  limits: () => <Limits />,
  "retry-policies": () => <RetryPolicies />,
  schedules: ({ path }) => (path[0] ? <ScheduleScreen name={path[0]} /> : <Schedules />),
  "new-schedule": () => <ScheduleEditor onDone={() => go(to("schedules"))} />,
  batches: ({ path }) => (path[0] ? <BatchScreen id={path[0]} /> : <Batches />),
  workers: ({ path }) => (path[0] ? <WorkerScreen id={path[0]} /> : <Workers />),
  quarantine: () => <QuarantineScreen />,
  operations: ({ path }) => (path[0] ? <OperationScreen id={path[0]} /> : <Operations />),
  account: () => <Account />,
  keys: () => <Keys />,
  members: () => <Members />,
  projects: () => <Projects />,
  audit: ({ query }) => <Audit query={query} />,
};

export function App(): JSX.Element {
  const session = useSession();
  if (session.is === "asking") return <div class="sign-in" role="status" aria-label="loading" />;
  if (session.is === "out") return <SignIn why={session.why} />;
  return <Inside me={session.me} />;
}

function Inside({ me }: { me: Me }): JSX.Element {
  const place = usePlace();
  const first = me.projects[0]?.id ?? "";
  const project = place.project || first;
  if (api.project !== project) {
    api.project = project;
    forgetAll();
  }
  useEffect(() => {
    if (!place.project && first) go(fragment(first, place.path, place.query), true);
  }, [place.project, first]);
  useEffect(() => (project ? follow() : undefined), [project]);
  const name = place.path[0] ?? "";
  const Screen = SCREENS[name];
  return (
    <Shell me={me} key={project}>
      {Screen ? (
        <Screen path={place.path.slice(1)} query={place.query} />
      ) : (
        <NothingYet what={`screen named "${name}"`}>The links at the side lead to those there are.</NothingYet>
      )}
    </Shell>
  );
}
