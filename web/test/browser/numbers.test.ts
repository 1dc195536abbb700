// The numbers of every view are those of the program's JSON, byte by byte: overview, timeline, memory map, flame graph, table, what if.
import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DeviceReport, Holder, Moment, Report, Waste } from "../../src/data/page";
import { bytes as bytesText } from "../../src/format";
import { figures, go, launch, linkOf, type Opened, open, pageOf, RECORDINGS, recording, settled, temporary, tooltip, vram } from "./page";

interface Breakdown {
  by: string;
  holders: Holder[];
}
interface State extends Moment {
  segment_count: number;
  block_count: number;
  breakdowns: Breakdown[];
  waste: Waste;
}
type FullReport = Report & DeviceReport & { at: State; at_reserved_peak: State };

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

const reports = new Map<string, FullReport>();
function reportOf(path: string, at: string | number): FullReport {
  const key = `${path} ${at}`;
  const moment = typeof at === "number" ? `event:${at}` : at;
  const found = reports.get(key) ?? (JSON.parse(vram("report", path, "--json", "--top", "0", "--at", moment)) as FullReport);
  reports.set(key, found);
  return found;
}

async function rowsOf(page: Page, selector: string): Promise<{ name: string; bytes: number }[]> {
  await settled(page);
  return page.$$eval(selector, (rows) =>
    rows.map((row) => ({ name: row.querySelector(".name")?.textContent ?? "", bytes: Number((row as HTMLElement).dataset.bytes) })),
  );
}

async function dataOf(page: Page, selector: string): Promise<Record<string, string | undefined>> {
  await settled(page);
  return page.$eval(selector, (element) => ({ ...(element as HTMLElement).dataset }));
}

const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
const named = (holders: Holder[]) => holders.map(({ name, requested_bytes }) => ({ name, bytes: requested_bytes }));

describe.each(RECORDINGS)("%s", (name) => {
  const path = recording(name);
  const peak = reportOf(path, "peak");
  let opened: Opened;
  let page: Page;
  beforeAll(async () => {
    opened = await open(browser, pageOf(path));
    page = opened.page;
  });
  afterAll(async () => {
    expect(opened.problems).toEqual([]);
    await page.close();
  });

  test("overview: the peak, the findings and the holders; a holder leads to the timeline", async () => {
    await go(page, "#view=overview");
    const text = await page.$$eval(".figures dd:not(.more)", (elements) => elements.map((element) => element.textContent));
    expect(text.slice(0, 2)).toEqual([bytesText(peak.peak.requested_bytes), bytesText(peak.peak.reserved_bytes)]);
    expect(text[5]).toBe(String(peak.oom_count));
    const findings = await page.$$eval(".finding-bytes", (elements) => elements.map((element) => element.textContent));
    expect(findings).toEqual(peak.findings.map((finding) => bytesText(finding.bytes)));
    const holders = await rowsOf(page, ".holders li");
    expect(holders).toEqual(named(peak.holders).slice(0, 12));
    await page.click(".holders li:nth-child(2) button");
    expect((await linkOf(page)).get("view")).toBe("timeline");
    expect(await page.textContent(".legend .is-chosen .name")).toBe(holders[1].name);
    await page.keyboard.press("Escape");
  });

  test("timeline: by every dimension, the groups add up to the breakdowns of --at", async () => {
    const event = Math.floor(peak.events * 0.7);
    const { at } = reportOf(path, event);
    await go(page, `#view=timeline&t=event:${event}`);
    const checked: string[] = [];
    for (const option of await page.$$('select[aria-label="Stack by"] option')) {
      const by = (await option.getAttribute("data-id")) as string;
      await page.selectOption('select[aria-label="Stack by"]', (await option.getAttribute("value")) as string);
      const groups = await rowsOf(page, ".legend li");
      if (groups.length < 200) expect(groups.reduce((sum, group) => sum + group.bytes, 0)).toBe(at.requested_bytes);
      const breakdown = at.breakdowns.find((each) => each.by === by);
      if (!breakdown || breakdown.holders.length > 200) continue;
      expect(groups.sort(byName)).toEqual(named(breakdown.holders).sort(byName));
      checked.push(by);
    }
    expect(checked.length).toBeGreaterThan(1);
  });

  test("timeline: hovering over the peak shows its bytes", async () => {
    await go(page, `#view=timeline&t=event:${peak.peak.event}&axis=event&from=${peak.peak.event - 40}&to=${peak.peak.event + 40}`);
    const box = await page.$eval(".timeline", (canvas) => canvas.getBoundingClientRect().toJSON());
    // Positions are one more than events; a column is less wide than a position.
    const x = box.x + 12 + ((peak.peak.event + 1 - (peak.peak.event - 40) + 0.5) / 80) * (box.width - 24);
    await page.mouse.move(x, box.y + box.height / 2);
    expect((await tooltip(page)).requested).toBe(bytesText(peak.peak.requested_bytes));
    expect(await page.textContent(".tooltip-title")).toContain(`event ${peak.peak.event.toLocaleString("en")}`);
  });

  test("timeline: where nothing happens for a while, the lines have the values of that time", async () => {
    await go(page, "#view=timeline&t=peak");
    const box = await page.$eval(".timeline", (canvas) => canvas.getBoundingClientRect().toJSON());
    let checked = 0;
    for (let share = 0.02; share < 0.5; share += 0.06) {
      const ns = share * peak.duration_ns;
      const at = (time: number) => reportOf(path, `${(time / 1e6).toFixed(3)}ms`).at;
      const [before, after] = [at(ns - peak.duration_ns / 300), at(ns + peak.duration_ns / 300)];
      if (before.event !== after.event) continue;
      await page.mouse.move(box.x + 12 + share * (box.width - 24), box.y + box.height - 60);
      const rows = await tooltip(page);
      expect([rows.requested, rows.reserved]).toEqual([bytesText(before.requested_bytes), bytesText(before.reserved_bytes)]);
      ++checked;
    }
    if (name.startsWith("leak")) expect(checked).toBeGreaterThan(2);
  });

  test("memory map: segments, blocks and holes are those of the report, at the moment that a finding of waste leads to", async () => {
    await go(page, "#view=overview");
    const waste = await page.$(".finding.is-fragmentation .finding-main, .finding.is-releasable .finding-main");
    if (waste) {
      await waste.click();
      expect((await linkOf(page)).get("t")).toBe(`event:${peak.at_reserved_peak.event}`);
    }
    for (const at of [peak.at_reserved_peak, peak.at]) {
      await go(page, `#view=map&t=event:${at.event}`);
      expect((await figures(page)).reserved).toBe(at.reserved_bytes);
      const fact = async (name: string) => {
        const { count, bytes } = await dataOf(page, `[data-fact="${name}"]`);
        return { count: Number(count), bytes: Number(bytes) };
      };
      expect(await fact("segments")).toEqual({ count: at.segment_count, bytes: at.reserved_bytes });
      expect(await fact("blocks")).toEqual({ count: at.block_count, bytes: at.active_bytes });
      const { stranded_bytes, releasable_bytes, private_pool_bytes, hole_count } = at.waste;
      expect((await fact("holes")).bytes + (await fact("empty")).bytes).toBe(stranded_bytes + releasable_bytes + private_pool_bytes);
      if (private_pool_bytes === 0) expect(await fact("holes")).toEqual({ count: hole_count, bytes: stranded_bytes });
    }
  });

  test("memory map: hovering and clicking show the block below the pointer", async () => {
    await go(page, `#view=map&t=event:${peak.peak.event}`);
    const box = await page.$eval(".map-view canvas", (canvas) => canvas.getBoundingClientRect().toJSON());
    let found = 0;
    for (let i = 1; i < 12; ++i) {
      const [x, y] = [box.x + (box.width * ((i * 5) % 12)) / 12, box.y + 40 + ((box.height - 60) * i) / 12];
      await page.mouse.move(x, y);
      const rows = await tooltip(page);
      if (!rows.block) continue;
      await page.mouse.click(x, y);
      const { bytes } = await dataOf(page, ".block-details");
      expect(Object.values(rows)).toContain(bytesText(Number(bytes)));
      expect((await linkOf(page)).get("block")).not.toBeNull();
      expect(await page.textContent(".block-details")).toContain(rows.address);
      ++found;
    }
    expect(found).toBeGreaterThan(2);
    await page.keyboard.press("Escape");
  });

  test("flame graph: the stacks of the peak are those of the profile, and the root is the sum", async () => {
    await go(page, "#view=flame");
    await page.click("text=at the peak");
    const { bytes, blocks } = await dataOf(page, ".flame-view");
    expect(Number(bytes)).toBe(peak.peak.requested_bytes);
    expect(Number(blocks)).toBe(peak.holders.reduce((sum, { count }) => sum + count, 0));
    const folded = temporary(`${name}.folded`);
    vram("convert", path, folded, "--force");
    const sums = new Map<string, number>();
    for (const line of readFileSync(folded, "utf8").trim().split("\n")) {
      const [, stack, size] = /^(.*) (\d+)$/.exec(line) as RegExpExecArray;
      const outermost = stack.split(";")[0];
      sums.set(outermost, (sums.get(outermost) ?? 0) + Number(size));
    }
    const outermost = [...sums.values()].filter((size) => size > 0).sort((a, b) => b - a);
    const box = await page.$eval(".flame-box canvas", (canvas) => canvas.getBoundingClientRect().toJSON());
    let left = 0;
    for (const size of outermost) {
      const wide = (size / peak.peak.requested_bytes) * (box.width - 24);
      if (wide < 3) break;
      await page.mouse.move(box.x + 12 + left + wide / 2, box.y + 8 + 19 + 9);
      expect((await tooltip(page)).bytes).toBe(bytesText(size));
      left += wide;
    }
    expect(left).toBeGreaterThan(0);
  });

  test("flame graph: a range shows growth, a click zooms into a frame and the root back out", async () => {
    await go(page, "#view=flame");
    await page.click("text=growth over the steps");
    const [before, after] = ((await linkOf(page)).get("range") as string)
      .split("-")
      .map((event) => reportOf(path, Number(event)).at.requested_bytes);
    // Places that shrank are left out, so the places that grew are at least the difference.
    expect(Number((await dataOf(page, ".flame-view")).bytes)).toBeGreaterThanOrEqual(after - before);
    const box = await page.$eval(".flame-box canvas", (canvas) => canvas.getBoundingClientRect().toJSON());
    await page.mouse.move(box.x + 30, box.y + 36);
    const share = (await tooltip(page)).share;
    await page.mouse.click(box.x + 30, box.y + 36);
    await settled(page);
    await page.mouse.move(box.x + box.width - 40, box.y + 36);
    expect((await tooltip(page)).share).toBe(share);
    await page.mouse.click(box.x + 30, box.y + 16);
    await page.keyboard.press("Escape");
  });

  test("table: what is live, what was allocated, what a search and a group find, in order", async () => {
    await go(page, `#view=table&t=event:${peak.peak.event}`);
    const { at } = peak;
    const live = await dataOf(page, ".table-view .what");
    expect(Number(live.bytes)).toBe(at.requested_bytes);
    const order = (await rowsOf(page, ".rows .row")).map((row) => row.bytes);
    expect(order).toEqual([...order].sort((a, b) => b - a));
    await page.click(".row-head button >> nth=0");
    const rising = (await rowsOf(page, ".rows .row")).map((row) => row.bytes);
    expect(rising).toEqual([...rising].sort((a, b) => a - b));

    const group = peak.holders[0];
    await page.fill('input[type="search"]', group.name.split(" ")[0]);
    const searched = await dataOf(page, ".table-view .what");
    const matching = at.breakdowns[0].holders.filter((holder) => holder.name.toLowerCase().includes(group.name.split(" ")[0].toLowerCase()));
    expect(Number(searched.bytes)).toBeGreaterThanOrEqual(matching.reduce((sum, each) => sum + each.requested_bytes, 0));
    await page.fill('input[type="search"]', "");

    await page.selectOption('select[aria-label="Which blocks"]', "all");
    const all = await dataOf(page, ".table-view .what");
    expect(Number(all.rows)).toBeGreaterThanOrEqual(peak.allocations);
    // However many there are, only those on the screen are elements.
    expect(await page.$$eval(".rows .row", (rows) => rows.length)).toBeLessThan(80);
    await page.click(".rows .row >> nth=0");
    expect((await dataOf(page, ".block-details")).bytes).toBe((await dataOf(page, ".rows .row")).bytes);
    await page.click("text=show its life");
    expect((await linkOf(page)).get("from")).not.toBeNull();
    await page.keyboard.press("Escape");
    await page.keyboard.press("0");
  });

  test("what if: every curve peaks where vram replay does", async () => {
    await go(page, "#view=replays");
    await page.waitForSelector(".replays li");
    const shown = await page.$$eval(".replays li", (rows) => rows.map((row) => ({ ...(row as HTMLElement).dataset })));
    expect(shown.length).toBeGreaterThan(2);
    const { results } = JSON.parse(vram("replay", path, "--json", ...shown.flatMap(({ allocator }) => ["--allocator", allocator as string])));
    for (const { allocator, peak: of } of shown) {
      const replay = results.find((each: { allocator: string }) => each.allocator === allocator);
      expect({ allocator, peak: Number(of) }).toEqual({ allocator, peak: replay?.peak_reserved_bytes });
    }
    await page.click(".replays li:nth-child(2) button");
    await settled(page);
    expect(await page.getAttribute(".replays li:nth-child(2) button", "aria-pressed")).toBe("true");
    const box = await page.$eval(".replays-view canvas", (canvas) => canvas.getBoundingClientRect().toJSON());
    await page.mouse.move(box.x + box.width - 14, box.y + 200);
    expect(Object.keys(await tooltip(page))).toEqual(shown.map(({ allocator }) => allocator));
  });
});
