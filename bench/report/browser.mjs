// What the benchmarks of pages share: headless Chromium, the memory of a page's process, and the frames a second while a reader zooms and
// pans with the wheel.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");
export const esbuild = require("esbuild");

const SECONDS = 4;

export const launch = () =>
  chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  });

/** Resident bytes of the largest renderer of a browser: the page's, if it has one page. */
export async function residentBytes(browser) {
  const client = await browser.newBrowserCDPSession();
  const { processInfo } = await client.send("SystemInfo.getProcessInfo");
  await client.detach();
  const sizes = processInfo.filter(({ type }) => type === "renderer").map(({ id }) => {
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/status`, "utf8"));
    return kilobytes ? Number(kilobytes[1]) * 1024 : 0;
  });
  return Math.max(0, ...sizes);
}

/** Moves the wheel for some seconds with the pointer at height `y`; the frames that the page drew meanwhile. */
export async function frames(page, y = 400) {
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
    await page.mouse.move(200 + ((i * 7) % 600), y);
    await page.mouse.wheel(i % 3 === 0 ? 40 : 0, Math.sin(i / 25) * 60 - 8);
  }
  return page.evaluate(() => {
    const gaps = window.frameTimes.slice(1).map((time, i) => time - window.frameTimes[i]);
    gaps.sort((a, b) => a - b);
    const sum = gaps.reduce((total, gap) => total + gap, 0);
    return { count: gaps.length, fps: gaps.length > 0 ? (1000 * gaps.length) / sum : 0, p99: gaps[Math.floor(gaps.length * 0.99)] ?? 0 };
  });
}

export const chromiumVersion = () => execFileSync("/usr/bin/chromium", ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
