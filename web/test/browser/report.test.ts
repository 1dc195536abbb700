import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import axe from "axe-core";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DeviceReport, Moment, Report } from "../../src/data/page";
import { BINARY, figures, launch, linkOf as link, open, pageOf, RECORDINGS, recording, temporary, vram } from "./page";

interface StateReport extends Moment {
  breakdowns: { by: string; holders: { name: string; requested_bytes: number }[] }[];
}
interface WithMoment extends DeviceReport {
  at: StateReport;
}

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

function reportOf(path: string, at?: string): Report & WithMoment {
  return JSON.parse(vram("report", path, "--json", "--top", "0", ...(at ? ["--at", at] : [])));
}

describe.each(RECORDINGS)("%s", (name) => {
  const path = recording(name);

  test("opens from disk in every view without an error or a request", async () => {
    const { page, problems } = await open(browser, pageOf(path));
    for (const view of await page.$$("nav button")) {
      await view.click();
      await page.waitForTimeout(50);
      expect(await page.$eval("main > section", (section) => section.getBoundingClientRect().height)).toBeGreaterThan(100);
    }
    expect(problems).toEqual([]);
    await page.close();
  });

  test("shows at every moment the figures of --at, byte by byte", async () => {
    const { page } = await open(browser, pageOf(path), "#view=timeline");
    const { events, peak, has_stacks } = reportOf(path);
    const main = has_stacks ? "user_frame" : "size"; // by which the report lists holders
    for (const event of [0, Math.floor(events / 3), peak.event, events - 1]) {
      await page.evaluate((at: { event: number; by: string }) => {
        location.hash = `#view=timeline&by=${at.by}&t=event:${at.event}`;
      }, { event, by: main });
      await page.waitForTimeout(100);
      const { at } = reportOf(path, `event:${event}`);
      expect(await figures(page)).toEqual({
        requested: at.requested_bytes,
        allocated: at.allocated_bytes,
        active: at.active_bytes,
        reserved: at.reserved_bytes,
      });
      const groups = await page.$$eval(".legend li", (rows) =>
        rows.map((row) => ({ name: row.querySelector(".name")?.textContent ?? "", bytes: Number((row as HTMLElement).dataset.bytes) })),
      );
      const holders = at.breakdowns.find(({ by }) => by === main)?.holders ?? [];
      const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
      expect(groups.sort(byName)).toEqual(holders.map((holder) => ({ name: holder.name, bytes: holder.requested_bytes })).sort(byName));
    }
    await page.close();
  });
});

describe("the leak", () => {
  const path = recording(RECORDINGS[0]);

  test("has no serious violation of accessibility rules", async () => {
    for (const colorScheme of ["light", "dark"] as const) {
      const { page } = await open(browser, pageOf(path), "", { colorScheme });
      await page.evaluate(axe.source);
      for (const view of await page.$$("nav button")) {
        await view.click();
        const found = await page.evaluate(async () => {
          const { axe } = window as unknown as { axe: typeof import("axe-core") };
          const { violations } = await axe.run();
          return violations
            .filter(({ impact }) => impact === "serious" || impact === "critical")
            .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`);
        });
        expect(found).toEqual([]);
      }
      await page.close();
    }
  });

  test("keys, clicks and links change the state, and a link restores it", async () => {
    const { page } = await open(browser, pageOf(path));
    await page.keyboard.press("2");
    expect((await link(page)).get("view")).toBe("timeline");
    const peak = (await link(page)).get("t");
    await page.keyboard.press("ArrowLeft");
    expect((await link(page)).get("t")).not.toBe(peak);
    await page.keyboard.press("p");
    expect((await link(page)).get("t")).toBe(peak);
    await page.keyboard.press("w");
    expect(Number((await link(page)).get("to"))).toBeGreaterThan(Number((await link(page)).get("from")));
    await page.click(".legend li:nth-child(2) button");
    const state = await link(page);
    expect(state.get("group")).not.toBeNull();

    const again = await open(browser, pageOf(path), `#${state}`);
    expect((await link(again.page)).toString()).toBe(state.toString());
    expect(await figures(again.page)).toEqual(await figures(page));
    expect(await again.page.getAttribute(".legend li:nth-child(2) button", "aria-pressed")).toBe("true");
    await page.close();
    await again.page.close();
  });

  test("a click on the timeline chooses a moment, the wheel zooms, dragging pans", async () => {
    const { page } = await open(browser, pageOf(path), "#view=timeline");
    const before = (await link(page)).get("t");
    await page.mouse.move(300, 400);
    expect(await page.textContent(".tooltip-title")).toContain("event");
    await page.mouse.click(300, 400);
    expect((await link(page)).get("t")).not.toBe(before);
    await page.mouse.wheel(0, -600);
    const zoomed = await link(page);
    expect(zoomed.get("from")).not.toBeNull();
    await page.mouse.down();
    await page.mouse.move(420, 400, { steps: 4 });
    await page.mouse.up();
    const panned = await link(page);
    expect(Number(panned.get("from"))).toBeLessThan(Number(zoomed.get("from")));
    const span = (of: URLSearchParams) => Number(of.get("to")) - Number(of.get("from"));
    expect(Math.abs(span(panned) / span(zoomed) - 1)).toBeLessThan(0.001);
    await page.close();
  });

  test("findings lead to their evidence", async () => {
    const { page } = await open(browser, pageOf(path));
    const titles = await page.$$eval(".finding-title", (elements) => elements.map((element) => element.textContent));
    expect(titles).toEqual(reportOf(path).findings.map(({ title }) => title));
    await page.click(".finding.is-leak .finding-main");
    const state = await link(page);
    expect(state.get("view")).toBe("timeline");
    expect(state.get("range")).not.toBeNull();
    const chosen = await page.textContent(".legend .is-chosen .name");
    expect(titles[0]).toContain(chosen ?? "nothing is chosen");
    await page.close();
  });

  test("the page runs its own script only, and evaluates no text", async () => {
    const { page } = await open(browser, pageOf(path));
    const violations = await page.evaluate(async () => {
      const found: string[] = [];
      document.addEventListener("securitypolicyviolation", (event) => found.push(event.violatedDirective));
      const script = document.createElement("script");
      script.textContent = "window.foreign = 1";
      document.body.append(script);
      const image = new Image();
      image.src = "https://example.invalid/pixel.png";
      await fetch("https://example.invalid/").catch(() => undefined);
      try {
        setTimeout("window.evaluated = 1" as unknown as () => void, 0);
      } catch {
        // Refused, as it should be.
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
      const { foreign, evaluated } = window as unknown as Record<string, unknown>;
      return { found, foreign, evaluated };
    });
    expect(violations.foreign).toBeUndefined();
    expect(violations.evaluated).toBeUndefined();
    expect(violations.found).toEqual(expect.arrayContaining(["script-src-elem", "img-src", "connect-src"]));
    await page.close();
  });

  test("the file contains no address of another page", () => {
    const text = readFileSync(pageOf(path), "utf8").replaceAll(/<script type="application\/vnd\.vram\.block"[^<]*<\/script>/g, "");
    // Names of XML's languages are no addresses: nothing is loaded from them.
    expect(text.replaceAll(/http:\/\/www\.w3\.org\/\d+\/[\w/]+/g, "")).not.toMatch(/https?:\/\//);
  });
});

describe("pages of several recordings", () => {
  test("two recordings are compared as vram diff compares them", async () => {
    const [a, b] = [recording(RECORDINGS[1]), recording(RECORDINGS[0])];
    const path = temporary("diff.html");
    const { devices } = JSON.parse(vram("diff", a, b, "--json", "--html", path));
    const { page, problems } = await open(browser, path);
    await page.waitForSelector(".changes li");
    const shown = await page.$$eval(".changes li", (rows) => rows.map((row) => Number((row as HTMLElement).dataset.growth)));
    expect(shown).toEqual(devices[0].sites.map((site: { growth_bytes: number }) => site.growth_bytes));
    // The other recording in full.
    await page.selectOption('select[aria-label="Recording"]', "0");
    await expect.poll(async () => (await figures(page)).requested, { timeout: 20_000 }).toBe(reportOf(a).peak.requested_bytes);
    expect(problems).toEqual([]);
    await page.close();
  });
});

describe("a page from the server", () => {
  test("shows what the file shows, block by block, to this machine alone", async () => {
    const path = recording(RECORDINGS[0]);
    const server = spawn(BINARY, ["report", path, "--serve"]);
    try {
      const url = await new Promise<string>((resolve) => server.stdout.on("data", (text) => resolve(String(text).split("\n")[0])));
      const page = await browser.newPage();
      await page.goto(`${url}#view=timeline`);
      await page.waitForSelector("html[data-ready]", { timeout: 20_000, state: "attached" });
      expect((await figures(page)).requested).toBe(reportOf(path).peak.requested_bytes);
      await page.close();
      expect((await fetch(`${url}blocks/none`)).status).toBe(404);
      const changed = await fetch(url, { method: "POST" });
      expect([changed.status, await changed.text()]).toEqual([405, expect.stringContaining("this path answers GET, HEAD")]);
    } finally {
      server.kill("SIGTERM");
    }
    expect(await new Promise((resolve) => server.on("exit", resolve))).toBe(0);
  });
});
