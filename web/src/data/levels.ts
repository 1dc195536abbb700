// Levels: a device's timeline at any resolution. The coarse level comes with the page; finer bins are computed from the blocks,
// some hundred at a time ("tiles"), when they are first drawn, and kept.
import type { Detail } from "./detail";
import type { Bins, Overview } from "./overview";
import { SHOWN_GROUPS } from "./overview";

// A tile of the largest bins takes some milliseconds: the walk through a quarter of a million events.
const TILE_BINS = 256;
const MAX_TILES = 1600;

/** Where a walk through the events can begin: the state at the start of each coarse bin. */
interface Marks {
  total: Float64Array;
  reserved: Float64Array;
  groups: Float64Array[];
}

export class Levels {
  private detail: Detail | null = null;
  private readonly marks = new Map<number, Marks>(); // by dimension
  private readonly tiles = new Map<string, Bins>();

  constructor(
    private readonly overview: Overview,
    private readonly dimensionSizes: number[],
  ) {}

  attach(detail: Detail): void {
    this.detail = detail;
  }

  coarse(dimension: number): Bins {
    return { ...this.overview.bins, groups: this.overview.groups[dimension] };
  }

  /**
   * The bins that cover [from, to), of a size that suits `columns` of a picture. `isComplete`: false if finer bins are still to be
   * computed, for which there was no time before `deadline`.
   */
  find(dimension: number, from: number, to: number, columns: number, deadline: number): { bins: Bins[]; isComplete: boolean } {
    const coarse = this.coarse(dimension);
    const wanted = Math.max(0, Math.floor(Math.log2((to - from) / (2 * columns))));
    if (!this.detail || 2 ** wanted >= coarse.size) return { bins: [coarse], isComplete: true };
    const size = 2 ** wanted;
    const span = size * TILE_BINS;
    const last = Math.min(Math.ceil(to / span), Math.ceil(this.detail.positions / span));
    const bins: Bins[] = [];
    let isComplete = true;
    for (let tile = Math.max(0, Math.floor(from / span)); tile < last; ++tile) {
      const key = `${dimension}/${wanted}/${tile}`;
      let found = this.tiles.get(key);
      if (!found && performance.now() < deadline) {
        found = this.compute(this.detail, dimension, tile * span, size);
        if (this.tiles.size >= MAX_TILES) this.tiles.delete(this.tiles.keys().next().value as string);
        this.tiles.set(key, found);
      }
      if (found) bins.push(found);
      else {
        isComplete = false;
        bins.push(part(coarse, tile * span, (tile + 1) * span));
      }
    }
    return { bins, isComplete };
  }

  /** The bins from `first` on; exact. */
  compute(detail: Detail, dimension: number, first: number, size: number): Bins {
    const count = Math.min(TILE_BINS, Math.ceil((detail.positions - first) / size));
    const walk = this.walkFrom(detail, dimension, first);
    const bins: Bins = {
      first,
      size,
      count,
      peakAt: new Float64Array(count),
      peak: new Float64Array(count),
      low: new Float64Array(count),
      reserved: new Float64Array(count),
      groups: walk.groups.map(() => new Float64Array(count)),
    };
    const end = Math.min(first + count * size, detail.positions);
    for (let position = first, bin = 0; position < end; ++bin) {
      const binEnd = Math.min(position + size, end);
      let isFirst = true;
      for (; position < binEnd; ++position) {
        if (position > first) walk.step(position);
        if (isFirst || walk.total > bins.peak[bin]) {
          bins.peak[bin] = walk.total;
          bins.peakAt[bin] = position;
          for (let g = 0; g < walk.groups.length; ++g) bins.groups[g][bin] = walk.groups[g];
        }
        if (isFirst || walk.total < bins.low[bin]) bins.low[bin] = walk.total;
        if (walk.reserved > bins.reserved[bin]) bins.reserved[bin] = walk.reserved;
        isFirst = false;
      }
    }
    return bins;
  }

  private walkFrom(detail: Detail, dimension: number, position: number): Walk {
    const marks = this.marksOf(detail, dimension);
    const mark = Math.floor(position / this.overview.bins.size);
    const walk = new Walk(detail, dimension, marks.groups.length);
    walk.total = marks.total[mark];
    walk.reserved = marks.reserved[mark];
    for (let g = 0; g < marks.groups.length; ++g) walk.groups[g] = marks.groups[g][mark];
    walk.seek(mark * this.overview.bins.size);
    for (let at = mark * this.overview.bins.size + 1; at <= position; ++at) walk.step(at);
    return walk;
  }

  private marksOf(detail: Detail, dimension: number): Marks {
    let marks = this.marks.get(dimension);
    if (marks) return marks;
    const { size, count } = this.overview.bins;
    const shown = Math.min(SHOWN_GROUPS, this.dimensionSizes[dimension]);
    const walk = Walk.fromStart(detail, dimension, shown);
    marks = {
      total: new Float64Array(count),
      reserved: new Float64Array(count),
      groups: Array.from({ length: shown }, () => new Float64Array(count)),
    };
    for (let position = 0; position < detail.positions; ++position) {
      if (position > 0) walk.step(position);
      if (position % size !== 0) continue;
      const mark = position / size;
      marks.total[mark] = walk.total;
      marks.reserved[mark] = walk.reserved;
      for (let g = 0; g < shown; ++g) marks.groups[g][mark] = walk.groups[g];
    }
    this.marks.set(dimension, marks);
    return marks;
  }
}

/** Totals of a device, event by event. */
class Walk {
  total = 0;
  reserved = 0;
  readonly groups: number[];
  private nextSegment = 0;
  private nextSegmentAt = 0; // its position
  private readonly kind: Int32Array;
  private readonly requested: Float64Array;
  private readonly groupOf: Float64Array; // by kind

  constructor(
    private readonly detail: Detail,
    dimension: number,
    shown: number,
  ) {
    this.groups = new Array<number>(shown).fill(0);
    this.kind = detail.kind;
    this.requested = detail.kinds.requested;
    this.groupOf = detail.kinds.groups[dimension];
  }

  static fromStart(detail: Detail, dimension: number, shown: number): Walk {
    const walk = new Walk(detail, dimension, shown);
    for (let i = 0; i < detail.count && detail.begin[i] === 0; ++i) walk.apply(i + 1);
    walk.passSegments(0);
    return walk;
  }

  /** The totals are already those of this position. */
  seek(position: number): void {
    const segments = this.detail.segments;
    let low = 0;
    let high = segments.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (segments[middle].position <= position) low = middle + 1;
      else high = middle;
    }
    this.nextSegment = low;
    this.nextSegmentAt = segments[low]?.position ?? Number.POSITIVE_INFINITY;
  }

  step(position: number): void {
    const change = this.detail.change[position];
    if (change !== 0) {
      this.apply(change);
      const { moreChanges } = this.detail;
      if (moreChanges.size > 0) moreChanges.get(position)?.forEach((more) => this.apply(more));
    }
    if (position >= this.nextSegmentAt) this.passSegments(position);
  }

  private apply(change: number): void {
    const kind = this.kind[change > 0 ? change - 1 : -change - 1];
    const bytes = change > 0 ? this.requested[kind] : -this.requested[kind];
    this.total += bytes;
    const group = this.groupOf[kind];
    if (group < this.groups.length) this.groups[group] += bytes;
  }

  private passSegments(position: number): void {
    const segments = this.detail.segments;
    for (; this.nextSegment < segments.length && segments[this.nextSegment].position <= position; ++this.nextSegment) {
      const change = segments[this.nextSegment];
      this.reserved += change.isAdded ? change.bytes : -change.bytes;
    }
    this.nextSegmentAt = segments[this.nextSegment]?.position ?? Number.POSITIVE_INFINITY;
  }
}

/** Some of the bins of a level, without a copy. */
function part(bins: Bins, from: number, to: number): Bins {
  const first = Math.max(0, Math.floor((from - bins.first) / bins.size));
  const last = Math.min(bins.count, Math.ceil((to - bins.first) / bins.size));
  const cut = (values: Float64Array) => values.subarray(first, last);
  return {
    first: bins.first + first * bins.size,
    size: bins.size,
    count: Math.max(0, last - first),
    peakAt: cut(bins.peakAt),
    peak: cut(bins.peak),
    low: cut(bins.low),
    reserved: cut(bins.reserved),
    groups: bins.groups.map(cut),
  };
}
