// The segments of a device at a position, rebuilt from their changes as src/replay/segment_map.hpp does: mapped pages join the
// adjacent expandable ranges of their stream; other segments never join.
import type { Detail, SegmentChange } from "./detail";

export interface Segment {
  address: number;
  bytes: number;
  stream: number;
  isExpandable: boolean;
  isSmall: boolean;
  isPrivate: boolean;
  stack: number;
}

export class Segments {
  readonly ranges: Segment[] = []; // by address
  private next = 0;

  constructor(private readonly changes: SegmentChange[]) {}

  /** Moves forward to a position, which must not be before the last one. */
  moveTo(position: number): void {
    for (; this.next < this.changes.length && this.changes[this.next].position <= position; ++this.next) {
      const change = this.changes[this.next];
      if (change.isAdded) this.add(change);
      else this.remove(change);
    }
  }

  /** The index of the first range that ends after an address. */
  private find(address: number): number {
    let low = 0;
    let high = this.ranges.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ranges[middle].address + this.ranges[middle].bytes <= address) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private add(change: SegmentChange): void {
    const { address, bytes, stream, isExpandable, isSmall, isPrivate, stack } = change;
    let index = this.find(address);
    const added: Segment = { address, bytes, stream, isExpandable, isSmall, isPrivate, stack };
    const joins = (other: Segment | undefined) => isExpandable && other?.isExpandable && other.stream === stream;
    const before = this.ranges[index - 1];
    if (joins(before) && before.address + before.bytes === address) {
      added.address = before.address;
      added.bytes += before.bytes;
      this.ranges.splice(--index, 1);
    }
    const after = this.ranges[index];
    if (joins(after) && added.address + added.bytes === after.address) {
      added.bytes += after.bytes;
      this.ranges.splice(index, 1);
    }
    this.ranges.splice(index, 0, added);
  }

  private remove(change: SegmentChange): void {
    const index = this.find(change.address);
    const range = this.ranges[index];
    if (!range || range.address > change.address) return;
    const rest: Segment[] = [];
    if (change.address > range.address) rest.push({ ...range, bytes: change.address - range.address });
    const end = change.address + change.bytes;
    const rangeEnd = range.address + range.bytes;
    if (end < rangeEnd) rest.push({ ...range, address: end, bytes: rangeEnd - end });
    this.ranges.splice(index, 1, ...rest);
  }
}

/** Segments that the allocator gave back to the device without an event in between: its cache was emptied. */
export interface SegmentReturn {
  position: number; // after the last of them
  first: number; // before the first of them
  count: number;
  bytes: number;
}

export function returnsOf(changes: SegmentChange[]): SegmentReturn[] {
  const found: SegmentReturn[] = [];
  let last: SegmentReturn | null = null;
  for (const change of changes) {
    if (change.isAdded) continue;
    if (last && change.position <= last.position + 1) {
      last.position = change.position;
      ++last.count;
      last.bytes += change.bytes;
      continue;
    }
    last = { position: change.position, first: change.position - 1, count: 1, bytes: change.bytes };
    found.push(last);
  }
  return found;
}

/** What a map knows of its blocks, by their numbers. A report's Detail is one. */
export interface MapBlocks {
  address: ArrayLike<number>;
  blockBytes(block: number): number;
  group(block: number, dimension: number): number;
}

/** A segment with its blocks and the free space between them. */
export interface SegmentView {
  segment: Segment;
  blocks: number[]; // by address
  used: number; // bytes of blocks
  holes: { address: number; bytes: number }[];
}

/** All segments at a position. `live`: the blocks that are active there. */
export function viewSegments(detail: Detail, position: number, live: number[]): SegmentView[] {
  const segments = new Segments(detail.segments);
  segments.moveTo(position);
  const sorted = [...live].sort((a, b) => detail.address[a] - detail.address[b]);
  let next = 0;
  return segments.ranges.map((segment) => {
    const end = segment.address + segment.bytes;
    while (next < sorted.length && detail.address[sorted[next]] < segment.address) ++next;
    const view: SegmentView = { segment, blocks: [], used: 0, holes: [] };
    let cursor = segment.address;
    for (; next < sorted.length && detail.address[sorted[next]] < end; ++next) {
      const block = sorted[next];
      const address = detail.address[block];
      if (address > cursor) view.holes.push({ address: cursor, bytes: address - cursor });
      cursor = Math.max(cursor, address + detail.blockBytes(block));
      view.blocks.push(block);
      view.used += detail.blockBytes(block);
    }
    if (end > cursor) view.holes.push({ address: cursor, bytes: end - cursor });
    return view;
  });
}
