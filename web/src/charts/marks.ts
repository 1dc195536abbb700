// What a timeline has besides the stack: the lines of reserved memory and of the device's used memory with their names, and marks: the
// peak, failed requests, and where the allocator gave segments back to the device.
import type { DeviceSamples } from "../data/model";
import type { SegmentReturn } from "../data/segments";
import { bytes } from "../format";
import { t } from "../texts";
import { haloText, type Pen } from "./canvas";
import type { Theme } from "./palette";
import { type Layout, type TimelineState, xOf, yOf } from "./timeline";

/** The index of the sample that holds at a time; -1 before the first one. */
export function sampleAt({ at }: DeviceSamples, ns: number): number {
  let low = 0;
  let high = at.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] <= ns) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The samples of which some part is in the window, as [first, last]; none if last < first. */
function samplesIn({ model, axis, window }: TimelineState): [number, number] {
  const time = (value: number) => (axis.mode === "time" ? value : axis.timeOf(value));
  return [Math.max(0, sampleAt(model.samples, time(window[0]))), sampleAt(model.samples, time(window[1]))];
}

export function mostUsed(state: TimelineState): number {
  const [first, last] = samplesIn(state);
  let most = 0;
  for (let i = first; i <= last; ++i) most = Math.max(most, state.model.samples.used[i]);
  return most;
}

export function drawUsed({ context }: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  const { axis, window } = state;
  const { at, used } = state.model.samples;
  const [first, last] = samplesIn(state);
  if (last < first) return;
  const x = (i: number) => Math.max(layout.left, xOf(layout, window, axis.mode === "time" ? at[i] : axis.atTime(at[i])));
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.3;
  context.setLineDash([6, 3]);
  context.beginPath();
  for (let i = first; i <= last; ++i) {
    if (i > first) context.lineTo(x(i), yOf(layout, used[i - 1]));
    context.lineTo(x(i), yOf(layout, used[i]));
  }
  context.lineTo(layout.right, yOf(layout, used[last]));
  context.stroke();
  context.setLineDash([]);
  name(context, layout, t("used on the device"), yOf(layout, used[last]), theme.accent, theme);
}

export function nameReserved({ context }: Pen, layout: Layout, theme: Theme): void {
  const { reserved, count } = layout.samples;
  if (count > 0) name(context, layout, t("reserved"), yOf(layout, reserved[count - 1]), theme.ink, theme);
}

export function drawLimit({ context }: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  const limit = state.model.head.memory_bytes ?? state.model.report.ooms[0]?.limit_bytes ?? null;
  if (limit === null || limit > layout.maxBytes) return;
  const y = Math.round(yOf(layout, limit)) + 0.5;
  context.strokeStyle = theme.danger;
  context.lineWidth = 1;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(layout.left, y);
  context.lineTo(layout.right, y);
  context.stroke();
  context.setLineDash([]);
  name(context, layout, t("limit {0}", bytes(limit)), y, theme.danger, theme);
}

/** A line's name, above its right end. */
function name(context: CanvasRenderingContext2D, layout: Layout, text: string, y: number, colour: string, theme: Theme): void {
  context.fillStyle = colour;
  context.textAlign = "right";
  haloText(context, text, layout.right - 4, Math.max(layout.top + 6, y - 8), theme.surface);
}

export function drawMarks(pen: Pen, state: TimelineState, layout: Layout, theme: Theme): void {
  drawReturns(pen, state, layout, theme);
  mark(pen, state, layout, state.model.peak, t("peak"), theme.ink, theme);
  for (const oom of state.model.report.ooms) mark(pen, state, layout, oom.event + 1, t("out of memory"), theme.danger, theme);
}

function mark({ context }: Pen, state: TimelineState, layout: Layout, position: number, text: string, colour: string, theme: Theme): void {
  const x = xOf(layout, state.window, state.axis.of(position));
  if (x < layout.left - 1 || x > layout.right + 1) return;
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x, layout.top);
  context.lineTo(x - 5, layout.top - 8);
  context.lineTo(x + 5, layout.top - 8);
  context.closePath();
  context.fill();
  context.textAlign = x > layout.right - 60 ? "right" : "left";
  haloText(context, text, x + (context.textAlign === "right" ? -8 : 8), layout.top - 5, theme.surface);
}

const MARK_GAP = 4; // pixels between marks that are both drawn

/** Small triangles at the bottom, pointing down. */
function drawReturns({ context }: Pen, { model, axis, window }: TimelineState, layout: Layout, theme: Theme): void {
  let last = Number.NEGATIVE_INFINITY;
  context.fillStyle = theme.ink;
  for (const { position } of model.returns) {
    const x = xOf(layout, window, axis.of(position));
    if (x < layout.left - 1 || x < last + MARK_GAP) continue;
    if (x > layout.right + 1) break;
    last = x;
    context.beginPath();
    context.moveTo(x, layout.bottom + 7);
    context.lineTo(x - 4, layout.bottom + 1);
    context.lineTo(x + 4, layout.bottom + 1);
    context.closePath();
    context.fill();
  }
}

/** What was given back in some columns of pixels, as one. */
export function returnsNear({ model, axis, window }: TimelineState, layout: Layout, x: number): SegmentReturn | null {
  let sum: SegmentReturn | null = null;
  for (const each of model.returns) {
    const at = xOf(layout, window, axis.of(each.position));
    if (at < x - MARK_GAP) continue;
    if (at > x + MARK_GAP) break;
    if (!sum) sum = { ...each };
    else {
      sum.count += each.count;
      sum.bytes += each.bytes;
      sum.position = each.position;
    }
  }
  return sum;
}
