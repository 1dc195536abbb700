// What the dashboard changes: silences, requests to a real process, reports of recordings; with the token and without.
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Alert, Free, Job, Recording, SegmentList } from "../../src/dashboard/api";
import { BINARY, launch, RECORDINGS, recording, temporary, tooltip } from "./page";
import { openDashboard, proxy, Serve, violations } from "./server";

const TOKEN = "a-token-of-the-tests-0123456789";
const ROOT = new URL("../../../", import.meta.url).pathname;
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };
const PATIENCE = { timeout: 60_000 };

// A stand-in for PyTorch with a cache of 40 MiB, the segments of a bundled recording, steps, and a flight recorder.
const PROGRAM = `
import ctypes, lzma, pickle, sys, time, types
with lzma.open(sys.argv[2]) as of_recording:
    segments = pickle.load(of_recording)["segments"]
class Cuda:
    reserved = 100 << 20
    is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    is_current_stream_capturing = staticmethod(lambda: False)
    memory_stats = staticmethod(lambda device: {"reserved_bytes.all.current": Cuda.reserved, "allocated_bytes.all.current": 60 << 20})
    @staticmethod
    def empty_cache():
        Cuda.reserved = 60 << 20
    memory_snapshot = staticmethod(lambda include_traces: segments)
sys.modules["torch"] = types.SimpleNamespace(cuda=Cuda, _C=None)
import vram
from vram._library import library
from vram._prototypes import EVENT_ALLOC, Event
board = vram.Board()
recorder = vram.flight_recorder(sys.argv[1], stacks=None)
print("ready", flush=True)
step = 0
while True:
    step += 1
    vram.step()
    library().vram_record_event(ctypes.byref(Event(kind=EVENT_ALLOC, address=step << 20, size_bytes=1024)))
    time.sleep(0.005)
`;

let browser: Browser;
let serve: Serve;
let program: ChildProcess;
const folder = temporary("recordings");

beforeAll(async () => {
  browser = await launch();
  mkdirSync(folder);
  copyFileSync(recording(RECORDINGS[0]), join(folder, "run <b>1.pickle.xz"));
  writeFileSync(join(folder, "bad.vtrace"), "nonsense");
  const token = temporary("changes-token");
  writeFileSync(token, `${TOKEN}\n`, { mode: 0o600 });
  const rules = temporary("changes-rules.toml");
  writeFileSync(rules, '[rules.any-memory]\nmeasure = "memory_used"\nabove = "1%"\nheadroom = "0"\nfor = "1s"\nsummary = "{device}: {value} used"\n');
  const board = { VRAM_BOARD: temporary("board") };
  serve = await Serve.start(["--token-file", token, "--rules", rules, "--recordings", folder], board);
  const env = { ...process.env, ...board, PYTHONPATH: join(ROOT, "python"), VRAM_LIBRARY: join(dirname(BINARY), "libvram.so") };
  const started = spawn("python3", ["-c", PROGRAM, temporary("flights"), recording(RECORDINGS[0])], { env, stdio: ["ignore", "pipe", "inherit"] });
  program = started;
  await new Promise<void>((resolve, reject) => {
    started.stdout.once("data", () => resolve());
    started.on("exit", () => reject(new Error("the program has ended")));
  });
});
afterAll(async () => {
  await browser.close();
  program.kill("SIGKILL");
  expect(await serve.end()).toBe(0);
});

async function signedIn(url: string, hash: string): Promise<Page> {
  const { page } = await openDashboard(browser, url, hash);
  await page.waitForSelector(".token input");
  await page.fill(".token input", TOKEN);
  await page.keyboard.press("Enter");
  await page.waitForSelector("main > section:not(.empty)", PATIENCE);
  return page;
}
const json = <T>(path: string) => serve.json<T>(path, AUTHORIZED);

test("an alert is silenced with a comment, and the silence ended", async () => {
  const page = await signedIn(serve.url, "#view=alerts");
  await page.waitForSelector(".alert.is-firing .action", PATIENCE);
  await page.click(".alert.is-firing .action");
  await page.fill(".silence-comment input", "a <b>test</b>");
  await page.click(".silence-form .is-main");
  await page.waitForSelector(".alert.is-silenced", PATIENCE);
  const { silences } = await json<{ silences: { number: number; comment: string; from_unix_ns: number; until_unix_ns: number }[] }>("api/v1/silences");
  expect(silences).toHaveLength(1);
  expect(silences[0].comment).toBe("a <b>test</b>");
  expect(Math.round((silences[0].until_unix_ns - silences[0].from_unix_ns) / 3.6e12)).toBe(2);
  const { alerts } = await json<{ alerts: Alert[] }>("api/v1/alerts");
  expect(alerts[0].silence).toBe(silences[0].number);
  expect(await page.$(".badge")).toBeNull();
  await page.click(".silences .action");
  await page.waitForSelector(".badge", PATIENCE);
  expect((await json<{ silences: [] }>("api/v1/silences")).silences).toEqual([]);
  await page.close();
});

test("a process releases its cache, and records itself", async () => {
  // Through a proxy that passes another Host: the browser says that the page is of the same origin.
  const { url, server } = await proxy(serve.url, "/user/alice/proxy/9877/", "localhost");
  const page = await signedIn(url, "#view=allocators");
  const row = `[data-pid="${program.pid}"]`;
  await page.waitForSelector(row, PATIENCE);
  const difference = async () => {
    const { processes } = await json<Free>("api/v1/free");
    return Number(await page.getAttribute(row, "data-cached")) - (processes.find(({ pid }) => pid === program.pid)?.cached_bytes ?? NaN);
  };
  await expect.poll(difference, PATIENCE).toBe(0);
  await page.click(`${row} .action:text("release its cache")`);
  await page.waitForFunction(() => document.querySelector(".jobs li")?.textContent?.includes("40 MiB came back"), undefined, PATIENCE);
  await page.selectOption(`${row} select`, "3");
  await page.click(`${row} .record .action`);
  await page.waitForFunction(() => document.querySelector(".jobs li")?.textContent?.includes(".vtrace"), undefined, PATIENCE);
  const { jobs } = await json<{ jobs: Job[] }>("api/v1/jobs");
  expect(jobs.map(({ kind, state }) => [kind, state])).toEqual([
    ["record", "done"],
    ["trim", "done"],
  ]);
  await page.keyboard.press("5");
  await page.waitForSelector(`[data-recording="${jobs[0].result?.name}"]`, PATIENCE);
  await page.close();
  server.close();
});

test("the segments of a process are drawn as it lists them, live", async () => {
  const page = await signedIn(serve.url, "#view=allocators");
  const row = `[data-pid="${program.pid}"]`;
  await page.waitForSelector(row, PATIENCE);
  await page.click(`${row} .action:text("segments")`);
  await page.waitForSelector(".segments-panel canvas", PATIENCE);
  const { list } = await fetch(`${serve.url}api/v1/segments`, {
    method: "POST",
    headers: { ...AUTHORIZED, "Content-Type": "application/json" },
    body: JSON.stringify({ pid: program.pid }),
  }).then((response) => response.json() as Promise<{ list: SegmentList }>);
  const blocks = list.segments.flatMap(({ sizes, states }) => sizes.map((size, i) => ({ size, isFree: states[i] === 0 })));
  const bytesOf = (some: { size: number }[]) => some.reduce((total, { size }) => total + size, 0);
  const fact = (id: string) => page.$eval(`[data-fact="${id}"]`, (element) => [Number((element as HTMLElement).dataset.count), Number((element as HTMLElement).dataset.bytes)]);
  const live = blocks.filter(({ isFree }) => !isFree);
  expect(await fact("segments")).toEqual([list.segment_count, list.reserved_bytes]);
  expect(await fact("blocks")).toEqual([live.length, bytesOf(live)]);
  const [, inHoles] = await fact("holes");
  const [, inEmpty] = await fact("empty");
  expect(inHoles + inEmpty).toBe(bytesOf(blocks.filter(({ isFree }) => isFree)));
  const box = await page.locator(".segments-map canvas").boundingBox();
  if (!box) throw new Error("no map");
  await page.mouse.move(box.x + 30, box.y + 40);
  await page.waitForSelector(".tooltip");
  expect(await tooltip(page)).toHaveProperty("address");
  // The next list comes by itself.
  const taken = await page.getAttribute(".segments-panel", "data-taken");
  await page.waitForFunction((before) => document.querySelector(".segments-panel")?.getAttribute("data-taken") !== before, taken, PATIENCE);
  await page.waitForFunction((pid) => location.hash.includes(`segments=${pid}`), program.pid);
  await page.evaluate(axe.source);
  expect(await violations(page)).toEqual([]);
  for (const { width, height } of [{ width: 1920, height: 1080 }, { width: 1280, height: 720 }, { width: 390, height: 844 }]) {
    await page.setViewportSize({ width, height });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    if (process.env.VRAM_LOOKS) await page.screenshot({ path: join(process.env.VRAM_LOOKS, `segments-${width}.png`) });
  }
  await page.setViewportSize({ width: 1280, height: 720 });
  await page.click(`${row} .action:text("segments")`);
  await page.waitForFunction(() => !document.querySelector(".segments-panel"));
  await page.close();
});

test("recordings show their findings, and open as reports", async () => {
  const page = await signedIn(serve.url, "#view=recordings");
  const row = page.locator(".recording", { hasText: "run <b>1" });
  await row.locator(".recording-findings li").first().waitFor(PATIENCE);
  const { recordings } = await json<{ recordings: Recording[] }>("api/v1/recordings");
  const leak = recordings.find(({ name }) => name.includes("<b>")) as Recording;
  expect(await row.locator("[data-bytes]").getAttribute("data-bytes")).toBe(String(leak.summary?.peak_requested_bytes));
  expect(await row.locator(".recording-findings li bdi").first().textContent()).toBe(leak.summary?.findings[0].title);
  await page.waitForFunction(() => document.querySelector('[data-recording="bad.vtrace"] .trouble'), undefined, PATIENCE);
  await row.locator(".action").click();
  await page.waitForSelector("html[data-ready]", { ...PATIENCE, state: "attached" });
  expect(page.url()).toMatch(/recordings\/[0-9a-f]{32}/);
  expect(await page.textContent(".title")).toBe("run <b>1.pickle.xz");
  // The page has an origin of its own: its script cannot use the token of the dashboard.
  expect(await page.evaluate(() => self.origin)).toBe("null");
  await page.close();
});

test("without a token the server refuses, and the page shows why", async () => {
  const open = await Serve.start([], { VRAM_BOARD: temporary("board") });
  const { page } = await openDashboard(browser, open.url, "#view=allocators");
  const row = `[data-pid="${program.pid}"]`;
  await page.waitForSelector(row, PATIENCE);
  await page.click(`${row} .record .action`);
  await page.waitForSelector(".notice.is-trouble", PATIENCE);
  expect(await page.textContent(".notice")).toContain("--token-file FILE");
  expect((await open.json<{ jobs: Job[] }>("api/v1/jobs")).jobs).toEqual([]);
  await page.close();
  expect(await open.end()).toBe(0);
});

test("a page of another origin changes nothing, even with the token", async () => {
  const { url, server } = await proxy(serve.url, "/", "localhost");
  const page = await browser.newPage();
  await page.goto(`${url}api`);
  const target = `${serve.url}api/v1/silences`;
  const sent = await page.evaluate(
    async ({ target, token }) => {
      const body = JSON.stringify({ rule: "temperature", duration: "2h" });
      const plain = { method: "POST", body, mode: "no-cors" as const };
      const withToken = { method: "POST", body, headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` } };
      return Promise.all([fetch(target, plain).then(({ type }) => type, () => "refused"), fetch(target, withToken).then(({ status }) => status, () => "refused")]);
    },
    { target, token: TOKEN },
  );
  expect(sent).toEqual(["refused", "refused"]);
  expect((await json<{ silences: [] }>("api/v1/silences")).silences).toEqual([]);
  await page.close();
  server.close();
});
