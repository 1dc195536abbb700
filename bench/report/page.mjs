// Measures the HTML report of large recordings in headless Chromium: the size of the file, the time until the first picture and until
// everything is read, the memory of the page, and the frames a second while the timeline is panned and zoomed.
//
//   ninja -C build/release vram training_recording
//   node bench/report/page.mjs build/release 1000000 10000000
//
// "served" as the last word measures `vram report --serve` instead of a file.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromiumVersion, frames, launch, residentBytes } from "./browser.mjs";

const LIMITS = { 1000000: { mb: 6, first_ms: 1000 }, 10000000: { mb: 60, first_ms: 5000 } };
const FRAMES_A_SECOND = 50;

const [build, ...words] = process.argv.slice(2);
const isServed = words.at(-1) === "served";
const sizes = isServed ? words.slice(0, -1) : words;
const folder = mkdtempSync(join(tmpdir(), "vram-bench-"));
const vram = resolve(build, "src/vram");

/** The page's address, what its data takes, how long that took, and how to end it. */
async function prepare(trace) {
  const began = Date.now();
  if (!isServed) {
    const html = join(folder, "training.html");
    execFileSync(vram, ["report", trace, "--html", html, "--force"]);
    return { url: `file://${html}`, mb: statSync(html).size / 1e6, seconds: (Date.now() - began) / 1000, end: () => undefined };
  }
  const server = spawn(vram, ["report", trace, "--serve"]);
  const url = await new Promise((found) => server.stdout.on("data", (text) => found(String(text).split("\n")[0])));
  return { url, mb: 0, seconds: (Date.now() - began) / 1000, end: () => server.kill("SIGTERM") };
}

async function measure(events) {
  const trace = join(folder, "training.vtrace");
  execFileSync(resolve(build, "bench/training_recording"), [events, trace, "stacks"]);
  const { url, mb, seconds, end } = await prepare(trace);
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    await page.goto(`${url}#view=timeline`, { waitUntil: "commit" });
    await page.waitForSelector("html[data-ready]", { timeout: 120_000, state: "attached" });
    const { first, ready } = await page.evaluate(() => ({ ...document.documentElement.dataset }));
    const client = await page.context().newCDPSession(page);
    // The CPU time of the page's own thread: other work on the machine does not count.
    await client.send("Performance.setTimeDomain", { timeDomain: "threadTicks" });
    await client.send("Performance.enable");
    const cpu = async () => (await client.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
    const before = await cpu();
    const moving = await frames(page);
    const frameMs = (1000 * ((await cpu()) - before)) / moving.count;
    const { usedSize, backingStorageSize = 0 } = await client.send("Runtime.getHeapUsage");
    const resident = await residentBytes(browser);
    const limits = isServed ? undefined : LIMITS[events];
    const verdict = limits && (mb > limits.mb || Number(first) > limits.first_ms || moving.fps < FRAMES_A_SECOND) ? "  MISSED" : "";
    console.log(
      `${events} events: ${isServed ? "served after" : "written in"} ${seconds.toFixed(1)} s, ${mb.toFixed(2)} MB; first picture ${first} ms, everything ${ready} ms; ` +
        `memory ${((usedSize + backingStorageSize) / 1e6).toFixed(0)} MB, resident ${(resident / 1e6).toFixed(0)} MB; ` +
        `${moving.fps.toFixed(0)} frames/s, 99 % within ${moving.p99.toFixed(0)} ms, CPU ${frameMs.toFixed(1)} ms a frame${verdict}`,
    );
  } finally {
    await browser.close();
    end();
  }
}

try {
  console.log(chromiumVersion());
  for (const events of sizes) await measure(events);
} finally {
  rmSync(folder, { recursive: true });
}
