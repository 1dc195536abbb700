// Pages of other kinds of recordings: the ranks of a program, a dry run with its plans, and a recording with samples of the device.
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { writeFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Ranks, Report, Sweep } from "../../src/data/page";
import { bytes as bytesText } from "../../src/format";
import { BINARY, DATA, figures, go, launch, linkOf, open, pageOf, settled, temporary, tooltip, vram } from "./page";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe("the ranks of a program", () => {
  const folder = join(DATA, "recordings");

  test("are the ranks of the report, and a step of a rank leads to its timeline", async () => {
    const ranks: Ranks = JSON.parse(vram("report", folder, "--json"));
    const path = temporary("ranks.html");
    vram("report", folder, "--html", path);
    const { page, problems } = await open(browser, path);
    await page.waitForSelector(".rank-table tbody tr");
    const rows = await page.$$eval(".rank-table tbody tr", (all) => all.map((row) => ({ ...(row as HTMLElement).dataset })));
    expect(rows.map(({ requested, reserved }) => [Number(requested), Number(reserved)])).toEqual(
      ranks.ranks.map((rank) => [rank.peak_requested_bytes, rank.peak_reserved_bytes]),
    );
    expect(await page.textContent(".rank-table .is-worst th")).toBe(String(ranks.worst?.rank));

    const box = await page.$eval(".matrix-box canvas", (canvas) => canvas.getBoundingClientRect().toJSON());
    const place = (row: number, column: number) => ({
      x: box.x + 46 + ((box.width - 58) / ranks.steps.length) * (column + 0.5),
      y: box.y + 30 + ((box.height - 38) / ranks.ranks.length) * (row + 0.5),
    });
    for (const [row, { rank }] of ranks.ranks.entries())
      for (const [column, step] of ranks.steps.entries()) {
        const { x, y } = place(row, column);
        await page.mouse.move(x, y);
        const shown = await tooltip(page);
        expect(await page.textContent(".tooltip-title")).toBe(step.name);
        const value = step.peak_bytes[row];
        expect(shown[`rank ${rank}`]).toBe(value === null ? "has no such step" : bytesText(value));
      }
    const { x, y } = place(1, 3);
    await page.mouse.click(x, y);
    await page.waitForSelector(".timeline-view");
    expect((await linkOf(page)).get("recording")).toBe("1");
    expect((await figures(page)).requested).toBe(ranks.steps[3].peak_bytes[1]);
    expect(problems).toEqual([]);
    await page.close();
  });
});

describe("a recording with samples of the device", () => {
  const path = join(DATA, "recordings_owners", "run.vtrace");

  test("shows the used memory of the device at the time of the report's sample", async () => {
    const report: Report = JSON.parse(vram("report", path, "--json"));
    const { rest, duration_ns } = report.devices[0];
    const { page, problems } = await open(browser, pageOf(path), "#view=timeline");
    const box = await page.$eval(".timeline", (canvas) => canvas.getBoundingClientRect().toJSON());
    // A sample after the last event is shown at the end.
    const share = Math.min(1, (rest?.time_ns ?? 0) / duration_ns);
    await page.mouse.move(box.x + 12 + share * (box.width - 24) - 1, box.y + box.height - 60);
    expect((await tooltip(page))["used on the device"]).toBe(bytesText(rest?.used_bytes ?? 0));
    expect(problems).toEqual([]);
    await page.close();
  });
});

const DRY_RUN = `
import torch
from torch import nn
import vram

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    def forward(self, x):
        return x + self.mlp(self.norm(x))

with vram.dry_run(gpu="24GiB", path="OUTPUT") as run:
    model = nn.Sequential(*(Block(256) for _ in range(6))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        loss = model(torch.randn(8, 512, 256, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
`;

/** A dry run of a small model; nothing without Python that has PyTorch. */
function dryRun(): string | null {
  const python = process.env.VRAM_PYTHON;
  if (!python) return null;
  try {
    execFileSync(python, ["-c", "import torch"], { stdio: "ignore" });
  } catch {
    return null;
  }
  const output = temporary("step.vtrace");
  const script = temporary("train.py");
  writeFileSync(script, DRY_RUN.replace("OUTPUT", output));
  const env = {
    ...process.env,
    PYTHONPATH: new URL("../../../python", import.meta.url).pathname,
    VRAM_LIBRARY: join(dirname(BINARY), "libvram.so"),
  };
  execFileSync(python, ["-W", "ignore", script], { env, stdio: "pipe" });
  return output;
}

describe("a dry run", () => {
  const path = dryRun();

  test.runIf(path)("shows the plans of vram plan, and the stages that run again with each budget", async () => {
    const sweep: Sweep = JSON.parse(vram("plan", path as string, "--json"));
    const { page, problems } = await open(browser, pageOf(path as string));
    await go(page, "#view=plan");
    await page.waitForSelector(".plans tbody tr");
    const shown = await page.$$eval(".plans tbody tr", (rows) =>
      rows.map((row) => {
        const { budget, peak, time } = (row as HTMLElement).dataset;
        return { budget_bytes: Number(budget), peak_bytes: Number(peak), time_ns: Number(time) };
      }),
    );
    expect(shown).toEqual(sweep.plans.map(({ budget_bytes, peak_bytes, time_ns }) => ({ budget_bytes, peak_bytes, time_ns })));
    expect(shown.length).toBeGreaterThan(2);
    for (const [index, plan] of sweep.plans.entries()) {
      await page.click(`.plans tbody tr:nth-child(${index + 1}) button`);
      await settled(page);
      const runs = await page.$$eval(".stages li", (rows) => rows.map((row) => Number((row as HTMLElement).dataset.runs)));
      expect(runs).toEqual(plan.forward_runs);
    }
    expect(await page.$$eval(".stages .name", (names) => names.map((name) => name.textContent))).toEqual(sweep.stages);
    expect(problems).toEqual([]);
    await page.close();
  });
});
