// Measures PyTorch's own viewer and the HTML report on the same snapshots: the time to the first picture, the memory of the page's process,
// and the frames a second while the timeline is zoomed. Neither PyTorch's viewer nor the parts of d3 that it loads from a network are in
// this repository: the caller has them.
//
//   ninja -C build/release vram
//   VIEWER=~/memoryviz node bench/report/memory_viz.mjs build/release run.pickle.xz
//
// viewer.mjs says what VIEWER has. Snapshots may be compressed with xz; the viewer gets them uncompressed.
import { execFileSync } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { chromiumVersion, frames, launch, residentBytes } from "./browser.mjs";
import { asked, bundled, uncompressed, writePage } from "./viewer.mjs";

const { build, files: snapshots, viewer, folder } = asked("memory_viz.mjs BUILD SNAPSHOT...");

function reportPage(snapshot) {
  const path = join(folder, "report.html");
  execFileSync(resolve(build, "src/vram"), ["report", snapshot, "--html", path, "--force"]);
  return path;
}

async function measure(name, snapshot, path, y) {
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    const began = Date.now();
    await page.goto(`file://${path}#view=timeline`, { waitUntil: "commit", timeout: 300_000 });
    await page.waitForSelector("html[data-first]", { timeout: 300_000, state: "attached" });
    const first = Date.now() - began;
    await page.screenshot({ path: join(folder, `${name}.png`), timeout: 300_000 });
    const shown = Date.now() - began;
    const moving = await frames(page, y);
    const resident = await residentBytes(browser);
    console.log(
      `${basename(snapshot)}, ${name}: ${(statSync(path).size / 1e6).toFixed(1)} MB; first picture ${first} ms, on the screen ${shown} ms; ` +
        `resident ${(resident / 1e6).toFixed(0)} MB; ${moving.fps.toFixed(1)} frames/s, 99 % within ${moving.p99.toFixed(0)} ms`,
    );
  } finally {
    await browser.close();
  }
}

try {
  console.log(chromiumVersion());
  const script = await bundled(viewer);
  for (const snapshot of snapshots) {
    await measure("MemoryViz", snapshot, writePage(script, uncompressed(snapshot), join(folder, "viewer.html")), 180);
    await measure("vram report", snapshot, reportPage(snapshot), 400);
  }
} finally {
  rmSync(folder, { recursive: true });
}
