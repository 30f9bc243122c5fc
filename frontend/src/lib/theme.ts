/** Light, dark, or as the system says. */

import { useEffect, useReducer, useState } from "preact/hooks";

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

const systemIsDark = (): MediaQueryList => matchMedia("(prefers-color-scheme: dark)");

/** Is what is drawn now dark, by choice or by the system? Drawn again when that changes. */
export function useDark(): boolean {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const system = systemIsDark();
    const chosen = new MutationObserver(() => draw(0));
    chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    system.addEventListener("change", draw as () => void);
    return () => (chosen.disconnect(), system.removeEventListener("change", draw as () => void));
  }, []);
  const theme = document.documentElement.dataset["theme"];
  return theme === undefined ? systemIsDark().matches : theme === "dark";
}
