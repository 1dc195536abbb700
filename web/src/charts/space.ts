// Draws addresses over time: a block is a rectangle from its allocation to its free, at its addresses; holes stay empty. Addresses that
// were never reserved are left out. Where there are too many blocks for a picture, the smallest are left out, and `minBytes` says so.
import type { Axis } from "../data/axis";
import { type Detail, NEVER } from "../data/detail";
import { bytes } from "../format";
import { t } from "../texts";
import { FONT, haloText, type Pen } from "./canvas";
import { colourOf, type Theme } from "./palette";
import { axisLabel } from "./timeline";
import { niceStep, ticks } from "./ticks";

const MAX_DRAWN = 25_000;
const LEFT = 12;
const TOP = 26;

/** A range of addresses that was reserved at some time; `start`: where it is on the strip of all of them. */
interface Span {
  address: number;
  bytes: number;
  start: number;
}

interface Reserved {
  address: number;
  bytes: number;
  begin: number; // positions
  end: number;
}

export class Space {
  readonly spans: Span[] = [];
  readonly reserved: Reserved[] = [];
  readonly total: number;

  constructor(detail: Detail) {
    const open = new Map<number, Reserved>();
    for (const change of detail.segments) {
      if (change.isAdded) {
        const range = { address: change.address, bytes: change.bytes, begin: change.position, end: NEVER };
        open.set(change.address, range);
        this.reserved.push(range);
        continue;
      }
      this.close(open, change.address, change.bytes, change.position);
    }
    const sorted = [...this.reserved].sort((a, b) => a.address - b.address);
    let start = 0;
    for (const range of sorted) {
      const last = this.spans[this.spans.length - 1];
      const end = range.address + range.bytes;
      if (last && range.address <= last.address + last.bytes) {
        const more = Math.max(0, end - last.address - last.bytes);
        last.bytes += more;
        start += more;
        continue;
      }
      this.spans.push({ address: range.address, bytes: range.bytes, start });
      start += range.bytes;
    }
    this.total = Math.max(1, start);
  }

  /** Ranges that were mapped one by one may be unmapped together, and the other way round. */
  private close(open: Map<number, Reserved>, address: number, size: number, position: number): void {
    for (const [start, range] of [...open]) {
      const end = start + range.bytes;
      if (end <= address || start >= address + size) continue;
      range.end = position;
      open.delete(start);
      const parts: [number, number][] = [
        [start, address],
        [address + size, end],
      ];
      for (const [from, to] of parts) {
        if (to <= from) continue;
        const rest = { address: from, bytes: to - from, begin: position, end: NEVER };
        open.set(from, rest);
        this.reserved.push(rest);
      }
    }
  }

  /** Where an address is on the strip. */
  place(address: number): number {
    let low = 0;
    let high = this.spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.spans[middle].address <= address) low = middle + 1;
      else high = middle;
    }
    const span = this.spans[low - 1];
    return span ? span.start + Math.min(span.bytes, address - span.address) : 0;
  }
}

export interface SpaceState {
  detail: Detail;
  space: Space;
  axis: Axis;
  window: [number, number];
  position: number;
  dimension: number;
  highlight: number | null;
  block: number | null;
}

export interface SpaceLayout {
  width: number;
  height: number;
  blocks: Int32Array; // that were drawn
  minBytes: number;
}

export const spaceX = (state: SpaceState, layout: { width: number }, value: number): number =>
  LEFT + ((value - state.window[0]) / (state.window[1] - state.window[0])) * (layout.width - 2 * LEFT);
export const spaceValue = (state: SpaceState, layout: { width: number }, x: number): number =>
  state.window[0] + ((x - LEFT) / (layout.width - 2 * LEFT)) * (state.window[1] - state.window[0]);
const spaceY = (state: SpaceState, layout: { height: number }, place: number): number =>
  TOP + (place / state.space.total) * (layout.height - TOP - 22);

export function layOutSpace(state: SpaceState, width: number, height: number): SpaceLayout {
  const { detail, axis, window } = state;
  const found = detail.overlapping(axis.position(window[0]), axis.position(window[1]));
  // By powers of two of their size.
  const sizes = new Uint32Array(64);
  for (const block of found) ++sizes[Math.floor(Math.log2(Math.max(1, detail.blockBytes(block))))];
  let power = 63;
  let sum = 0;
  for (; power >= 0; --power) {
    sum += sizes[power];
    if (sum > MAX_DRAWN) break;
  }
  const minBytes = power < 0 ? 0 : 2 ** (power + 1);
  const blocks = minBytes === 0 ? found : found.filter((block) => detail.blockBytes(block) >= minBytes);
  return { width, height, blocks, minBytes };
}

export function drawSpace({ context, width, height }: Pen, state: SpaceState, layout: SpaceLayout, theme: Theme): void {
  const { detail, space, axis, window } = state;
  const bottom = height - 22;
  context.font = FONT;
  context.textBaseline = "middle";
  context.save();
  context.beginPath();
  context.rect(LEFT, TOP, width - 2 * LEFT, bottom - TOP);
  context.clip();
  const rectangle = (address: number, size: number, begin: number, end: number, gap: number) => {
    const x = spaceX(state, layout, axis.of(begin));
    const right = end === NEVER ? width - LEFT : spaceX(state, layout, axis.of(end));
    const place = space.place(address);
    const y = spaceY(state, layout, place);
    const tall = spaceY(state, layout, place + size) - y;
    context.fillRect(x, y, Math.max(0.5, right - x - gap), Math.max(0.5, tall - (tall > 3 ? gap : 0)));
  };
  context.fillStyle = theme.isDark ? "#20272f" : "#eef1f4";
  for (const range of space.reserved) rectangle(range.address, range.bytes, range.begin, range.end, 0);
  for (const block of layout.blocks) {
    const group = detail.group(block, state.dimension);
    context.fillStyle = block === state.block ? theme.ink : colourOf(group, theme);
    context.globalAlpha = state.highlight !== null && state.highlight !== group && block !== state.block ? 0.2 : 1;
    rectangle(detail.address[block], detail.blockBytes(block), detail.begin[block], detail.end[block], 0.4);
  }
  context.globalAlpha = 1;
  context.fillStyle = theme.accent;
  context.fillRect(spaceX(state, layout, axis.of(state.position)) - 0.75, TOP, 1.5, bottom - TOP);
  context.restore();
  context.fillStyle = theme.muted;
  context.textAlign = "left";
  const note = layout.minBytes > 0 ? ` · ${t("blocks of {0} and more", bytes(layout.minBytes))}` : "";
  context.fillText(`${bytes(space.total)}${note}`, LEFT, 13);
  context.textAlign = "center";
  const step = niceStep(window[1] - window[0], (width - 2 * LEFT) / 110);
  for (const tick of ticks(window[0], window[1], step)) {
    const x = spaceX(state, layout, tick);
    if (x > LEFT + 20 && x < width - LEFT - 20) haloText(context, axisLabel(axis, tick, step), x, bottom + 12, theme.surface);
  }
}

/** The smallest of the drawn blocks at a place. */
export function blockAt(state: SpaceState, layout: SpaceLayout, x: number, y: number): number | null {
  const { detail, space, axis } = state;
  const position = axis.position(spaceValue(state, layout, x));
  const place = ((y - TOP) / (layout.height - TOP - 22)) * space.total;
  let found: number | null = null;
  for (const block of layout.blocks) {
    if (detail.begin[block] > position || detail.end[block] <= position) continue;
    const start = space.place(detail.address[block]);
    if (place >= start && place < start + detail.blockBytes(block)) found = block;
  }
  return found;
}
