// Levels: a device's timeline at any resolution. The coarse level comes with the page; finer bins are computed from the blocks,
// some hundred at a time ("tiles"), when they are first drawn, and kept. Where no blocks are loaded, the coarse level is drawn.
import type { Detail } from "./detail";
import type { Bins, Overview } from "./overview";
import { SHOWN_GROUPS } from "./overview";

// A tile of the largest bins takes some milliseconds: the walk through a quarter of a million events.
const TILE_BINS = 256;
const MAX_TILES = 1600;

/** Where a walk through the events of a part can begin: the state at the start of each of its coarse bins. */
interface Marks {
  total: Float64Array;
  reserved: Float64Array;
  groups: Float64Array[];
}

export class Levels {
  private details: Detail[] = [];
  private readonly marks = new Map<Detail, Map<number, Marks>>(); // by part and dimension
  private readonly tiles = new Map<string, Bins>();

  constructor(
    private readonly overview: Overview,
    private readonly dimensionSizes: number[],
  ) {}

  /** The parts whose blocks are loaded. What was computed from others is kept. */
  attach(details: Detail[]): void {
    this.details = details;
    for (const detail of this.marks.keys()) if (!details.includes(detail)) this.marks.delete(detail);
  }

  coarse(dimension: number): Bins {
    return { ...this.overview.bins, groups: this.overview.groups[dimension] };
  }

  /**
   * The bins that cover [from, to): at least `count`, unless the blocks are not loaded or positions are fewer. `isComplete`: false if
   * finer bins are still to be computed, for which there was no time before `deadline`.
   */
  find(dimension: number, from: number, to: number, count: number, deadline: number): { bins: Bins[]; isComplete: boolean } {
    const coarse = this.coarse(dimension);
    const wanted = Math.max(0, Math.floor(Math.log2((to - from) / count)));
    if (this.details.length === 0 || 2 ** wanted >= coarse.size) return { bins: [coarse], isComplete: true };
    const size = 2 ** wanted;
    const span = size * TILE_BINS;
    const last = Math.min(Math.ceil(to / span), Math.ceil((coarse.count * coarse.size) / span));
    const end = (coarse.count - 1) * coarse.size; // only the last part goes beyond it
    const bins: Bins[] = [];
    let isComplete = true;
    for (let tile = Math.max(0, Math.floor(from / span)); tile < last; ++tile) {
      const key = `${dimension}/${wanted}/${tile}`;
      let found = this.tiles.get(key);
      const detail = this.details.find((part) => part.has(tile * span) && ((tile + 1) * span <= part.last || part.last > end));
      if (!found && detail && performance.now() < deadline) {
        found = this.compute(detail, dimension, tile * span, size);
        if (this.tiles.size >= MAX_TILES) this.tiles.delete(this.tiles.keys().next().value as string);
        this.tiles.set(key, found);
      }
      if (found) bins.push(found);
      else {
        if (detail) isComplete = false;
        bins.push(cut(coarse, tile * span, (tile + 1) * span));
      }
    }
    return { bins, isComplete };
  }

  /** The bins from `first` on; exact. */
  compute(detail: Detail, dimension: number, first: number, size: number): Bins {
    const count = Math.min(TILE_BINS, Math.ceil((detail.last - first) / size));
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
    const end = Math.min(first + count * size, detail.last);
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
    const { size } = this.overview.bins;
    const mark = Math.floor((position - detail.first) / size);
    const begin = detail.first + mark * size;
    const walk = new Walk(detail, dimension, marks.groups.length);
    walk.total = marks.total[mark];
    walk.reserved = marks.reserved[mark];
    for (let g = 0; g < marks.groups.length; ++g) walk.groups[g] = marks.groups[g][mark];
    walk.seek(begin);
    for (let at = begin + 1; at <= position; ++at) walk.step(at);
    return walk;
  }

  private marksOf(detail: Detail, dimension: number): Marks {
    const ofPart = this.marks.get(detail) ?? new Map<number, Marks>();
    this.marks.set(detail, ofPart);
    const known = ofPart.get(dimension);
    if (known) return known;
    const { size } = this.overview.bins;
    const count = Math.ceil((detail.last - detail.first) / size);
    const shown = Math.min(SHOWN_GROUPS, this.dimensionSizes[dimension]);
    const walk = Walk.fromStart(detail, dimension, shown);
    const marks: Marks = {
      total: new Float64Array(count),
      reserved: new Float64Array(count),
      groups: Array.from({ length: shown }, () => new Float64Array(count)),
    };
    for (let position = detail.first; position < detail.last; ++position) {
      if (position > detail.first) walk.step(position);
      if ((position - detail.first) % size !== 0) continue;
      const mark = (position - detail.first) / size;
      marks.total[mark] = walk.total;
      marks.reserved[mark] = walk.reserved;
      for (let g = 0; g < shown; ++g) marks.groups[g][mark] = walk.groups[g];
    }
    ofPart.set(dimension, marks);
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
    for (let i = 0; i < detail.count && detail.begin[i] <= detail.first; ++i) walk.apply(i + 1);
    walk.passSegments(detail.first);
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
    const change = this.detail.change[position - this.detail.first];
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
function cut(bins: Bins, from: number, to: number): Bins {
  const first = Math.max(0, Math.floor((from - bins.first) / bins.size));
  const last = Math.min(bins.count, Math.ceil((to - bins.first) / bins.size));
  const some = (values: Float64Array) => values.subarray(first, last);
  return {
    first: bins.first + first * bins.size,
    size: bins.size,
    count: Math.max(0, last - first),
    peakAt: some(bins.peakAt),
    peak: some(bins.peak),
    low: some(bins.low),
    reserved: some(bins.reserved),
    groups: bins.groups.map(some),
  };
}
