// Names in a recording are data: markup, text that turns its direction, and texts of a megabyte do nothing.
import { readFileSync, writeFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open, pageOf, RECORDINGS, recording, temporary, vram } from "./page";

const HOSTILE = [
  "</script><script>window.hacked = 1</script>",
  '<img src=x onerror="window.hacked = 1">',
  "\u202Egpj.exe \u2066right to left",
  "javascript:window.hacked=1",
  "<!--<script>",
  "\u0000\u001b[2J \ud83d\ude00",
];

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

/** The leak, in which every function and file has a hostile name. */
function hostileRecording(): string {
  const lines = temporary("hostile.jsonl");
  vram("convert", recording(RECORDINGS[0]), lines);
  let next = 0;
  const hostile = new Map<string, string>();
  const rename = (frame: string): string => {
    if (!hostile.has(frame)) hostile.set(frame, `/home/${HOSTILE[next++ % HOSTILE.length]}.py:1 ${HOSTILE[(next + 2) % HOSTILE.length]}`);
    return hostile.get(frame) as string;
  };
  const text = readFileSync(lines, "utf8")
    .split("\n")
    .filter(Boolean)
    .slice(0, 4000)
    .map((line) => {
      const event = JSON.parse(line);
      event.stack = event.stack.slice(0, 3).map(rename);
      // One name of a megabyte.
      if (event.index === 0) event.stack[0] = `/home/long.py:1 ${"<b>".repeat(350_000)}`;
      event.user_metadata = HOSTILE[event.index % HOSTILE.length];
      return JSON.stringify(event);
    });
  writeFileSync(lines, `${text.join("\n")}\n`);
  return lines;
}

test("hostile names are shown as text", async () => {
  const { page, problems } = await open(browser, pageOf(hostileRecording()));
  for (const view of await page.$$("nav button")) {
    await view.click();
    await page.mouse.move(400, 300);
    await page.mouse.click(400, 300);
    await page.waitForTimeout(50);
  }
  expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).toBeUndefined();
  expect(await page.$$eval("#app img, #app script, #app a", (elements) => elements.length)).toBe(0);
  // The width of the page is that of the window: no name makes it wider.
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(1280);
  expect(problems).toEqual([]);
  await page.close();
});
