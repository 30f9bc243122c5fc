/** Who one is, what one may do where, and one's own password. */

import type { JSX } from "preact";

import { api } from "../api/http.ts";
import { type Me, signOut } from "../api/session.ts";
import type { Body, Input } from "../lib/forms.ts";
import { useResource } from "../lib/live.ts";
import { useOver } from "../lib/over.ts";
import { fragment } from "../lib/route.ts";
import { Button, Card, Facts, Id } from "../ui/basic.tsx";
import { FormDialog } from "../ui/form.tsx";
import { Shown } from "../ui/states.tsx";

type Seen = Me & { sees_payloads: boolean };

export function Account(): JSX.Element {
  const me = useResource<Seen>("/v1/me", ["overview"]);
  return (
    <>
      <header>
        <h1>Your account</h1>
        <Button onClick={() => void signOut()}>Sign out here</Button>
      </header>
      <Shown of={me}>{(value) => <Detail me={value} />}</Shown>
    </>
  );
}

function Detail({ me }: { me: Seen }): JSX.Element {
  const changing = useOver("password");
  return (
    <>
      <Card title={me.user ? "You" : "An API key"} aside={me.user && <Button onClick={() => changing.open()}>Change the password</Button>}>
        <Facts
          of={[
            ["E-mail", me.user?.email],
            ["Name", me.user?.full_name],
            ["Id", me.user && <Id id={me.user.id} />],
            ["Role in this project", me.role],
            ["You may", me.scopes.filter((scope) => scope in WORDS).map((scope) => WORDS[scope]).join(", ")],
            ["Payloads, results and logs", me.sees_payloads ? "you see them" : "are hidden from your role here"],
          ]}
        />
      </Card>
      {me.projects.length > 0 && (
        <Card title="Your projects">
          <ul class="plain">
            {me.projects.map((project) => (
              <li key={project.id} class="wrap">
                <a href={fragment(project.id, [])}>{project.name}</a>
                {project.role && <span class="dim"> {project.role}</span>}
              </li>
            ))}
          </ul>
        </Card>
      )}
      {changing.isOpen && me.user && <Password onClose={changing.close} />}
    </>
  );
} // prettier-ignore

const WORDS: Record<string, string> = {
  read: "see everything", enqueue: "enqueue", operate: "act on jobs", admin: "change queues, limits, schedules and keys", work: "work", owner: "run the organization",
}; // prettier-ignore

function Password({ onClose }: { onClose: () => void }): JSX.Element {
  const inputs: Input[] = [
    { name: "current_password", label: "The password there is", is: "password", required: true },
    { name: "new_password", label: "The new one", is: "password", required: true, hint: "12 characters or more" },
    { name: "again", label: "The new one again", is: "password", required: true },
  ];
  const save = async ({ again: _, ...body }: Body): Promise<string> => (await api.post("/v1/me/password", body), "The password is changed. All your other logins have ended.");
  const check = (body: Body): Map<string, string> => new Map(body["again"] === body["new_password"] ? [] : [["again", "is not the same"]]);
  return (
    <FormDialog title="Change the password" inputs={inputs} verb="Change it" check={check} onSend={save} onClose={onClose}>
      <p>All your other logins end with it; this one goes on.</p>
    </FormDialog>
  );
}
