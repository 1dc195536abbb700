// Draws the timeline: steps and scopes as bands, requested memory as stacked groups, reserved memory as a line above it, and marks. Pure
// functions of the model and the state; `Layout` says where things are, for the pointer.
import type { Axis } from "../data/axis";
import type { DeviceModel } from "../data/model";
import { bytes, count, moment } from "../format";
import { t } from "../texts";
import { fitText, FONT, haloText, type Pen } from "./canvas";
import { drawLimit, drawMarks, drawUsed, mostUsed, nameReserved } from "./marks";
import { blended, type Theme } from "./palette";
import { boundaries, sample, type Samples } from "./samples";
import { byteStep, niceStep, ticks } from "./ticks";

export interface TimelineState {
  model: DeviceModel;
  axis: Axis;
  window: [number, number];
  dimension: number;
  position: number;
  range: [number, number] | null;
  highlight: number | null;
}

export interface Layout {
  left: number;
  right: number;
  stepsTop: number;
  scopesTop: number;
  scopeRows: number;
  top: number; // of the plot
  bottom: number;
  maxBytes: number;
  samples: Samples;
  hasSteps: boolean; // so few positions that each is seen
  isComplete: boolean;
}

export const BAND = 18;
const SCOPE_BAND = 15;
const MAX_SCOPE_ROWS = 4;
const LEFT = 12;
// A bin has its largest value from its beginning on. Over time, bins are as long as their events take, so that they must be smaller than
// columns of pixels where little happens. In windows of more positions, computing them would block drawing.
const TIME_BINS = 16_384;
const FINE_POSITIONS = 2 ** 19;
const FRAME_MS = 9; // for computing finer bins between two frames

export const xOf = (layout: Layout, window: [number, number], value: number): number =>
  layout.left + ((value - window[0]) / (window[1] - window[0])) * (layout.right - layout.left);
export const valueOf = (layout: Layout, window: [number, number], x: number): number =>
  window[0] + ((x - layout.left) / (layout.right - layout.left)) * (window[1] - window[0]);
export const yOf = (layout: Layout, value: number): number => layout.bottom - (value / layout.maxBytes) * (layout.bottom - layout.top);

export function layOut(state: TimelineState, width: number, height: number): Layout {
  const { model, axis, window, dimension } = state;
  const columns = Math.max(1, Math.floor(width - 2 * LEFT));
  const positions = boundaries(axis, window, columns);
  const isFine = axis.mode === "time" && positions[columns] - positions[0] <= FINE_POSITIONS;
  const bins = isFine ? TIME_BINS : 2 * columns;
  const found = model.levels.find(dimension, positions[0], positions[columns] + 1, bins, performance.now() + FRAME_MS);
  const samples = sample(found.bins, positions);
  let most = Math.max(1, mostUsed(state));
  for (let i = 0; i < samples.count; ++i) most = Math.max(most, samples.reserved[i], samples.peak[i]);
  const scopeRows = Math.min(MAX_SCOPE_ROWS, model.scopeRows);
  const stepsTop = 4;
  const scopesTop = stepsTop + (model.steps.length > 0 ? BAND + 2 : 0);
  return {
    left: LEFT,
    right: LEFT + columns,
    stepsTop,
    scopesTop,
    scopeRows,
    top: scopesTop + scopeRows * SCOPE_BAND + 14,
    bottom: height - 22,
    maxBytes: most * 1.06,
    samples,
    hasSteps: positions[columns] - positions[0] < 2 * columns,
    isComplete: found.isComplete,
  };
}

export function drawTimeline(pen: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  const { context } = pen;
  context.font = FONT;
  context.textBaseline = "middle";
  drawGrid(pen, layout, theme);
  drawStack(pen, state, layout, theme);
  drawLine(context, layout, layout.samples.reserved, theme.ink, 1.5);
  drawUsed(pen, state, layout, theme);
  drawLimit(pen, state, layout, theme);
  drawByteLabels(pen, layout, theme);
  nameReserved(pen, layout, theme);
  drawAxis(pen, state, layout, theme);
  drawSteps(pen, state, layout, theme);
  drawScopes(pen, state, layout, theme);
  drawMarks(pen, state, layout, theme);
  drawRange(pen, state, layout, theme);
  drawCursor(pen, state, layout, theme);
}

function drawGrid({ context }: Pen, layout: Layout, theme: Theme): void {
  context.strokeStyle = theme.grid;
  context.lineWidth = 1;
  context.beginPath();
  for (const tick of ticks(0, layout.maxBytes, byteStep(layout.maxBytes, 6))) {
    const y = Math.round(yOf(layout, tick)) + 0.5;
    context.moveTo(layout.left, y);
    context.lineTo(layout.right, y);
  }
  context.stroke();
}

function drawByteLabels({ context }: Pen, layout: Layout, theme: Theme): void {
  context.fillStyle = theme.muted;
  context.textAlign = "left";
  for (const tick of ticks(0, layout.maxBytes, byteStep(layout.maxBytes, 6)))
    if (tick > 0) haloText(context, bytes(tick), layout.left + 4, yOf(layout, tick) - 7, theme.surface);
}

/** The upper edge of values from column to column: steps where they are seen as such, else a point for each column. */
function trace(context: CanvasRenderingContext2D, layout: Layout, values: Float64Array): void {
  const { left } = layout;
  let before = Number.NaN;
  for (let i = 0; i < values.length; ++i) {
    const value = values[i];
    if (value === before) continue;
    const y = yOf(layout, value);
    if (i > 0 && layout.hasSteps) context.lineTo(left + i, yOf(layout, before));
    else if (i > 0 && values[i - 1] === values[i - 2]) context.lineTo(left + i, yOf(layout, before));
    context.lineTo(left + i, y);
    before = value;
  }
  context.lineTo(left + values.length, yOf(layout, before));
}

function fillBelow(context: CanvasRenderingContext2D, layout: Layout, values: Float64Array, colour: string): void {
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(layout.left, layout.bottom);
  trace(context, layout, values);
  context.lineTo(layout.left + values.length, layout.bottom);
  context.closePath();
  context.fill();
}

/** The upper edge of each group, from the largest group at the bottom up to the sum of all. */
export function edges(samples: Samples): Float64Array[] {
  const found: Float64Array[] = [];
  let below: Float64Array = new Float64Array(samples.count);
  for (const group of samples.groups) {
    const edge = new Float64Array(samples.count);
    for (let i = 0; i < samples.count; ++i) edge[i] = below[i] + group[i];
    found.push(edge);
    below = edge;
  }
  found.push(samples.peak);
  return found;
}

/** From the sum of all groups down to the first one, each over the one above it. */
function drawStack({ context }: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  const tops = edges(layout.samples);
  for (let group = tops.length - 1; group >= 0; --group) {
    const isRest = group === tops.length - 1;
    const isFaded = state.highlight !== null && state.highlight !== group && !(isRest && state.highlight >= group);
    const colour = isRest ? theme.rest : theme.groups[group];
    fillBelow(context, layout, tops[group], isFaded ? blended(colour, theme.surface, 0.22) : colour);
  }
  fadeUpToPeak(context, layout, theme);
}

/** Between the least and the most in a column, memory came and went: it is drawn lighter. */
function fadeUpToPeak(context: CanvasRenderingContext2D, layout: Layout, theme: Theme): void {
  const { samples, left } = layout;
  context.fillStyle = theme.surface;
  context.globalAlpha = 0.32;
  for (let i = 0; i < samples.count; ++i) {
    if (samples.low[i] >= samples.peak[i]) continue;
    const y = yOf(layout, samples.peak[i]);
    context.fillRect(left + i, y, 1, yOf(layout, samples.low[i]) - y);
  }
  context.globalAlpha = 1;
}

function drawLine(context: CanvasRenderingContext2D, layout: Layout, values: Float64Array, colour: string, width: number): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.beginPath();
  trace(context, layout, values);
  context.stroke();
}

export function axisLabel(axis: Axis, value: number, step: number): string {
  return axis.mode === "time" ? moment(value, step) : count(value);
}

function drawAxis({ context }: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  const { window, axis } = state;
  const step = niceStep(window[1] - window[0], (layout.right - layout.left) / 110);
  context.fillStyle = theme.muted;
  context.strokeStyle = theme.muted;
  context.lineWidth = 1;
  context.textAlign = "center";
  context.beginPath();
  context.moveTo(layout.left, layout.bottom + 0.5);
  context.lineTo(layout.right, layout.bottom + 0.5);
  for (const tick of ticks(window[0], window[1], step)) {
    const x = Math.round(xOf(layout, window, tick)) + 0.5;
    context.moveTo(x, layout.bottom);
    context.lineTo(x, layout.bottom + 4);
  }
  context.stroke();
  for (const tick of ticks(window[0], window[1], step)) {
    const x = xOf(layout, window, tick);
    if (x < layout.left + 20 || x > layout.right - 20) continue;
    context.fillText(axisLabel(axis, tick, step), x, layout.bottom + 13);
  }
}

interface Band {
  from: number;
  to: number;
  text: string;
  colour: string;
  y: number;
  height: number;
}

function drawBand({ context }: Pen, band: Band, layout: Layout, ink: string): void {
  const left = Math.max(band.from, layout.left);
  const right = Math.min(band.to, layout.right);
  if (right <= left) return;
  const width = Math.max(right - left - 1, 0.6);
  context.fillStyle = band.colour;
  context.fillRect(left, band.y, width, band.height);
  if (width < 18) return;
  context.fillStyle = ink;
  context.textAlign = "left";
  context.fillText(fitText(context, band.text, width - 8), left + 4, band.y + band.height / 2 + 0.5);
}

function drawSteps(pen: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  const { axis, window } = state;
  for (const step of state.model.steps) {
    const from = xOf(layout, window, axis.of(step.first_event));
    const to = xOf(layout, window, axis.of(step.first_event + step.event_count));
    if (to < layout.left || from > layout.right) continue;
    const shades = theme.isDark ? ["#2d3a49", "#25303c"] : ["#d9e4f0", "#e8eff7"];
    drawBand(pen, { from, to, text: to - from < 46 ? String(step.index) : t("step {0}", step.index), colour: shades[step.index % 2], y: layout.stepsTop, height: BAND }, layout, theme.ink);
  }
}

function drawScopes(pen: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  const { axis, window, model } = state;
  const lastX = new Array<number>(layout.scopeRows).fill(-1);
  for (const scope of model.scopes) {
    if (scope.depth >= layout.scopeRows) continue;
    const from = xOf(layout, window, axis.mode === "time" ? scope.beginNs : scope.first);
    const to = xOf(layout, window, axis.mode === "time" ? scope.endNs : scope.end);
    // What ends within a pixel that is already drawn would not be seen.
    if (to < layout.left || from > layout.right || to < lastX[scope.depth] + 0.5) continue;
    lastX[scope.depth] = Math.max(to, from + 0.6);
    const colour = hueOf(scope.name, theme.isDark);
    const y = layout.scopesTop + scope.depth * SCOPE_BAND;
    drawBand(pen, { from, to, text: scope.name, colour, y, height: SCOPE_BAND - 1 }, layout, theme.ink);
  }
}

/** A calm colour for a name, always the same. */
function hueOf(name: string, isDark: boolean): string {
  let hash = 0;
  for (let i = 0; i < Math.min(name.length, 200); ++i) hash = (hash * 31 + name.charCodeAt(i)) | 0;
  return `hsl(${((hash % 360) + 360) % 360} ${isDark ? "28% 27%" : "45% 87%"})`;
}

function drawRange({ context }: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  if (!state.range) return;
  const from = Math.max(layout.left, xOf(layout, state.window, state.axis.of(state.range[0])));
  const to = Math.min(layout.right, xOf(layout, state.window, state.axis.of(state.range[1])));
  context.fillStyle = theme.accent;
  context.globalAlpha = 0.14;
  context.fillRect(from, layout.top, to - from, layout.bottom - layout.top);
  context.globalAlpha = 1;
}

function drawCursor({ context }: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  const x = Math.round(xOf(layout, state.window, state.axis.of(state.position))) + 0.5;
  if (x < layout.left - 1 || x > layout.right + 2) return;
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, layout.stepsTop);
  context.lineTo(x, layout.bottom);
  context.stroke();
  context.fillStyle = theme.accent;
  context.beginPath();
  context.arc(x, layout.bottom, 3.5, 0, 7);
  context.fill();
}
