/** Members and projects: who may do what, and where. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api, type Failure } from "../api/http.ts";
import { type Me, type Project, useSession } from "../api/session.ts";
import { refreshAll } from "../lib/live.ts";
import { fragment } from "../lib/route.ts";
import { Button, Card, Copy, Field, Id, Time } from "../ui/basic.tsx";
import { attempt, Confirm, type Deed, Dialog } from "../ui/dialog.tsx";
import { List } from "../ui/list.tsx";
import { NothingYet, Wrong } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";

const ROLES: Record<string, string> = { viewer: "sees", operator: "sees, acts on jobs and enqueues", admin: "all of the projects", owner: "admin, and the organization with its members" };

interface Member {
  id: string;
  email: string;
  full_name: string;
  role: string;
  member_since: string;
}

function useMe(): Me | undefined {
  const session = useSession();
  return session.is === "in" ? session.me : undefined;
}

export function Members(): JSX.Element {
  const me = useMe();
  if (!me?.organizations.length)
    return (
      <>
        <header>
          <h1>Members</h1>
        </header>
        <NothingYet what="organization">An API key belongs to a project; sign in by e-mail to see who else does.</NothingYet>
      </>
    );
  return (
    <>
      <header>
        <h1>Members</h1>
      </header>
      {me.organizations.map((organization) => (
        <Organization key={organization.id} id={organization.id} name={organization.name} isOwner={organization.role === "owner"} />
      ))}
    </>
  );
}

function Organization({ id, name, isOwner }: { id: string; name: string; isOwner: boolean }): JSX.Element {
  const [adding, setAdding] = useState(false);
  const [deed, setDeed] = useState<Deed>();
  const remove = (member: Member): void =>
    setDeed({
      title: `Remove ${member.email}`,
      says: `${member.email} loses all access to ${name} within a minute.`,
      verb: "Remove",
      danger: true,
      run: async () => (await api.delete(`/v1/organizations/${id}/members/${member.id}`), { says: `${member.email} is removed.` }),
    });
  const role = (member: Member, to: string): void =>
    void attempt(async () => (await api.put(`/v1/organizations/${id}/members/${member.id}`, { role: to }), { says: `${member.email} is ${to} now.`, undo: () => api.put(`/v1/organizations/${id}/members/${member.id}`, { role: member.role }) }));
  const columns: Column<Member>[] = [
    { name: "E-mail", cell: (member) => member.email },
    { name: "Name", cell: (member) => member.full_name, wide: true },
    {
      name: "Role",
      cell: (member) =>
        isOwner ? (
          <select aria-label={`Role of ${member.email}`} value={member.role} onChange={(event) => role(member, event.currentTarget.value)}>
            {Object.keys(ROLES).map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        ) : (
          member.role
        ),
    },
    { name: "Since", cell: (member) => <Time at={member.member_since} />, wide: true },
    { name: "", cell: (member) => isOwner && <Button aria-label={`Remove ${member.email}`} onClick={() => remove(member)}>Remove</Button> }, // prettier-ignore
  ];
  return (
    <Card title={name} aside={isOwner ? <Button kind="main" onClick={() => setAdding(true)}>Add somebody</Button> : null}>
      <List<Member> what="members" path={`/v1/organizations/${id}/users`} topics={[]} id={(member) => member.id} columns={columns} screen="members" />
      {adding && <Add org={id} onClose={() => setAdding(false)} />}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </Card>
  );
} // prettier-ignore

function Add({ org, onClose }: { org: string; onClose: () => void }): JSX.Element {
  const [password, setPassword] = useState("");
  const [error, setError] = useState<Failure>();
  const add = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const sent = new FormData(event.currentTarget as HTMLFormElement);
    try {
      const made = await api.post<{ initial_password: string | null }>(`/v1/organizations/${org}/users`, { email: sent.get("email"), full_name: sent.get("full_name"), role: sent.get("role") });
      refreshAll();
      if (made.initial_password) setPassword(made.initial_password);
      else onClose();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="Add somebody" onClose={onClose}>
      {password ? (
        <>
          <p>This password is shown only now; it is to be changed after the first sign-in:</p>
          <p class="mono wrap">
            {password} <Copy text={password} what="password" />
          </p>
          <div class="row end">
            <Button kind="main" onClick={onClose}>
              I have it
            </Button>
          </div>
        </>
      ) : (
        <form onSubmit={(event) => void add(event)}>
          <Field label="E-mail">
            <input name="email" type="email" required autofocus />
          </Field>
          <Field label="Name">
            <input name="full_name" maxLength={200} />
          </Field>
          <Field label="Role">
            <select name="role">
              {Object.entries(ROLES).map(([role, what]) => (
                <option key={role} value={role}>
                  {role}: {what}
                </option>
              ))}
            </select>
          </Field>
          {error && <Wrong error={error} />}
          <div class="row end">
            <Button onClick={onClose}>Cancel</Button>
            <button class="button main">Add</button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

const PROJECTS: readonly Column<Project>[] = [
  { name: "Name", cell: (project) => <a href={fragment(project.id, [])}>{project.name}</a> },
  { name: "Id", cell: (project) => <Id id={project.id} /> },
];

export function Projects(): JSX.Element {
  const me = useMe();
  const owned = me?.organizations.filter((organization) => organization.role === "owner") ?? [];
  const [making, setMaking] = useState(false);
  return (
    <>
      <header>
        <h1>Projects</h1>
        {owned.length > 0 && (
          <Button kind="main" onClick={() => setMaking(true)}>
            New project
          </Button>
        )}
      </header>
      <List<Project> what="projects" path="/v1/projects" topics={[]} id={(project) => project.id} columns={PROJECTS} href={(project) => fragment(project.id, [])} screen="projects" />
      {making && <NewProject organizations={owned} onClose={() => setMaking(false)} />}
    </>
  );
}

function NewProject({ organizations, onClose }: { organizations: Me["organizations"]; onClose: () => void }): JSX.Element {
  const [error, setError] = useState<Failure>();
  const make = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const sent = new FormData(event.currentTarget as HTMLFormElement);
    try {
      await api.post("/v1/projects", { org_id: sent.get("org"), name: sent.get("name") });
      refreshAll();
      onClose();
    } catch (failure) {
      setError(failure as Failure);
    }
  };
  return (
    <Dialog title="New project" onClose={onClose}>
      <form onSubmit={(event) => void make(event)}>
        <Field label="Name">
          <input name="name" required maxLength={200} autofocus />
        </Field>
        <Field label="Organization">
          <select name="org">
            {organizations.map((organization) => (
              <option key={organization.id} value={organization.id}>
                {organization.name}
              </option>
            ))}
          </select>
        </Field>
        {error && <Wrong error={error} />}
        <div class="row end">
          <Button onClick={onClose}>Cancel</Button>
          <button class="button main">Make it</button>
        </div>
      </form>
    </Dialog>
  );
}
