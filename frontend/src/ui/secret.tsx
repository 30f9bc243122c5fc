/** A secret that is shown this once. */

import type { JSX } from "preact";

import { Button, Copy } from "./basic.tsx";

export function Secret({ says, text, what, onClose }: { says: string; text: string; what: string; onClose: () => void }): JSX.Element {
  return (
    <>
      <p>{says}</p>
      <p class="mono wrap">
        {text} <Copy text={text} what={what} />
      </p>
      <div class="row end">
        <Button kind="main" onClick={onClose}>
          I have it
        </Button>
      </div>
    </>
  );
}
