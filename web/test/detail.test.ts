import { expect, test } from "vitest";
import type { Detail } from "../src/data/detail";
import { Levels } from "../src/data/levels";
import type { Overview } from "../src/data/overview";
import { returnsOf } from "../src/data/segments";
import { makeProgram, type Life, type Program } from "./program";

const isLive = (life: Life, position: number) => life.begin <= position && (life.end === 0 || life.end > position);

test("the live blocks of any moment are those of the program", () => {
  const { detail, lives } = makeProgram(1, 5000);
  for (let position = 0; position < detail.last; position += 37) {
    const expected = lives.flatMap((life, i) => (isLive(life, position) ? [i] : []));
    expect(detail.live(position)).toEqual(expected);
  }
});

test("totals fall when a free is requested and when it completes", () => {
  const { detail, lives } = makeProgram(2, 600);
  for (let position = 0; position < detail.last; ++position) {
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
  levels.attach([program.detail]);
  const totals = Array.from({ length: program.detail.last }, (_, position) => program.detail.totals(position).requested);
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
  levels.attach([program.detail]);
  expect(levels.find(0, 0, 500, 200, 0).isComplete).toBe(false);
  const found = levels.find(0, 0, 500, 200, Number.POSITIVE_INFINITY);
  expect(found.isComplete).toBe(true);
  expect(found.bins.map((bins) => bins.size)).toEqual([2]);
  expect(levels.find(0, 0, 3000, 20, 0).bins[0].size).toBe(64);
});

test("parts of a recording have the moments of the whole", () => {
  const { detail, parts } = makeProgram(5, 3000, 14, 512);
  expect(parts.length).toBe(6);
  for (const part of parts)
    for (let position = part.first; position < part.last; position += position % 512 === 0 ? 1 : 17) {
      expect(part.live(position).map((block) => part.ids[block])).toEqual(detail.live(position));
      expect(part.totals(position)).toEqual(detail.totals(position));
    }
  expect(parts[2].indexOf(parts[2].ids[3])).toBe(3);
  expect(parts[0].indexOf(detail.count - 1)).toBe(-1);
});

test("bins of a part are those of the whole, and what is not loaded is drawn from coarse bins", () => {
  const program = makeProgram(6, 3000, 14, 512);
  const levels = (attached: Detail[]) => {
    const made = new Levels(emptyOverview(program), [14]);
    made.attach(attached);
    return made;
  };
  const found = (attached: Detail[], from: number, to: number) => levels(attached).find(0, from, to, 200, Number.POSITIVE_INFINITY);
  const whole = found([program.detail], 500, 1000).bins;
  expect(found(program.parts, 500, 1000).bins).toEqual(whole);
  const partly = found([program.parts[1]], 500, 1100);
  expect(partly.isComplete).toBe(true);
  expect(partly.bins.map(({ first, size }) => [first, size])).toEqual([
    [0, 64],
    [512, 2],
    [1024, 64],
  ]);
});

test("segments that are given back one after the other are one return", () => {
  const change = (position: number, isAdded: boolean, bytes: number) => ({
    position,
    isAdded,
    bytes,
    address: position * 2 ** 21,
    isExpandable: false,
    isSmall: false,
    isPrivate: false,
    stream: 0,
    stack: 0,
  });
  const changes = [change(1, true, 8), change(5, false, 1), change(6, false, 2), change(7, true, 9), change(8, false, 4), change(30, false, 5)];
  expect(returnsOf(changes)).toEqual([
    { position: 6, first: 4, count: 2, bytes: 3 },
    { position: 8, first: 7, count: 1, bytes: 4 },
    { position: 30, first: 29, count: 1, bytes: 5 },
  ]);
});
