// Pages that the program writes, opened in Chromium. VRAM_BINARY is the program; tools/web.py sets it.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";

export const BINARY = process.env.VRAM_BINARY ?? new URL("../../../build/release/src/vram", import.meta.url).pathname;
export const DATA = new URL("../../../tests/data/", import.meta.url).pathname;
const DEMO = new URL("../../../demo/", import.meta.url).pathname;
const FOLDER = mkdtempSync(join(tmpdir(), "vram-pages-"));

export const RECORDINGS = ["leak.stacks.pickle.xz", "unet_multiscale.pickle.xz"];
export const recording = (name: string): string => join(DEMO, name);
export const temporary = (name: string): string => join(FOLDER, name);

export function vram(...words: string[]): string {
  return execFileSync(BINARY, words, { encoding: "utf8", maxBuffer: 2 ** 28 });
}

/** The languages of the pictures in the documents. */
export const LANGUAGES = [
  { language: "en", suffix: "" },
  { language: "zh_CN", suffix: ".zh" },
];

export function vramIn(language: string, ...words: string[]): string {
  return execFileSync(BINARY, words, { encoding: "utf8", env: { ...process.env, LC_ALL: `${language}.UTF-8`, LANGUAGE: language } });
}

/** The page of a recording. */
export function pageOf(path: string): string {
  const page = temporary(`${path.replaceAll(/\W/g, "_")}.html`);
  if (!existsSync(page)) vram("report", path, "--html", page);
  return page;
}

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

export interface Opened {
  page: Page;
  problems: string[]; // errors on the console, and requests for anything but the page
}

export interface Look {
  width?: number;
  height?: number;
  colorScheme?: "light" | "dark";
}

/** Opens a page from disk and waits until everything is read. */
export async function open(browser: Browser, path: string, hash = "", { width = 1280, height = 720, colorScheme = "light" }: Look = {}): Promise<Opened> {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  const problems: string[] = [];
  const url = `file://${path}`;
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => !request.url().startsWith(url) && problems.push(`request for ${request.url().slice(0, 100)}`));
  await page.goto(url + hash);
  await page.waitForSelector("html[data-ready]", { timeout: 20_000, state: "attached" });
  return { page, problems };
}

/** The figures of the chosen moment, in bytes. */
export async function figures(page: Page): Promise<Record<string, number>> {
  await settled(page);
  return page.$$eval("[data-figure]", (elements) =>
    Object.fromEntries(elements.map((element) => [(element as HTMLElement).dataset.figure, Number((element as HTMLElement).dataset.bytes)])),
  );
}

/** The state that the address names, once the page has written it there. */
export async function linkOf(page: Page): Promise<URLSearchParams> {
  // The address follows the state after 120 ms: a timer that the page sets now ends later.
  const hash = await page.evaluate(() => new Promise<string>((resolve) => setTimeout(() => resolve(location.hash), 150)));
  return new URLSearchParams(hash.slice(1));
}

/** Opens a link in a page that is open. */
export async function go(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page.waitForFunction((to) => location.hash.includes(to), /view=(\w+)/.exec(hash)?.[0] ?? hash);
  await settled(page);
  if (await page.$(".timeline")) await page.waitForSelector('.timeline[data-complete="true"]', { timeout: 60_000 });
}

/** The rows of the tooltip, by name. */
export async function tooltip(page: Page): Promise<Record<string, string>> {
  await settled(page);
  return page.$$eval(".tooltip dl > div", (rows) =>
    Object.fromEntries(rows.map((row) => [row.querySelector("dt")?.textContent ?? "", row.querySelector("dd")?.textContent ?? ""])),
  );
}

/** Waits until the page has drawn the state that the last action led to: canvases are drawn after the frame in which elements change. */
export const settled = (page: Page): Promise<void> =>
  page.evaluate(async () => {
    for (let i = 0; i < 3; ++i) await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
  });
