/** Light, dark, or as the system says. */

import { useEffect, useState } from "preact/hooks";

import { prefer, preferred } from "./prefs.ts";

export type Theme = "system" | "light" | "dark";
const ORDER: readonly Theme[] = ["system", "light", "dark"];

/** The choice, and what takes the next one. */
export function useTheme(): [Theme, () => void] {
  const [theme, set] = useState<Theme>(() => preferred<Theme>("theme", "system"));
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    prefer("theme", theme);
  }, [theme]);
  return [theme, () => set(ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? "system")];
}
