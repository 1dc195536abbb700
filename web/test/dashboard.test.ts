// The dashboard's modules without a browser: links, the clock's axis, summaries, samples.
import { describe, expect, test } from "vitest";
import type { Status } from "../src/dashboard/api";
import { clockStep, clockTicks } from "../src/dashboard/clock";
import { type Course, rangeOf, stepAt } from "../src/dashboard/clock_chart";
import { metricOf, METRICS, summaryOf } from "../src/dashboard/metrics";
import { gpusOf, liveMap } from "../src/dashboard/segments";
import { boundsOf, fromLink, initialState, toLink, withPast, withSample } from "../src/dashboard/state";

const point = (time: number, average: number, spread: number, count: number) => ({
  time_unix_ns: time * 1e9,
  average,
  minimum: average - spread,
  maximum: average + spread,
  count,
});

describe("links", () => {
  test("restore the view, the metric and the time", () => {
    const state = { ...initialState(), view: "history" as const, metric: "busy_percent", span: { from: 1000.25, to: 4000 }, device: 2 };
    const restored = { ...initialState(), ...fromLink(toLink(state)) };
    expect(toLink(restored)).toBe(toLink(state));
    expect(boundsOf(restored.span, 0)).toEqual([1000.25, 4000]);
    expect(boundsOf({ last: 60 }, 1000)).toEqual([940, 1000]);
  });

  test("what a link states wrongly is left as it is", () => {
    for (const hash of ["#view=nothing", "#gpu=-1", "#metric=<script>", "#last=1e99", "#last=0", "#from=5&to=1", "#from=x", "", "#%"])
      expect(fromLink(hash)).toEqual({});
  });
});

describe("the segments that a process lists", () => {
  const MIB = 2 ** 20;
  const kinds = { stream: 0, is_small: false, is_expandable: false, is_private: false };
  const segment = (number: number, address: number, blocks: [number, number][]) => ({
    ...kinds,
    number,
    address,
    size_bytes: blocks.reduce((total, [size]) => total + size, 0),
    sizes: blocks.map(([size]) => size),
    requested: blocks.map(([size, state]) => (state === 1 ? size - 10 : 0)),
    states: blocks.map(([, state]) => state),
  });
  const list = {
    taken_unix_ns: 0,
    segment_count: 3,
    block_count: 6,
    reserved_bytes: 34 * MIB,
    segments: [
      segment(1, 512 * MIB, [[4 * MIB, 1], [8 * MIB, 0], [2 * MIB, 2], [6 * MIB, 1]]),
      segment(0, 256 * MIB, [[12 * MIB, 0]]),
      segment(1, 900 * MIB, [[2 * MIB, 1]]),
    ],
  };

  test("are those of one GPU, with blocks where they are and free memory as holes", () => {
    expect(gpusOf(list)).toEqual([0, 1]);
    const { views, blocks, requested } = liveMap(list, 1);
    expect(views.map(({ used, holes }) => ({ used, holes }))).toEqual([
      { used: 12 * MIB, holes: [{ address: 516 * MIB, bytes: 8 * MIB }] },
      { used: 2 * MIB, holes: [] },
    ]);
    expect(views.flatMap((view) => view.blocks).map((block) => [blocks.address[block], blocks.blockBytes(block), blocks.group(block, 0), requested[block]])).toEqual([
      [512 * MIB, 4 * MIB, 0, 4 * MIB - 10],
      [524 * MIB, 2 * MIB, 2, 0],
      [526 * MIB, 6 * MIB, 0, 6 * MIB - 10],
      [900 * MIB, 2 * MIB, 0, 2 * MIB - 10],
    ]);
    expect(liveMap(list, 0).views[0]).toMatchObject({ used: 0, blocks: [], holes: [{ bytes: 12 * MIB }] });
  });
});

describe("the clock", () => {
  test("has round steps", () => {
    expect(clockStep(3600, 8)).toBe(600);
    expect(clockStep(60, 6)).toBe(10);
    expect(clockStep(30 * 86_400, 8)).toBe(4 * 86_400);
  });

  test("has ticks in the window, at multiples of the step by the local clock", () => {
    const found = clockTicks(1_700_000_000, 1_700_003_600, 600);
    expect(found).toHaveLength(6);
    for (const tick of found) expect(new Date(tick * 1000).getMinutes() % 10).toBe(0);
  });
});

describe("a chart of the history", () => {
  const course: Course = {
    times: Float64Array.of(10, 11, 12, 30),
    average: Float64Array.of(1, 2, 3, 4),
    minimum: Float64Array.of(0, 1, 2, 3),
    maximum: Float64Array.of(2, 3, 4, 50),
    step: 1,
    colour: "#000000",
    isFaint: false,
  };

  test("finds the step at a time, and none in a gap", () => {
    expect(stepAt(course, 10.9)).toBe(1);
    expect(stepAt(course, 11.1)).toBe(1);
    expect(stepAt(course, 20)).toBe(-1);
    expect(stepAt(course, 30.4)).toBe(3);
    expect(stepAt(course, 99)).toBe(-1);
  });

  test("shows the whole memory of the device, unless the curves would be flat", () => {
    const chart = { window: [0, 40] as [number, number], selection: null, cursor: null, metric: METRICS[0], courses: [course] };
    expect(rangeOf({ ...chart, limit: 100 })[1]).toBeGreaterThan(100);
    expect(rangeOf({ ...chart, limit: 1000 })[1]).toBeLessThan(60);
    expect(rangeOf({ ...chart, limit: null, courses: [] })).toEqual([0, 1]);
  });
});

test("a summary weighs steps by their samples", () => {
  const points = [point(0, 10, 1, 1), point(10, 20, 5, 3), point(20, 90, 9, 9)];
  expect(summaryOf(points, 0, 20)).toEqual({ average: 17.5, minimum: 9, maximum: 25 });
  expect(summaryOf(points, 30, 40)).toBeNull();
});

test("metrics have units", () => {
  expect(metricOf("used_bytes").text(2 ** 30)).toBe("1 GiB");
  expect(metricOf("busy_percent").text(42)).toBe("42 %");
  expect(metricOf("power_milliwatts").text(412_300)).toBe("412 W");
  expect(metricOf("pcie_sent_bytes_per_second").text(2048)).toBe("2 KiB/s");
  expect(metricOf("unknown").id).toBe("used_bytes");
});

test("recent samples begin with what the history has from before", () => {
  const known = new Map([[0, { times: [100], used: [5] }]]);
  const series = [{ device: { key: "a", name: null, index: 0, total_bytes: null }, step_ns: 2e9, points: [point(96, 3, 1, 1), point(99.5, 4, 1, 1)] }];
  expect(withPast(known, { unit: "bytes", series }).get(0)).toEqual({ times: [96, 100], used: [3, 5] });
  expect(withPast(new Map(), { unit: "bytes", series }).size).toBe(0);
});

test("recent samples are those of five minutes, each once", () => {
  const sample = (time: number, used: number | null) =>
    ({ time_unix_ns: time * 1e9, devices: [{ index: 0, memory: { used_bytes: used } }] }) as unknown as Status;
  let recent = withSample(new Map(), sample(100, 5));
  recent = withSample(recent, sample(100, 5));
  recent = withSample(recent, sample(300, null));
  recent = withSample(recent, sample(350, 7));
  expect(recent.get(0)).toEqual({ times: [100, 350], used: [5, 7] });
  expect(withSample(recent, sample(500, 8)).get(0)).toEqual({ times: [350, 500], used: [7, 8] });
});
