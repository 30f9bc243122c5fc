/** What a reader likes: theme, columns, saved views. Kept in the browser, never anything of a job or a session. Works without storage too. */

const PREFIX = "tidemill.";
const memory = new Map<string, string>();

/** What was kept under the name, or the fallback if there is nothing that can be read. */
export function preferred<T>(name: string, fallback: T): T {
  try {
    const text = memory.get(name) ?? localStorage.getItem(PREFIX + name);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

/** Keep it for the next visit, or for this one where the browser keeps nothing. */
export function prefer(name: string, value: unknown): void {
  const text = JSON.stringify(value);
  memory.set(name, text);
  try {
    localStorage.setItem(PREFIX + name, text);
  } catch {
    // full or forbidden: it lasts until the page is closed
  }
}
