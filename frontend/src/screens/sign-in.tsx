/** Who are you? By e-mail and password, or by an API key. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Failure } from "../api/http.ts";
import { signIn, signInWithKey } from "../api/session.ts";
import { Button, Field } from "../ui/basic.tsx";
import { Wrong } from "../ui/states.tsx";

export function SignIn({ why }: { why: string }): JSX.Element {
  const [byKey, setByKey] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Failure>();
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const sent = new FormData(event.currentTarget as HTMLFormElement);
    const text = (name: string): string => String(sent.get(name) ?? "");
    setBusy(true);
    setError(undefined);
    try {
      await (byKey ? signInWithKey(text("key").trim()) : signIn(text("email").trim(), text("password")));
    } catch (failure) {
      setError(failure as Failure);
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>tidemill</h1>
        {why && !error && <p class="banner">{why}</p>}
        {error && <Wrong error={error} />}
        {byKey ? (
          <Field label="API key" hint="It is forgotten when the page is closed.">
            <input name="key" type="password" autocomplete="off" required autofocus />
          </Field>
        ) : (
          <>
            <Field label="E-mail">
              <input name="email" type="email" autocomplete="username" required autofocus />
            </Field>
            <Field label="Password">
              <input name="password" type="password" autocomplete="current-password" required />
            </Field>
          </>
        )}
        <button type="submit" class="button main" disabled={busy} aria-busy={busy}>
          Sign in
        </button>
        <Button onClick={() => (setByKey(!byKey), setError(undefined))}>{byKey ? "With e-mail and password" : "With an API key"}</Button>
      </form>
    </main>
  );
}
