/** A value as JSON, always as text; what is long is folded. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { Button, Copy } from "./basic.tsx";

const FOLDED_CHARS = 4_000;
/** Signs that are not seen and turn the way of what follows: told as JSON may tell any sign. */
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function Json({ value, label }: { value: unknown; label: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  const text = (JSON.stringify(value, null, 2) ?? "null").replace(TURNS, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const long = text.length > FOLDED_CHARS;
  return (
    <div>
      <pre class="json" tabIndex={0} role="region" aria-label={label}>
        {long && !open ? `${text.slice(0, FOLDED_CHARS)}\n…` : text}
      </pre>
      <div class="row">
        {long && <Button onClick={() => setOpen(!open)}>{open ? "Less" : `All ${Math.ceil(text.length / 1_024)} KiB`}</Button>}
        <Copy text={text} what={label} />
      </div>
    </div>
  );
}
