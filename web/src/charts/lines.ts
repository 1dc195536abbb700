// Draws curves over a time axis, as steps.
import type { Axis } from "../data/axis";
import { bytes } from "../format";
import { FONT, haloText, type Pen } from "./canvas";
import type { Theme } from "./palette";
import { axisLabel } from "./timeline";
import { byteStep, niceStep, ticks } from "./ticks";

export interface Line {
  at: Float64Array; // on the axis, rising
  values: Float64Array;
  colour: string;
  width: number;
  isDashed?: boolean;
  isFilled?: boolean;
}

export interface LinesState {
  axis: Axis;
  window: [number, number];
  cursor: number | null; // on the axis
  most: number; // the largest value; the top of the picture
  limit: number | null;
  lines: Line[];
}

const LEFT = 12;

export const lineX = (state: LinesState, width: number, value: number): number =>
  LEFT + ((value - state.window[0]) / (state.window[1] - state.window[0])) * (width - 2 * LEFT);
export const lineValue = (state: LinesState, width: number, x: number): number =>
  state.window[0] + ((x - LEFT) / (width - 2 * LEFT)) * (state.window[1] - state.window[0]);

/** The last index whose place is not after `at`; -1 before the first. */
export function indexAt(line: Line, at: number): number {
  let low = 0;
  let high = line.at.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line.at[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function drawLines({ context, width, height }: Pen, state: LinesState, theme: Theme): void {
  const top = 12;
  const bottom = height - 22;
  const most = state.most * 1.06;
  const y = (value: number) => bottom - (value / most) * (bottom - top);
  context.font = FONT;
  context.textBaseline = "middle";
  context.lineWidth = 1;
  for (const tick of ticks(0, most, byteStep(most, Math.max(2, (bottom - top) / 60)))) {
    context.strokeStyle = theme.grid;
    context.beginPath();
    context.moveTo(LEFT, Math.round(y(tick)) + 0.5);
    context.lineTo(width - LEFT, Math.round(y(tick)) + 0.5);
    context.stroke();
  }
  context.save();
  context.beginPath();
  context.rect(LEFT, 0, width - 2 * LEFT, height);
  context.clip();
  for (const line of state.lines) drawLine(context, state, line, width, y);
  if (state.limit !== null && state.limit <= most) dashed(context, LEFT, width - LEFT, y(state.limit), theme.danger);
  if (state.cursor !== null) {
    context.fillStyle = theme.accent;
    context.fillRect(lineX(state, width, state.cursor) - 0.75, top, 1.5, bottom - top);
  }
  context.restore();
  context.fillStyle = theme.muted;
  context.textAlign = "left";
  for (const tick of ticks(0, most, byteStep(most, Math.max(2, (bottom - top) / 60))))
    if (tick > 0) haloText(context, bytes(tick), LEFT + 4, y(tick) - 7, theme.surface);
  drawBottom(context, state, width, bottom, theme);
}

function drawLine(context: CanvasRenderingContext2D, state: LinesState, line: Line, width: number, y: (value: number) => number): void {
  if (line.at.length === 0) return;
  const first = Math.max(0, indexAt(line, state.window[0]));
  const last = Math.min(line.at.length - 1, indexAt(line, state.window[1]) + 1);
  context.beginPath();
  for (let i = first; i <= last; ++i) {
    const x = lineX(state, width, line.at[i]);
    if (i > first) context.lineTo(x, y(line.values[i - 1]));
    context.lineTo(x, y(line.values[i]));
  }
  const end = lineX(state, width, state.axis.end);
  if (last === line.at.length - 1) context.lineTo(end, y(line.values[last]));
  if (line.isFilled) {
    context.lineTo(last === line.at.length - 1 ? end : lineX(state, width, line.at[last]), y(0));
    context.lineTo(lineX(state, width, line.at[first]), y(0));
    context.fillStyle = line.colour;
    context.fill();
    return;
  }
  context.strokeStyle = line.colour;
  context.lineWidth = line.width;
  context.setLineDash(line.isDashed ? [4, 3] : []);
  context.stroke();
  context.setLineDash([]);
}

function dashed(context: CanvasRenderingContext2D, from: number, to: number, y: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(from, Math.round(y) + 0.5);
  context.lineTo(to, Math.round(y) + 0.5);
  context.stroke();
  context.setLineDash([]);
}

function drawBottom(context: CanvasRenderingContext2D, state: LinesState, width: number, bottom: number, theme: Theme): void {
  const step = niceStep(state.window[1] - state.window[0], (width - 2 * LEFT) / 110);
  context.strokeStyle = theme.muted;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(LEFT, bottom + 0.5);
  context.lineTo(width - LEFT, bottom + 0.5);
  context.stroke();
  context.textAlign = "center";
  for (const tick of ticks(state.window[0], state.window[1], step)) {
    const x = lineX(state, width, tick);
    if (x > LEFT + 20 && x < width - LEFT - 20) context.fillText(axisLabel(state.axis, tick, step), x, bottom + 13);
  }
}
