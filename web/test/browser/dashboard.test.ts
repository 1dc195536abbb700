import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { History, PastProcesses, Status } from "../../src/dashboard/api";
import { BINARY, launch, RECORDINGS, recording, temporary } from "./page";
import { openDashboard, proxy, Serve, violations } from "./server";

const SIZES = [
  { width: 1280, height: 720 },
  { width: 1920, height: 1080 },
  { width: 390, height: 844 },
];
const TOKEN = "a-token-of-the-tests-0123456789";

let browser: Browser;
let serve: Serve;
beforeAll(async () => {
  browser = await launch();
  const folder = temporary("shown");
  mkdirSync(folder);
  copyFileSync(recording(RECORDINGS[0]), join(folder, RECORDINGS[0]));
  serve = await Serve.start(["--recordings", folder]);
});
afterAll(async () => {
  await browser.close();
  await serve.end();
});

const views = (page: Page) => page.$$eval("nav button", (buttons) => buttons.length);

describe("the dashboard", () => {
  test("shows devices and processes as the API reports them", async () => {
    const { page, problems, last } = await openDashboard(browser, serve.url);
    await page.waitForSelector("tr[data-pid]");
    await page.keyboard.press("Space"); // no more samples
    await page.waitForFunction(() => document.querySelector(".light")?.textContent?.includes("paused"));
    const shown = (selector: string) => page.getAttribute(selector, "data-bytes").then(Number);
    // An answer may still have been on its way.
    const differences = async () => {
      const status = last.get("api/v1/status") as Status;
      const [device] = status.devices;
      const [process] = status.processes;
      return [
        (await shown("[data-device='0'] [data-figure='used']")) - (device.memory?.used_bytes ?? NaN),
        (await shown("[data-device='0'] [data-part='free']")) - (device.memory?.free_bytes ?? NaN),
        (await shown(`[data-part='pid ${process.pid}']`)) - (process.uses[0].used_bytes ?? NaN),
        (await shown(`tr[data-pid='${process.pid}']`)) - (process.uses[0].used_bytes ?? NaN),
      ];
    };
    await expect.poll(differences, { timeout: 30_000 }).toEqual([0, 0, 0, 0]);
    expect(await page.title()).toBe(`${(last.get("api/v1/status") as Status).host} · vram`);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("shows the history that the API returns, of a chosen range, too", async () => {
    const { page, problems, last } = await openDashboard(browser, serve.url, "#view=history&last=900");
    await page.waitForSelector(".summaries li");
    await page.waitForSelector(".past-holders li");
    const most = (series: { points: { maximum: number }[] }[]) => Math.max(...series[0].points.map((point) => point.maximum));
    const differences = async () => [
      Number(await page.getAttribute(".summaries li", "data-maximum")) - most((last.get("api/v1/history") as History).series),
      Number(await page.getAttribute(".past-holders li", "data-peak")) - most((last.get("api/v1/history/processes") as PastProcesses).series),
    ];
    await expect.poll(differences, { timeout: 30_000 }).toEqual([0, 0]);
    const box = await page.locator(".chart-box canvas").boundingBox();
    if (!box) throw new Error("no chart");
    await page.keyboard.down("Shift");
    await page.mouse.move(box.x + box.width * 0.5, box.y + 100);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.9, box.y + 100, { steps: 4 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await page.waitForSelector(".chosen button");
    await page.click(".chosen button");
    await page.waitForFunction(() => location.hash.includes("from="));
    const words = new URLSearchParams(new URL(page.url()).hash.slice(1));
    const length = Number(words.get("to")) - Number(words.get("from"));
    expect(length).toBeGreaterThan(300);
    expect(length).toBeLessThan(420);
    await page.keyboard.press("Home");
    await page.waitForFunction(() => location.hash.includes("last=3600"));
    expect(problems).toEqual([]);
    await page.close();
  });

  test("says what to do if no history is kept", async () => {
    const without = await Serve.start(["--history", "off"]);
    const { page } = await openDashboard(browser, without.url, "#view=history");
    await page.waitForFunction(() => document.querySelector(".empty")?.textContent?.includes("--history FILE"));
    await page.close();
    expect(await without.end()).toBe(0);
  });

  test("shows alerts and rules", async () => {
    const rules = temporary("rules.toml");
    writeFileSync(rules, '[rules.any-memory]\nmeasure = "memory_used"\nabove = "1%"\nheadroom = "0"\nfor = "1s"\nseverity = "critical"\nsummary = "{device}: <b>{value}</b> used"\n');
    const alarmed = await Serve.start(["--rules", rules]);
    const { page, problems, last } = await openDashboard(browser, alarmed.url, "#view=alerts");
    await page.waitForSelector(".alert.is-firing", { timeout: 60_000 });
    expect(await page.textContent(".alert .rule")).toBe("any-memory");
    expect(await page.textContent(".alert .severity")).toContain("critical");
    expect(await page.textContent(".alert-summary")).toContain("<b>");
    const { rules: all } = last.get("api/v1/rules") as { rules: { is_enabled: boolean }[] };
    expect(await page.textContent(".rules summary")).toContain(String(all.filter((rule) => rule.is_enabled).length));
    await page.keyboard.press("1");
    await page.waitForSelector(".card-alert");
    expect(problems).toEqual([]);
    await page.close();
    expect(await alarmed.end()).toBe(0);
  });

  test("continues when the server is back", async () => {
    const first = await Serve.start();
    const { page } = await openDashboard(browser, first.url);
    await page.waitForSelector(".light.is-fresh");
    await first.end();
    await page.waitForFunction(() => document.querySelector(".light")?.textContent?.includes("no connection"), undefined, { timeout: 60_000 });
    const port = new URL(first.url).port;
    const again = createServer((_, response) => response.writeHead(503, { "Content-Type": "application/json" }).end("{}"));
    await new Promise<void>((resolve) => again.listen(Number(port), "127.0.0.1", resolve));
    await page.waitForFunction(() => document.querySelector(".trouble")?.textContent?.includes("503"), undefined, { timeout: 60_000 });
    again.close();
    await page.close();
  });
});

describe("access", () => {
  test("the page asks for the token, keeps it for the tab, and never sets a cookie", async () => {
    const file = temporary("token");
    writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
    const guarded = await Serve.start(["--token-file", file]);
    expect((await fetch(`${guarded.url}api/v1/status`)).status).toBe(401);
    const { page } = await openDashboard(browser, guarded.url);
    const send = async (token: string) => {
      await page.waitForSelector(".token input");
      await page.fill(".token input", token);
      await page.click(".token button");
    };
    await send("a-wrong-token-of-the-tests");
    await page.waitForSelector(".token .trouble");
    expect(await page.textContent(".token .trouble")).toContain("token");
    await send(TOKEN);
    await page.waitForSelector("tr[data-pid]");
    expect(await page.$("footer a")).toBeNull(); // a browser sends no token when it opens a page
    await page.reload();
    await page.waitForSelector("tr[data-pid]");
    expect(await page.context().cookies()).toEqual([]);
    expect(page.url()).not.toContain(TOKEN);
    await page.click("text=forget the token");
    await page.waitForSelector(".token input");
    await page.close();
    expect(guarded.log()).not.toContain(TOKEN);
    expect(await guarded.end()).toBe(0);
  });

  test("works behind a reverse proxy, below a path", async () => {
    for (const host of [undefined, "localhost"]) {
      const { url, server } = await proxy(serve.url, "/user/alice/proxy/9877/", host);
      const { page, problems } = await openDashboard(browser, url);
      await page.waitForSelector("tr[data-pid]");
      await page.keyboard.press("2");
      await page.waitForSelector(".summaries li");
      expect(problems).toEqual([]);
      await page.goto(url.slice(0, -1)); // the same without the slash
      await page.waitForSelector("tr[data-pid]");
      await page.click("footer a");
      await page.waitForSelector("table a");
      await page.click('text="/api/v1/devices"');
      expect(await page.textContent("body")).toContain("vram.devices/1");
      await page.close();
      server.close();
    }
  });

  test("runs its own script only, loads nothing, and no other site can frame it", async () => {
    const { page } = await openDashboard(browser, serve.url);
    await page.waitForSelector("tr[data-pid]");
    const found = await page.evaluate(async () => {
      const directives: string[] = [];
      document.addEventListener("securitypolicyviolation", (event) => directives.push(event.violatedDirective));
      const script = document.createElement("script");
      script.textContent = "window.foreign = 1";
      document.body.append(script);
      await fetch("https://example.invalid/").catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 100));
      return { directives, foreign: (window as unknown as Record<string, unknown>).foreign };
    });
    expect(found.foreign).toBeUndefined();
    expect(found.directives).toEqual(expect.arrayContaining(["script-src-elem", "connect-src"]));
    await page.close();
    expect((await fetch(serve.url)).headers.get("content-security-policy")).toBe("frame-ancestors 'self'");
    expect((await fetch(serve.url, { method: "POST" })).status).toBe(403); // there is no token
  });

  test("names of processes are text", async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    await page.route("**/api/v1/status", async (route) => {
      const status = (await (await route.fetch()).json()) as Status;
      status.host = "</title><script>window.hacked = 1</script>";
      status.devices[0].name = '<img src=x onerror="window.hacked = 1">';
      status.processes[0].command = `"><script>window.hacked = 1</script> \u202Egpj.exe ${"<b>".repeat(100_000)}`;
      status.processes[0].user = "javascript:window.hacked=1";
      status.processes[0].scope = "<iframe srcdoc='<script>parent.hacked = 1</script>'>";
      await route.fulfill({ json: status });
    });
    await page.goto(serve.url);
    await page.waitForSelector("tr[data-pid]");
    expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).toBeUndefined();
    expect(await page.$$eval("#app img, #app script, #app iframe", (elements) => elements.length)).toBe(0);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(1280);
    await page.close();
  });
});

describe("its appearance", () => {
  test.each(SIZES)("every view fits into $width x $height, light and dark, in both languages", async (size) => {
    for (const colorScheme of ["light", "dark"] as const) {
      const { page, problems } = await openDashboard(browser, serve.url, "", { ...size, colorScheme });
      await page.waitForSelector("tr[data-pid]");
      await page.evaluate(axe.source);
      for (let view = 1; view <= (await views(page)); ++view) {
        await page.keyboard.press(String(view));
        await page.waitForSelector("main > section");
        const box = await page.evaluate(() => ({ width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight }));
        expect(box.width).toBeLessThanOrEqual(size.width);
        expect(box.height).toBeLessThanOrEqual(size.height);
        expect(await violations(page)).toEqual([]);
        if (process.env.VRAM_LOOKS)
          await page.screenshot({ path: join(process.env.VRAM_LOOKS, `dashboard-${view}-${size.width}-${colorScheme}.png`) });
      }
      await page.click("text=中文");
      await page.waitForFunction(() => document.documentElement.lang === "zh");
      expect(problems).toEqual([]);
      await page.close();
    }
  });
});

// Four GPUs of the fake driver of the tests, and programs that only sleep.
const DEVICES = [0, 1, 2, 3].map((index) => ({ index, train: 41 + index * 7, serve: index === 2 ? 22 : 0 }));

test.runIf(process.env.VRAM_PICTURES)("writes the picture of the documents", async () => {
  // Programs that wait for their input.
  const sleeping = ["python3 train.py --model llama-3-8b", "python3 -m vllm.entrypoints.openai.api_server"].map((argv0) => spawn("cat", [], { argv0 }));
  const sections = DEVICES.map(
    ({ index, train, serve }) =>
      `device ${index}\nname NVIDIA H100 80GB HBM3\nuuid GPU-${index}\npci 0 ${16 + index} 0\ntotal 81559M\nused ${train + serve + 1}G\nreserved 614M\n` +
      `utilization ${97 - index * 9} 40\ncelsius ${58 + index}\nclocks 1980 2619\nmilliwatts ${640 - index * 31}000\npower-limit 700000\n` +
      `process compute ${sleeping[0].pid} ${train}G\n${serve > 0 ? `process compute ${sleeping[1].pid} ${serve}G\n` : ""}`,
  );
  const scenario = temporary("scenario");
  writeFileSync(scenario, sections.join(""));
  const library = join(dirname(BINARY), "../tests/fake_nvml/3/libnvidia-ml.so.1");
  const shown = await Serve.start(["--gpu", "nvml", "--command-lines", "full"], { VRAM_NVML: library, FAKE_NVML_SCENARIO: scenario });
  const { page } = await openDashboard(browser, shown.url, "", { width: 1280, height: 620 });
  await page.waitForSelector(".spark canvas", { timeout: 30_000 });
  await page.waitForTimeout(12_000); // so that the curves have a length
  await page.screenshot({ path: join(process.env.VRAM_PICTURES as string, "dashboard.png") });
  await page.click("text=中文");
  await page.waitForFunction(() => document.documentElement.lang === "zh");
  await page.screenshot({ path: join(process.env.VRAM_PICTURES as string, "dashboard.zh.png") });
  await page.close();
  await shown.end();
  for (const each of sleeping) each.kill();
});
