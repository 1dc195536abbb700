// `vram serve` for tests: on a port that the kernel chooses, with a recording that it plays as a GPU, and always ended. And a reverse
// proxy that serves it below a path, as JupyterHub and nginx do.
import { type ChildProcess, spawn } from "node:child_process";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { BINARY, type Look, temporary } from "./page";

let number = 0;

export class Serve {
  private constructor(
    private readonly process: ChildProcess,
    readonly url: string, // ends in a slash
    readonly log: () => string,
  ) {}

  static async start(options: string[] = [], env: Record<string, string> = {}): Promise<Serve> {
    const words = ["serve", "--listen", "127.0.0.1:0", "--period", "0.5"];
    if (!options.includes("--gpu")) words.push("--gpu", "sim");
    if (!options.includes("--history")) words.push("--history", temporary(`history${number++}.db`));
    const started = spawn(BINARY, [...words, ...options], { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, ...env } });
    let log = "";
    const url = await new Promise<string>((resolve, reject) => {
      started.stderr?.on("data", (text) => {
        log += String(text);
        const found = log.match(/serves at (http:\/\/[\d.:]+)/);
        if (found) resolve(`${found[1]}/`);
      });
      started.on("exit", () => reject(new Error(`vram serve has ended: ${log}`)));
    });
    const serve = new Serve(started, url, () => log);
    for (let i = 0; i < 300 && (await fetch(`${url}readyz`)).status !== 200; ++i) await new Promise((resolve) => setTimeout(resolve, 100));
    return serve;
  }

  json<T>(path: string, headers: Record<string, string> = {}): Promise<T> {
    return fetch(this.url + path, { headers }).then((response) => response.json() as Promise<T>);
  }

  end(): Promise<number> {
    const ended = new Promise<number>((resolve) => this.process.on("exit", (code) => resolve(code ?? -1)));
    this.process.kill("SIGTERM");
    return ended;
  }
}

/** Serves `target` below `path`, with the Host header that the browser sent or a fixed one. Everything else is not found. */
export async function proxy(target: string, path: string, host?: string): Promise<{ url: string; server: Server }> {
  const to = new URL(target);
  const server = createServer((incoming, outgoing) => {
    // As jupyter-server-proxy does, also without the slash behind the port.
    const asked = incoming.url === path.slice(0, -1) ? path : (incoming.url ?? "");
    if (!asked.startsWith(path)) {
      outgoing.writeHead(404).end();
      return;
    }
    const headers = { ...incoming.headers, host: host ?? incoming.headers.host };
    const passed = request(
      { host: to.hostname, port: to.port, path: `/${asked.slice(path.length)}`, method: incoming.method, headers },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      },
    );
    passed.on("error", () => outgoing.writeHead(502).end());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://localhost:${(server.address() as AddressInfo).port}${path}`, server };
}

export interface Watched {
  page: Page;
  problems: string[]; // errors on the console, and requests for anything but this server
  last: Map<string, unknown>; // the last document of each path of the API
}

/** Opens the dashboard at an address and collects what goes wrong. */
export async function openDashboard(browser: Browser, url: string, hash = "", { width = 1280, height = 720, colorScheme = "light" }: Look = {}): Promise<Watched> {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  const problems: string[] = [];
  const last = new Map<string, unknown>();
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (each) => !each.url().startsWith(url) && problems.push(`request for ${each.url()}`));
  page.on("response", async (response) => {
    const name = response.url().slice(url.length).split("?")[0];
    if (name.startsWith("api/")) last.set(name, await response.json().catch(() => null));
  });
  await page.goto(url + hash);
  return { page, problems, last };
}

/** What axe-core, whose source the page has run, finds serious. */
export async function violations(page: Page): Promise<string[]> {
  return page.evaluate(async () => {
    const { axe } = window as unknown as { axe: typeof import("axe-core") };
    const { violations } = await axe.run();
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`);
  });
}
