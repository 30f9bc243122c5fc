/** Members of one's organizations: who may do what; and what an organization can be told. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { api } from "../api/http.ts";
import { learn, useMe } from "../api/session.ts";
import type { Body, Input } from "../lib/forms.ts";
import { useOver } from "../lib/over.ts";
import { go, to } from "../lib/route.ts";
import { Button, Card, Time } from "../ui/basic.tsx";
import { attempt, Confirm, type Deed, Dialog } from "../ui/dialog.tsx";
import { Form } from "../ui/form.tsx";
import { List } from "../ui/list.tsx";
import { Secret } from "../ui/secret.tsx";
import { NothingYet } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";
import { NewOrganization, OrganizationSettings } from "./organization.tsx";

const ROLES: Record<string, string> = { viewer: "sees", operator: "sees, acts on jobs and enqueues", admin: "all of the projects", owner: "admin, and the organization with its members" };

interface Member {
  id: string;
  email: string;
  full_name: string;
  role: string;
  member_since: string;
}

export function Members(): JSX.Element {
  const me = useMe();
  const making = useOver("new");
  const isOwner = me?.organizations.some((one) => one.role === "owner");
  return (
    <>
      <header>
        <h1>Members</h1>
        {isOwner && <Button onClick={() => making.open()}>New organization</Button>}
      </header>
      {me?.organizations.map((organization) => <Organization key={organization.id} id={organization.id} name={organization.name} isOwner={organization.role === "owner"} />)}
      {!me?.organizations.length && <NothingYet what="organization">An API key belongs to a project; sign in by e-mail to see who else does.</NothingYet>}
      {making.isOpen && isOwner && <NewOrganization onClose={making.close} />}
    </>
  );
} // prettier-ignore

function Organization({ id, name, isOwner }: { id: string; name: string; isOwner: boolean }): JSX.Element {
  const own = useMe()?.user?.id;
  const settings = useOver("settings");
  const [adding, setAdding] = useState(false);
  const [deed, setDeed] = useState<Deed>();
  const path = `/v1/organizations/${id}/members`;
  const remove = (member: Member): void => {
    const isSelf = member.id === own;
    setDeed({
      title: isSelf ? `Leave ${name}` : `Remove ${member.email}`,
      says: isSelf ? `You lose all access to ${name} at once. Only an owner can let you in again.` : `${member.email} loses all access to ${name} with the next request. Keys that they made stay: those are the project's.`,
      verb: isSelf ? "Leave" : "Remove",
      danger: true,
      run: async () => {
        await api.delete(`${path}/${member.id}`);
        if (isSelf) await learn();
        if (isSelf) go(to());
        return { says: isSelf ? `You have left ${name}.` : `${member.email} is removed.` };
      },
    });
  };
  const role = (member: Member, select: HTMLSelectElement): void => {
    const next = select.value;
    const give = (one: string): Promise<unknown> => api.put(`${path}/${member.id}`, { role: one });
    void attempt(async () => {
      try {
        await give(next);
      } catch (failure) {
        select.value = member.role; // it is what it was
        throw failure;
      }
      return { says: `${member.email} is ${next} now.`, undo: () => give(member.role) };
    });
  };
  const columns: Column<Member>[] = [
    { name: "E-mail", cell: (member) => <span class="clip" title={member.email}>{member.email}</span> }, // prettier-ignore
    { name: "Name", cell: (member) => member.full_name, wide: true },
    {
      name: "Role",
      cell: (member) =>
        isOwner ? (
          <select aria-label={`Role of ${member.email}`} value={member.role} onChange={(event) => role(member, event.currentTarget)}>
            {Object.keys(ROLES).map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        ) : (
          member.role
        ),
    },
    { name: "Since", cell: (member) => <Time at={member.member_since} />, wide: true },
    { name: "", cell: (member) => (isOwner || member.id === own) && <Button aria-label={member.id === own ? `Leave ${name}` : `Remove ${member.email}`} onClick={() => remove(member)}>{member.id === own ? "Leave" : "Remove"}</Button> }, // prettier-ignore
  ];
  const buttons = (
    <div class="row">
      <Button aria-label={`Settings of ${name}`} onClick={() => settings.open(id)}>
        Settings
      </Button>
      <Button kind="main" onClick={() => setAdding(true)}>
        Add somebody
      </Button>
    </div>
  );
  return (
    <Card title={name} aside={isOwner ? buttons : null}>
      <List<Member> what="members" path={`/v1/organizations/${id}/users`} topics={["overview"]} id={(member) => member.id} columns={columns} screen="members" />
      {adding && <Add org={id} onClose={() => setAdding(false)} />}
      {settings.isOpen && settings.on === id && isOwner && <OrganizationSettings id={id} onClose={settings.close} />}
      {deed && <Confirm deed={deed} onClose={() => setDeed(undefined)} />}
    </Card>
  );
}

const INPUTS: Input[] = [
  { name: "email", label: "E-mail", required: true },
  { name: "full_name", label: "Name" },
  { name: "role", label: "Role", is: "choice", value: "viewer", choices: Object.entries(ROLES).map(([role, what]) => [role, `${role}: ${what}`]) },
];

function Add({ org, onClose }: { org: string; onClose: () => void }): JSX.Element {
  const [password, setPassword] = useState("");
  const add = async (body: Body): Promise<string | void> => {
    const made = await api.post<{ initial_password: string | null }>(`/v1/organizations/${org}/users`, body);
    if (made.initial_password) return setPassword(made.initial_password);
    onClose();
    return `${body["email"]} is in, with the password they have.`;
  };
  return (
    <Dialog title="Add somebody" onClose={onClose}>
      {password ? (
        <Secret says="This password is shown only now; it is to be changed after the first sign-in:" text={password} what="password" onClose={onClose} />
      ) : (
        <Form inputs={INPUTS} verb="Add" onSend={add} onCancel={onClose} />
      )}
    </Dialog>
  );
}
