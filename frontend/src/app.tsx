/** Which screen for which place. */

import type { ComponentType, JSX } from "preact";
import { useEffect } from "preact/hooks";

import { api } from "./api/http.ts";
import { type Me, useSession } from "./api/session.ts";
import { follow, forgetAll } from "./lib/live.ts";
import { fragment, go, usePlace } from "./lib/route.ts";
import { JobScreen } from "./screens/job.tsx";
import { Jobs } from "./screens/jobs.tsx";
import { SignIn } from "./screens/sign-in.tsx";
import { NothingYet } from "./ui/states.tsx";
import { Shell } from "./ui/shell.tsx";

/** `path`: what follows the screen's own name. */
export interface ScreenProps {
  path: readonly string[];
  query: URLSearchParams;
}

const SCREENS: Record<string, ComponentType<ScreenProps>> = {
  jobs: (props) => (props.path[0] ? <JobScreen id={props.path[0]} /> : <Jobs query={props.query} />),
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
