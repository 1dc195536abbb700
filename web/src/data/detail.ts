// The exact contents of a part of a device's recording (src/pages/device_blocks.hpp): the life of every block that is active in it, and from
// it any moment of the part. Recordings of up to 16 million events are one part.
import { Columns, count as countOf, plain, plainAll, rising, wandering } from "./columns";
import type { DeviceHead } from "./page";

export const NEVER = 0x7fffffff;

export interface Kinds {
  requested: Float64Array;
  block: Float64Array;
  stack: Float64Array;
  groups: Float64Array[]; // by dimension
}

export class Detail {
  readonly count: number;
  readonly ids: Int32Array; // the blocks' numbers in the recording, rising; links name blocks by them
  readonly begin: Int32Array; // the position from which on a block is active; 0: it was before the recording
  readonly end: Int32Array; // ... and from which on it is not; NEVER
  readonly requestedEnd: Int32Array; // from which on it is no longer allocated
  readonly kind: Int32Array;
  readonly address: Float64Array;
  // By position from `first` on: the block that changes with the event before it, plus one, negative if it ends; 0 for none. A few positions have more.
  readonly change: Int32Array;
  readonly moreChanges = new Map<number, number[]>();
  // By 1024 blocks: the last end, so that moments need not look at blocks that are all gone.
  private readonly lastEnd: Int32Array;

  /** Positions of the part: [first, last). `segments`: of the whole recording. */
  constructor(
    readonly first: number,
    readonly last: number,
    lifetimes: Uint8Array,
    readonly kinds: Kinds,
    readonly segments: SegmentChange[],
  ) {
    const columns = new Columns(lifetimes);
    const numbers = columns.next();
    const count = (this.count = countOf(numbers));
    this.ids = rising(numbers, new Int32Array(count));
    const begin = (this.begin = rising(columns.next(), new Int32Array(count)));
    const end = (this.end = plain(columns.next(), new Int32Array(count)));
    const requestedEnd = (this.requestedEnd = plain(columns.next(), new Int32Array(count)));
    this.kind = plain(columns.next(), new Int32Array(count));
    const indexes = plain(columns.next(), new Int32Array(count));
    const addressColumn = columns.next();
    const addresses = rising(addressColumn, new Float64Array(countOf(addressColumn)));
    this.address = new Float64Array(count);
    for (let i = 0; i < count; ++i) {
      this.address[i] = addresses[indexes[i]];
      if (end[i] === 0) {
        end[i] = NEVER;
        requestedEnd[i] = requestedEnd[i] === 0 ? NEVER : begin[i] + requestedEnd[i] - 1;
      } else {
        end[i] += begin[i];
        requestedEnd[i] = end[i] - requestedEnd[i];
      }
    }
    this.change = new Int32Array(last - first);
    this.fillChanges();
    this.lastEnd = new Int32Array(Math.ceil(count / 1024));
    for (let i = 0; i < count; ++i) this.lastEnd[i >> 10] = Math.max(this.lastEnd[i >> 10], end[i]);
  }

  private fillChanges(): void {
    const add = (position: number, change: number) => {
      if (position <= this.first || position >= this.last) return;
      const at = position - this.first;
      if (this.change[at] === 0) this.change[at] = change;
      else {
        const more = this.moreChanges.get(position);
        if (more) more.push(change);
        else this.moreChanges.set(position, [change]);
      }
    };
    for (let i = 0; i < this.count; ++i) add(this.begin[i], i + 1);
    for (let i = 0; i < this.count; ++i) if (this.end[i] !== NEVER) add(this.end[i], -i - 1);
  }

  has(position: number): boolean {
    return position >= this.first && position < this.last;
  }

  /** The block with a number of the recording; -1 if it is not active in this part. */
  indexOf(id: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ids[middle] < id) low = middle + 1;
      else high = middle;
    }
    return this.ids[low] === id ? low : -1;
  }

  requestedBytes(block: number): number {
    return this.kinds.requested[this.kind[block]];
  }
  blockBytes(block: number): number {
    return this.kinds.block[this.kind[block]];
  }
  group(block: number, dimension: number): number {
    return this.kinds.groups[dimension][this.kind[block]];
  }

  /** The blocks that are active at a position, in order of allocation. */
  live(position: number): number[] {
    const found: number[] = [];
    for (let chunk = 0; chunk < this.lastEnd.length; ++chunk) {
      const first = chunk << 10;
      if (this.begin[first] > position) break;
      if (this.lastEnd[chunk] <= position) continue;
      const last = Math.min(first + 1024, this.count);
      for (let i = first; i < last && this.begin[i] <= position; ++i) if (this.end[i] > position) found.push(i);
    }
    return found;
  }

  /** The blocks that are active anywhere in [from, to]. */
  overlapping(from: number, to: number): Int32Array {
    const found = new Int32Array(this.count);
    let count = 0;
    for (let chunk = 0; chunk < this.lastEnd.length; ++chunk) {
      const first = chunk << 10;
      if (this.begin[first] > to) break;
      if (this.lastEnd[chunk] <= from) continue;
      const last = Math.min(first + 1024, this.count);
      for (let i = first; i < last && this.begin[i] <= to; ++i) if (this.end[i] > from) found[count++] = i;
    }
    return found.subarray(0, count);
  }

  totals(position: number, live: number[] = this.live(position)): Totals {
    const totals: Totals = { requested: 0, allocated: 0, active: 0, reserved: this.reserved(position), count: live.length };
    for (const block of live) {
      totals.requested += this.requestedBytes(block);
      totals.active += this.blockBytes(block);
      if (this.requestedEnd[block] > position) totals.allocated += this.blockBytes(block);
    }
    return totals;
  }

  reserved(position: number): number {
    let reserved = 0;
    for (const change of this.segments) {
      if (change.position > position) break;
      reserved += change.isAdded ? change.bytes : -change.bytes;
    }
    return reserved;
  }
}

export interface Totals {
  requested: number;
  allocated: number;
  active: number;
  reserved: number;
  count: number;
}

export interface SegmentChange {
  position: number;
  isAdded: boolean;
  isExpandable: boolean;
  isSmall: boolean;
  isPrivate: boolean;
  address: number;
  bytes: number;
  stream: number;
  stack: number;
}

export function readKinds(bytes: Uint8Array, head: DeviceHead): Kinds {
  const columns = new Columns(bytes);
  const next = () => plainAll(columns.next());
  return { requested: next(), block: next(), stack: next(), groups: head.dimensions.map(next) };
}

export function readSegments(bytes: Uint8Array): SegmentChange[] {
  const columns = new Columns(bytes);
  const position = plainAll(columns.next());
  rise(position);
  const what = plainAll(columns.next());
  const address = wandering(columns.next(), new Float64Array(position.length));
  const size = plainAll(columns.next());
  const stream = plainAll(columns.next());
  const stack = plainAll(columns.next());
  return Array.from(position, (at, i) => ({
    position: at,
    isAdded: (what[i] & 1) === 0,
    isExpandable: (what[i] & 2) !== 0,
    isSmall: (what[i] & 4) !== 0,
    isPrivate: (what[i] & 8) !== 0,
    address: address[i],
    bytes: size[i],
    stream: stream[i],
    stack: stack[i],
  }));
}

function rise(values: Float64Array): void {
  for (let i = 1; i < values.length; ++i) values[i] += values[i - 1];
}
