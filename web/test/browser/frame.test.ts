// The frame around the views: every key, the address where browsers refuse to change it, pages below other paths, and paper.
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { figures, go, launch, linkOf, open, pageOf, RECORDINGS, recording, temporary } from "./page";

let browser: Browser;
const path = recording(RECORDINGS[0]);
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

async function press(page: Page, key: string): Promise<URLSearchParams> {
  await page.keyboard.press(key);
  return linkOf(page);
}

const span = (link: URLSearchParams) => Number(link.get("to")) - Number(link.get("from"));

test("every key does what the list of keys says", async () => {
  const { page, problems } = await open(browser, pageOf(path), "#view=timeline&t=peak");
  const views = await page.$$eval("nav button", (buttons) => buttons.length);
  const seen = new Set<string | null>();
  for (let i = 1; i <= views; ++i) seen.add((await press(page, String(i))).get("view"));
  expect(seen.size).toBe(views);
  const peak = Number((await press(page, "p")).get("t")?.slice(6));
  expect((await press(page, "ArrowLeft")).get("t")).toBe(`event:${peak - 1}`);
  expect((await press(page, "ArrowRight")).get("t")).toBe(`event:${peak}`);
  const near = await press(page, "w");
  expect(span(await press(page, "+"))).toBeLessThan(span(near));
  expect(Math.abs(span(await press(page, "s")) / span(near) - 1)).toBeLessThan(0.001);
  expect(Number((await press(page, "a")).get("from"))).toBeLessThan(Number(near.get("from")));
  expect(Math.abs(Number((await press(page, "d")).get("from")) / Number(near.get("from")) - 1)).toBeLessThan(0.001);
  const step = await press(page, "z");
  expect(span(step)).toBeLessThan(span(near));
  expect((await press(page, "0")).get("from")).toBeNull();
  const before = Number((await press(page, "[")).get("t")?.slice(6));
  expect(before).toBeLessThan(peak);
  expect((await press(page, "]")).get("t")).toBe(`event:${peak}`);
  expect((await press(page, "e")).get("axis")).toBe("event");
  await page.keyboard.press("?");
  expect(await page.isVisible(".help")).toBe(true);
  await page.keyboard.press("Escape");
  expect(await page.isVisible(".help")).toBe(false);
  expect(problems).toEqual([]);
  await page.close();
});

test("the page works where the browser refuses to change the address", async () => {
  const page = await browser.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.addInitScript(() => {
    history.replaceState = () => {
      throw new DOMException("refused", "SecurityError");
    };
  });
  await page.goto(`file://${pageOf(path)}#view=timeline`);
  await page.waitForSelector("html[data-ready]", { timeout: 30_000, state: "attached" });
  await page.keyboard.press("ArrowLeft");
  await page.waitForTimeout(300);
  await page.keyboard.press("3");
  expect(await page.isVisible(".map-view")).toBe(true);
  expect(problems).toEqual([]);
  await page.close();
});

test("the page works in a frame without rights, as notebooks and mail show it", async () => {
  const outer = temporary("outer.html");
  const inner = readFileSync(pageOf(path), "utf8").replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  writeFileSync(outer, `<!doctype html><iframe sandbox="allow-scripts" width="0" height="0" srcdoc="${inner}"></iframe>`);
  const page = await browser.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(`file://${outer}`);
  const frame = await (await page.waitForSelector("iframe")).contentFrame();
  await frame?.waitForSelector("html[data-ready]", { timeout: 30_000, state: "attached" });
  // A notebook shows its frames only after it has laid them out.
  await page.$eval("iframe", (element) => Object.assign(element, { width: "1000", height: "600" }));
  await frame?.click("nav button:nth-child(2)");
  await frame?.click(".legend li:nth-child(2) button");
  await page.waitForTimeout(300);
  expect(await frame?.getAttribute(".legend li:nth-child(2) button", "aria-pressed")).toBe("true");
  expect(problems).toEqual([]);
  await page.close();
});

test("the page works below a path of a server, with its link", async () => {
  const server = createServer((_, response) => response.setHeader("content-type", "text/html; charset=utf-8").end(readFileSync(pageOf(path))));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  try {
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${port}/user/ann/files/run%201.html#view=table&t=step:3`);
    await page.waitForSelector("html[data-ready]", { timeout: 30_000, state: "attached" });
    expect((await linkOf(page)).get("view")).toBe("table");
    expect(new URL(page.url()).pathname).toBe("/user/ann/files/run%201.html");
    expect((await figures(page)).requested).toBeGreaterThan(0);
    await page.close();
  } finally {
    server.close();
  }
});

test("paper has every view in light colours, and nothing wider than it", async () => {
  const { page } = await open(browser, pageOf(path), "#view=timeline", { colorScheme: "dark" });
  for (const view of ["overview", "timeline", "map", "flame", "table", "replays"]) {
    await go(page, `#view=${view}`);
    // Chromium tells the page about printing, which draws in light colours.
    const printed = page.evaluate(
      () =>
        new Promise<string>((resolve) =>
          addEventListener("beforeprint", () => resolve(getComputedStyle(document.body).backgroundColor), { once: true }),
        ),
    );
    const file = process.env.VRAM_PAPER ? `${process.env.VRAM_PAPER}/${view}.pdf` : `${dirname(temporary("x"))}/${view}.pdf`;
    const paper = await page.pdf({ path: file, format: "A4", printBackground: true });
    expect(await printed).toBe("rgb(255, 255, 255)");
    expect(paper.length).toBeGreaterThan(5000);
  }
  expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBeUndefined();
  await page.close();
});
