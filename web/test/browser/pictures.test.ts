// The pages at three sizes, light and dark: everything is inside the window. With VRAM_PICTURES, a folder, it also writes the pictures
// of the documents there (tools/web.py pictures).
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, LANGUAGES, open, pageOf, RECORDINGS, recording, temporary, vramIn } from "./page";

const SIZES = [
  { width: 1280, height: 720 },
  { width: 1920, height: 1080 },
  { width: 390, height: 844 },
];

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

test.each(SIZES)("every view fits into $width x $height", async (size) => {
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, problems } = await open(browser, pageOf(recording(RECORDINGS[1])), "", { ...size, colorScheme });
    const views = await page.$$("nav button");
    for (const view of views) {
      await view.click();
      await page.waitForTimeout(30);
      const box = await page.evaluate(() => ({
        width: document.documentElement.scrollWidth,
        height: document.documentElement.scrollHeight,
        line: document.querySelector("footer")?.getBoundingClientRect().bottom ?? 0,
      }));
      expect(box.width).toBeLessThanOrEqual(size.width);
      expect(box.height).toBeLessThanOrEqual(size.height);
      expect(box.line).toBeLessThanOrEqual(size.height + 1);
    }
    expect(problems).toEqual([]);
    await page.close();
  }
});

const PICTURES = [
  { name: "html-timeline", recording: RECORDINGS[0], hash: "#view=timeline" },
  { name: "html-map", recording: RECORDINGS[0], hash: "#view=map&map=time" },
];

test.runIf(process.env.VRAM_PICTURES)("writes the pictures of the documents", async () => {
  for (const { language, suffix } of LANGUAGES) {
    for (const { name, recording: of, hash } of PICTURES) {
      const path = temporary(`${name}${suffix}.html`);
      vramIn(language, "report", recording(of), "--html", path);
      const { page } = await open(browser, path, hash);
      if (language !== "en") await page.click("text=中文");
      await page.waitForTimeout(300);
      await page.screenshot({ path: join(process.env.VRAM_PICTURES as string, `${name}${suffix}.png`) });
      await page.close();
    }
  }
});
