// Measures the HTML report of large recordings in headless Chromium: the size of the file, the time until the first picture and until
// everything is read, the memory of the page, and the frames a second while the timeline is panned and zoomed.
//
//   ninja -C build/release vram training_recording
//   node bench/html_report.mjs build/release 1000000 10000000
//
// PyTorch's own viewer is not compared: its script is not in PyTorch's package, and loads others from a network.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const { chromium } = createRequire(new URL("../web/package.json", import.meta.url))("playwright-core");
const LIMITS = { 1000000: { mb: 6, first_ms: 1000 }, 10000000: { mb: 60, first_ms: 5000 } };
const FRAMES_A_SECOND = 50;
const SECONDS = 4;

const [build, ...sizes] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "vram-bench-"));
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});

/** Moves the wheel and drags for some seconds; the frames a second that the page drew meanwhile, and the slowest. */
async function frames(page) {
  await page.evaluate(() => {
    window.frameTimes = [];
    const count = (now) => {
      window.frameTimes.push(now);
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  const end = Date.now() + SECONDS * 1000;
  for (let i = 0; Date.now() < end; ++i) {
    await page.mouse.move(200 + ((i * 7) % 600), 400);
    await page.mouse.wheel(i % 3 === 0 ? 40 : 0, Math.sin(i / 25) * 60 - 8);
  }
  return page.evaluate(() => {
    const gaps = window.frameTimes.slice(1).map((time, i) => time - window.frameTimes[i]);
    gaps.sort((a, b) => a - b);
    const sum = gaps.reduce((total, gap) => total + gap, 0);
    return { count: gaps.length, fps: (1000 * gaps.length) / sum, p99: gaps[Math.floor(gaps.length * 0.99)] };
  });
}

async function measure(events) {
  const trace = join(folder, "training.vtrace");
  const html = join(folder, "training.html");
  execFileSync(resolve(build, "bench/training_recording"), [events, trace, "stacks"]);
  const began = Date.now();
  execFileSync(resolve(build, "src/vram"), ["report", trace, "--html", html, "--force"]);
  const written = Date.now() - began;
  const mb = statSync(html).size / 1e6;
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
  await page.goto(`file://${html}#view=timeline`, { waitUntil: "commit" });
  await page.waitForSelector("html[data-ready]", { timeout: 120_000, state: "attached" });
  const { first, ready } = await page.evaluate(() => ({ ...document.documentElement.dataset }));
  const client = await page.context().newCDPSession(page);
  // The CPU time of the page's own thread: other work on the machine does not count.
  await client.send("Performance.setTimeDomain", { timeDomain: "threadTicks" });
  await client.send("Performance.enable");
  const cpu = async () => (await client.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const before = await cpu();
  const moving = await frames(page);
  const frameMs = (1000 * (await cpu() - before)) / moving.count;
  const { usedSize, backingStorageSize = 0 } = await client.send("Runtime.getHeapUsage");
  await page.close();
  const limits = LIMITS[events];
  const verdict = limits && (mb > limits.mb || Number(first) > limits.first_ms || moving.fps < FRAMES_A_SECOND) ? "  MISSED" : "";
  console.log(
    `${events} events: written in ${(written / 1000).toFixed(1)} s, ${mb.toFixed(2)} MB; first picture ${first} ms, everything ${ready} ms; ` +
      `memory ${((usedSize + backingStorageSize) / 1e6).toFixed(0)} MB; ${moving.fps.toFixed(0)} frames/s, 99 % within ${moving.p99.toFixed(0)} ms, CPU ${frameMs.toFixed(1)} ms a frame${verdict}`,
  );
}

try {
  for (const events of sizes) await measure(events);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
