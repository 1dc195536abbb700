// Draws values over the clock: for each series its average, between its minimum and maximum. Steps without a sample are gaps.
import { FONT, haloText, type Pen } from "../charts/canvas";
import { blended, type Theme } from "../charts/palette";
import { byteStep, niceStep, ticks } from "../charts/ticks";
import { clockStep, clockTicks, tickText } from "./clock";
import type { Metric } from "./metrics";

export interface Course {
  times: Float64Array; // seconds since 1970, the middles of the steps
  average: Float64Array;
  minimum: Float64Array;
  maximum: Float64Array;
  step: number; // seconds
  colour: string;
  isFaint: boolean;
}

export interface ClockChart {
  window: [number, number]; // seconds since 1970
  selection: [number, number] | null;
  cursor: number | null;
  metric: Metric;
  limit: number | null; // a line: the device's memory
  courses: Course[];
}

const LEFT = 12;
const TOP = 14;
const BOTTOM = 22;
const LONGEST_GAP = 2.5; // steps between two neighbours

const inner = (width: number): number => Math.max(1, width - 2 * LEFT);
export const clockX = (window: [number, number], width: number, time: number): number =>
  LEFT + ((time - window[0]) / (window[1] - window[0])) * inner(width);
export const clockTime = (window: [number, number], width: number, x: number): number =>
  window[0] + ((x - LEFT) / inner(width)) * (window[1] - window[0]);

/** The index of the step at a time; -1: there is none. */
export function stepAt(course: Course, time: number): number {
  let [low, high] = [0, course.times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (course.times[middle] < time - course.step / 2) low = middle + 1;
    else high = middle;
  }
  return low < course.times.length && Math.abs(course.times[low] - time) <= course.step * (LONGEST_GAP - 1) ? low : -1;
}

/** The indices where a course continues after a gap, and its end. */
function pieces(course: Course): [number, number][] {
  const found: [number, number][] = [];
  let begin = 0;
  for (let i = 1; i <= course.times.length; ++i) {
    const ends = i === course.times.length || course.times[i] - course.times[i - 1] > course.step * LONGEST_GAP;
    if (!ends) continue;
    found.push([begin, i]);
    begin = i;
  }
  return found;
}

/** The lowest and highest value of the picture. */
export function rangeOf(chart: ClockChart): [number, number] {
  let [low, high] = [0, 0];
  for (const course of chart.courses) {
    for (const value of course.maximum) high = Math.max(high, value);
    for (const value of course.minimum) low = Math.min(low, value);
  }
  // The whole memory of the device, unless that would make the curves flat.
  if (chart.limit !== null && high > chart.limit * 0.4) high = Math.max(high, chart.limit);
  return [low, high > low ? high + (high - low) * 0.06 : low + 1];
}

export function drawClockChart({ context, width, height }: Pen, chart: ClockChart, theme: Theme): void {
  const [low, high] = rangeOf(chart);
  const bottom = height - BOTTOM;
  const y = (value: number) => bottom - ((value - low) / (high - low)) * (bottom - TOP);
  const x = (time: number) => clockX(chart.window, width, time);
  const wanted = Math.max(2, (bottom - TOP) / 60);
  const step = chart.metric.scale === "bytes" ? byteStep(high - low, wanted) : niceStep(high - low, wanted);
  const levels = ticks(low, high, step);
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = theme.grid;
  for (const level of levels) context.fillRect(LEFT, Math.round(y(level)), inner(width), 1);
  context.save();
  context.beginPath();
  context.rect(LEFT, 0, inner(width), height);
  context.clip();
  if (chart.selection) {
    context.fillStyle = blended(theme.accent, theme.surface, 0.16);
    const [from, to] = chart.selection.map(x);
    context.fillRect(from, TOP, Math.max(1, to - from), bottom - TOP);
  }
  for (const course of chart.courses) drawSpread(context, course, x, y, theme);
  for (const course of chart.courses) drawAverage(context, course, x, y);
  if (chart.limit !== null && chart.limit <= high) drawLimit(context, y(chart.limit), width, theme);
  if (chart.cursor !== null) {
    context.fillStyle = theme.accent;
    context.fillRect(x(chart.cursor) - 0.5, TOP, 1, bottom - TOP);
  }
  context.restore();
  context.fillStyle = theme.muted;
  context.textAlign = "left";
  for (const level of levels) if (level > low || low < 0) haloText(context, chart.metric.text(level), LEFT + 4, y(level) - 7, theme.surface);
  drawClock(context, chart.window, width, bottom, theme);
}

type Scale = (value: number) => number;

/** The places of a piece's steps; a single step has a width, too. */
function placesOf(course: Course, [begin, end]: [number, number], x: Scale): { x: number; index: number }[] {
  if (end - begin > 1) return Array.from({ length: end - begin }, (_, i) => ({ x: x(course.times[begin + i]), index: begin + i }));
  return [-0.5, 0.5].map((half) => ({ x: x(course.times[begin] + half * course.step), index: begin }));
}

/** Between the minima and the maxima: below the averages of all series. */
function drawSpread(context: CanvasRenderingContext2D, course: Course, x: Scale, y: Scale, theme: Theme): void {
  context.fillStyle = blended(course.colour, theme.surface, course.isFaint ? 0.08 : 0.22);
  for (const piece of pieces(course)) {
    const places = placesOf(course, piece, x);
    context.beginPath();
    for (const place of places) context.lineTo(place.x, y(course.maximum[place.index]));
    for (const place of places.reverse()) context.lineTo(place.x, y(course.minimum[place.index]));
    context.fill();
  }
}

function drawAverage(context: CanvasRenderingContext2D, course: Course, x: Scale, y: Scale): void {
  context.strokeStyle = course.colour;
  context.lineWidth = course.isFaint ? 0.7 : 1.8;
  context.lineJoin = "round";
  for (const piece of pieces(course)) {
    context.beginPath();
    for (const place of placesOf(course, piece, x)) context.lineTo(place.x, y(course.average[place.index]));
    context.stroke();
  }
}

function drawLimit(context: CanvasRenderingContext2D, y: number, width: number, theme: Theme): void {
  context.strokeStyle = theme.danger;
  context.lineWidth = 1;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(LEFT, Math.round(y) + 0.5);
  context.lineTo(width - LEFT, Math.round(y) + 0.5);
  context.stroke();
  context.setLineDash([]);
}

function drawClock(context: CanvasRenderingContext2D, window: [number, number], width: number, bottom: number, theme: Theme): void {
  const step = clockStep(window[1] - window[0], inner(width) / 90);
  context.fillStyle = theme.muted;
  context.fillRect(LEFT, bottom, inner(width), 1);
  context.textAlign = "center";
  for (const tick of clockTicks(window[0], window[1], step)) {
    const x = clockX(window, width, tick);
    if (x > LEFT + 22 && x < width - LEFT - 22) context.fillText(tickText(tick, step), x, bottom + 13);
  }
}
