// Draws the memory map: all segments in order of address, as one strip that is broken into rows, so that a column of pixels stands for
// the same number of bytes everywhere. Blocks have the colour of their group, holes are empty.
import type { MapBlocks, SegmentView } from "../data/segments";
import { bytes } from "../format";
import { t } from "../texts";
import { FONT, type Pen } from "./canvas";
import { colourOf, type Theme } from "./palette";

export interface MapLayout {
  left: number;
  top: number;
  width: number; // of a row
  rowHeight: number;
  rows: number;
  bytesPerRow: number;
  starts: number[]; // of each segment on the strip, in bytes
  views: SegmentView[];
}

const LEFT = 12;
const TOP = 26;
const GAP = 4;

export function layOutMap(views: SegmentView[], width: number, height: number): MapLayout {
  // Segments of one pool lie together, the largest pools first; in them, addresses rise.
  const order = [...views].sort(
    (a, b) => poolOrder(a) - poolOrder(b) || a.segment.stream - b.segment.stream || a.segment.address - b.segment.address,
  );
  const starts: number[] = [];
  let total = 0;
  for (const view of order) {
    starts.push(total);
    total += view.segment.bytes;
  }
  const rowWidth = Math.max(1, width - 2 * LEFT);
  const room = Math.max(1, height - TOP - 8);
  const rows = Math.max(1, Math.min(36, Math.floor(room / 17)));
  return {
    left: LEFT,
    top: TOP,
    width: rowWidth,
    rowHeight: room / rows,
    rows,
    bytesPerRow: Math.max(1, total / rows),
    starts,
    views: order,
  };
}

function poolOrder({ segment }: SegmentView): number {
  return (segment.isPrivate ? 2 : 0) + (segment.isSmall ? 1 : 0);
}

/** Calls draw(x, y, width) for the parts of [from, from + size) of the strip, one for each row. */
function forParts(layout: MapLayout, from: number, size: number, draw: (x: number, y: number, width: number) => void): void {
  let row = Math.floor(from / layout.bytesPerRow);
  let at = from - row * layout.bytesPerRow;
  for (let rest = size; rest > 1e-6 && row <= layout.rows; ++row, at = 0) {
    const here = Math.min(rest, layout.bytesPerRow - at);
    const scale = layout.width / layout.bytesPerRow;
    draw(layout.left + at * scale, layout.top + row * layout.rowHeight, here * scale);
    rest -= here;
  }
}

export interface MapState {
  blocks: MapBlocks;
  dimension: number;
  highlight: number | null;
  block: number | null;
}

export function drawMap(pen: Pen, layout: MapLayout, state: MapState, theme: Theme): void {
  const { context } = pen;
  const height = layout.rowHeight - GAP;
  context.font = FONT;
  context.textBaseline = "middle";
  layout.views.forEach((view, index) => {
    const start = layout.starts[index];
    context.fillStyle = theme.isDark ? "#262d36" : "#e9edf1";
    forParts(layout, start, view.segment.bytes, (x, y, width) => context.fillRect(x, y, width, height));
    for (const block of view.blocks) {
      const group = state.blocks.group(block, state.dimension);
      context.fillStyle = colourOf(group, theme);
      context.globalAlpha = state.highlight !== null && state.highlight !== group ? 0.22 : 1;
      const offset = start + state.blocks.address[block] - view.segment.address;
      forParts(layout, offset, state.blocks.blockBytes(block), (x, y, width) => {
        // A hair of room between blocks, where there is room for it.
        context.fillRect(x, y + 1, width > 3 ? width - 0.6 : width, height - 2);
      });
    }
    context.globalAlpha = 1;
    drawEdge(context, layout, start, height, theme);
  });
  const chosen = state.block;
  if (chosen !== null) outline(context, layout, state, chosen, height, theme);
  context.fillStyle = theme.muted;
  context.textAlign = "left";
  context.fillText(t("{0} a row", bytes(layout.bytesPerRow)), layout.left, 13);
}

/** Segments begin at a mark. */
function drawEdge(context: CanvasRenderingContext2D, layout: MapLayout, start: number, height: number, theme: Theme): void {
  forParts(layout, start, 1, (x, y) => {
    context.fillStyle = theme.ink;
    context.fillRect(x - 0.5, y - 1, 1, height + 2);
  });
}

function outline(context: CanvasRenderingContext2D, layout: MapLayout, state: MapState, block: number, height: number, theme: Theme): void {
  const index = layout.views.findIndex((view) => view.blocks.includes(block));
  if (index < 0) return;
  const view = layout.views[index];
  const offset = layout.starts[index] + state.blocks.address[block] - view.segment.address;
  context.strokeStyle = theme.ink;
  context.lineWidth = 2;
  forParts(layout, offset, state.blocks.blockBytes(block), (x, y, width) => context.strokeRect(x, y, Math.max(width, 2), height));
}

export interface MapPlace {
  view: SegmentView;
  block: number | null;
  hole: { address: number; bytes: number } | null;
}

/** What is at a place of the picture. */
export function placeAt(layout: MapLayout, blocks: MapBlocks, x: number, y: number): MapPlace | null {
  const row = Math.floor((y - layout.top) / layout.rowHeight);
  const share = (x - layout.left) / layout.width;
  if (row < 0 || row >= layout.rows || share < 0 || share > 1) return null;
  const at = (row + share) * layout.bytesPerRow;
  let low = 0;
  let high = layout.starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (layout.starts[middle] <= at) low = middle + 1;
    else high = middle;
  }
  const index = low - 1;
  const view = layout.views[index];
  if (!view || at >= layout.starts[index] + view.segment.bytes) return null;
  const address = view.segment.address + at - layout.starts[index];
  const block = view.blocks.find((each) => blocks.address[each] <= address && blocks.address[each] + blocks.blockBytes(each) > address);
  const hole = view.holes.find((each) => each.address <= address && each.address + each.bytes > address);
  return { view, block: block ?? null, hole: hole ?? null };
}
