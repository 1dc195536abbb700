// Opens recordings in PyTorch's own viewer, as `vram convert` writes them for it: every device in every view, and the state of the
// allocator after many events, back to the first. Ends with 1 if the viewer fails at one of them, or if what it shows at the end is
// not what `vram report` has.
//
//   ninja -C build/release vram
//   VIEWER=~/memoryviz node bench/report/memory_viz_opens.mjs build/release demo/*.pickle.xz run.vtrace
//
// viewer.mjs says what VIEWER has.
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { launch } from "./browser.mjs";
import { asked, bundled, writePage } from "./viewer.mjs";

const { build, files: recordings, viewer, folder } = asked("memory_viz_opens.mjs BUILD RECORDING...");
const kEvents = 100; // looked at of each device
const kTimelines = ["Active Memory Timeline", "Active Cached Segment Timeline"];
const kStates = "Allocator State History";

const vram = (...words) => execFileSync(resolve(build, "src/vram"), words, { maxBuffer: 2 ** 31, encoding: "utf8" });

/** What is live and reserved after the last event, by device. */
function ends(snapshot) {
  const report = JSON.parse(vram("report", snapshot, "--json", "--top", "1"));
  const found = new Map();
  for (const { device, kind, events } of report.devices) {
    if (kind !== "gpu" || events === 0) continue;
    const { at } = JSON.parse(vram("report", snapshot, "--json", "--top", "1", "--device", String(device), "--at", `event:${events - 1}`));
    found.set(String(device), [at.requested_bytes, at.reserved_bytes]);
  }
  return found;
}

const bytesOf = (text) => [...text.matchAll(/\((\d+) bytes\)/g)].map((match) => Number(match[1]));

async function choose(page, select, option) {
  await page.evaluate(
    ([number, text]) => {
      const element = document.querySelectorAll("body > select")[number];
      element.value = text;
      element.dispatchEvent(new Event("change"));
    },
    [select, option],
  );
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
}

/** Presses events from the last to the first, and returns what the viewer says of each. */
function states(page) {
  return page.evaluate((most) => {
    const shown = [...document.body.children].filter((child) => child.tagName === "DIV" && child.style.display !== "none").at(-1);
    const grid = shown.firstElementChild;
    const events = [...grid.querySelector(":scope > div").children];
    const said = [];
    for (let i = 0; i < Math.min(most, events.length); ++i) {
      const event = events[events.length - 1 - Math.floor((i * (events.length - 1)) / Math.max(1, Math.min(most, events.length) - 1))];
      event.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
      said.push(grid.querySelector(":scope > pre").textContent);
    }
    return said;
  }, kEvents);
}

async function open(script, recording) {
  const snapshot = join(folder, "run.pickle");
  vram("convert", recording, snapshot, "--force");
  const failures = [];
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    page.on("pageerror", (error) => failures.push(error.message));
    await page.goto(`file://${writePage(script, readFileSync(snapshot), join(folder, "viewer.html"))}`, { timeout: 300_000 });
    const devices = await page.evaluate(() => [...document.querySelectorAll("body > select")[2].options].map((option) => option.text));
    if (devices.length === 0) failures.push("the viewer offers no device");
    const expected = ends(snapshot);
    for (const device of devices) {
      await choose(page, 2, device);
      for (const view of kTimelines) await choose(page, 1, view);
      await choose(page, 1, kStates);
      const said = await states(page);
      const end = expected.get(device);
      if (end && JSON.stringify(bytesOf(said[0]).slice(0, 2)) !== JSON.stringify(end))
        failures.push(`device ${device}: expected ${end} bytes live and reserved at the end, the viewer shows "${said[0].split("\n")[0]}"`);
      console.log(`${basename(recording)}: device ${device}, ${said.length} states`);
    }
    await page.screenshot({ path: join(process.env.OUT ?? folder, `${basename(recording)}.png`) });
  } finally {
    await browser.close();
  }
  for (const failure of new Set(failures)) console.error(`${basename(recording)}: ${failure}`);
  return failures.length === 0;
}

try {
  const script = await bundled(viewer);
  let succeeded = true;
  for (const recording of recordings) succeeded = (await open(script, recording)) && succeeded;
  process.exitCode = succeeded ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true });
}
