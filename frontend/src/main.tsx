/** The page: one file, its own origin, nothing else. */

import { render } from "preact";

import { App } from "./app.tsx";
import { listen } from "./lib/keys.ts";
import { resume } from "./api/session.ts";
import "./style.css";

const root = document.getElementById("app");
if (root) {
  listen();
  void resume();
  render(<App />, root);
}
