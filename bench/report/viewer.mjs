// PyTorch's viewer of memory snapshots as a page of its own, since a machine may have no network. The caller has a folder with
// MemoryViz.js of PyTorch (torch/utils/viz/) and node_modules with d3@5, d3-axis@1, d3-scale@1, d3-zoom@1 and d3-brush@1.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { esbuild } from "./browser.mjs";

/** What a program here was called with, and a new folder for its files. Ends the program if something is missing. */
export function asked(usage) {
  const [build, ...files] = process.argv.slice(2);
  const viewer = process.env.VIEWER;
  if (!viewer || files.length === 0) {
    console.error(`usage: VIEWER=FOLDER node bench/report/${usage}; viewer.mjs says what FOLDER has`);
    process.exit(2);
  }
  return { build, files, viewer, folder: mkdtempSync(join(tmpdir(), "vram-bench-")) };
}

/** The viewer with its libraries as one script. */
export async function bundled(viewer) {
  const result = await esbuild.build({
    entryPoints: [resolve(viewer, "MemoryViz.js")],
    bundle: true,
    write: false,
    format: "iife",
    globalName: "viewer",
    plugins: [
      {
        name: "network",
        setup: (to) => {
          to.onResolve({ filter: /^https:/ }, ({ path }) => to.resolve(/([\w-]+)@\d+$/.exec(path)[1], { kind: "import-statement", resolveDir: resolve(viewer) }));
        },
      },
    ],
  });
  return result.outputFiles[0].text;
}

export const uncompressed = (path) => (path.endsWith(".xz") ? execFileSync("xz", ["-dc", path], { maxBuffer: 2 ** 31 }) : readFileSync(path));

/** As torch/cuda/_memory_viz.py trace_plot writes it. */
export function writePage(script, snapshot, path) {
  const files = JSON.stringify([{ name: "snapshot.pickle", base64: snapshot.toString("base64") }]);
  writeFileSync(
    path,
    `<!doctype html><html><head></head><body><script>${script}</script><script>
    viewer.add_local_files(${files}, "Active Memory Timeline");
    requestAnimationFrame(() => setTimeout(() => { document.documentElement.dataset.first = String(Math.round(performance.now())); }));
    </script></body></html>`,
  );
  return path;
}
