import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

/** One file, nothing beside it: the server computes the policy's hashes from what it finds in there. */
export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: { target: "es2022", cssMinify: true, modulePreload: false, reportCompressedSize: true },
});
