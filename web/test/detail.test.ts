import { expect, test } from "vitest";
import { Levels } from "../src/data/levels";
import type { Overview } from "../src/data/overview";
import { makeProgram, type Life, type Program } from "./program";

const isLive = (life: Life, position: number) => life.begin <= position && (life.end === 0 || life.end > position);

test("the live blocks of any moment are those of the program", () => {
  const { detail, lives } = makeProgram(1, 5000);
  for (let position = 0; position < detail.positions; position += 37) {
    const expected = lives.flatMap((life, i) => (isLive(life, position) ? [i] : []));
    expect(detail.live(position)).toEqual(expected);
  }
});

test("totals fall when a free is requested and when it completes", () => {
  const { detail, lives } = makeProgram(2, 600);
  for (let position = 0; position < detail.positions; ++position) {
    const live = lives.filter((life) => isLive(life, position));
    const totals = detail.totals(position);
    expect(totals.active).toBe(live.reduce((sum, life) => sum + life.bytes, 0));
    expect(totals.requested).toBe(live.reduce((sum, life) => sum + life.bytes - 100, 0));
    const allocated = live.filter((life) => life.end === 0 || life.end - life.wait > position);
    expect(totals.allocated).toBe(allocated.reduce((sum, life) => sum + life.bytes, 0));
    expect(totals.reserved).toBe(position < 10 ? 2 ** 20 : 2 ** 20 + 2 ** 21);
  }
});

/** An overview without values: only its bins' size matters to finer levels. */
function emptyOverview({ head }: Program): Overview {
  const count = Math.ceil((head.events + 1) / head.bin_positions);
  const values = () => new Float64Array(count);
  const bins = { first: 0, size: head.bin_positions, count, peakAt: values(), peak: values(), low: values(), reserved: values() };
  return { bins, allocated: values(), active: values(), times: values(), groups: [[]] };
}

test("bins of every size have the largest total of their positions, and the groups there", () => {
  const program = makeProgram(3, 3000);
  const levels = new Levels(emptyOverview(program), [14]);
  levels.attach(program.detail);
  const totals = Array.from({ length: program.detail.positions }, (_, position) => program.detail.totals(position).requested);
  for (const size of [1, 4, 32]) {
    const bins = levels.compute(program.detail, 0, 32 * size, size);
    for (let bin = 0; bin < bins.count; ++bin) {
      const first = 32 * size + bin * size;
      const inside = totals.slice(first, first + size);
      expect(bins.peak[bin]).toBe(Math.max(...inside));
      expect(bins.low[bin]).toBe(Math.min(...inside));
      expect(totals[bins.peakAt[bin]]).toBe(bins.peak[bin]);
      for (let group = 0; group < bins.groups.length; ++group) {
        const held = program.lives.filter((life) => life.group === group && isLive(life, bins.peakAt[bin]));
        expect(bins.groups[group][bin]).toBe(held.reduce((sum, life) => sum + life.bytes - 100, 0));
      }
    }
  }
});

test("a window is drawn from coarse bins until there is time for finer ones", () => {
  const program = makeProgram(4, 3000);
  const levels = new Levels(emptyOverview(program), [14]);
  levels.attach(program.detail);
  expect(levels.find(0, 0, 500, 100, 0).isComplete).toBe(false);
  const found = levels.find(0, 0, 500, 100, Number.POSITIVE_INFINITY);
  expect(found.isComplete).toBe(true);
  expect(found.bins.map((bins) => bins.size)).toEqual([2]);
  expect(levels.find(0, 0, 3000, 10, 0).bins[0].size).toBe(64);
});
