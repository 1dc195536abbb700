// The two axes of a timeline: real time, and events. Values on the axis are nanoseconds or positions; both rise together.

export type AxisMode = "time" | "event";

// Searches look at every 1024th time first, and then at those in between, which are close to each other in memory.
const STRIDE = 1024;

export class Axis {
  private readonly strides: Float64Array;

  constructor(
    readonly mode: AxisMode,
    // Times of positions, every `size` of them.
    private readonly times: Float64Array,
    private readonly size: number,
    private readonly positions: number,
    readonly endNs: number,
  ) {
    this.strides = Float64Array.from({ length: Math.ceil(times.length / STRIDE) }, (_, i) => times[i * STRIDE]);
  }

  get begin(): number {
    return 0;
  }
  get end(): number {
    return this.mode === "event" ? Math.max(this.positions - 1, 1) : Math.max(this.endNs, 1);
  }

  timeOf(position: number): number {
    const at = Math.max(0, position) / this.size;
    const index = Math.min(Math.floor(at), this.times.length - 1);
    if (this.size === 1 || index === at) return this.times[index];
    const next = index + 1 < this.times.length ? this.times[index + 1] : this.endNs;
    return this.times[index] + (next - this.times[index]) * (at - index);
  }

  /** The last position not later than a time. */
  atTime(ns: number): number {
    const stride = Math.max(0, firstAfter(this.strides, ns, 0, this.strides.length) - 1);
    const after = firstAfter(this.times, ns, stride * STRIDE, Math.min((stride + 1) * STRIDE, this.times.length));
    const index = Math.max(0, after - 1);
    if (this.size === 1) return Math.min(index, this.positions - 1);
    const begin = this.times[index];
    const end = index + 1 < this.times.length ? this.times[index + 1] : this.endNs;
    const inside = end > begin ? Math.min(1, Math.max(0, (ns - begin) / (end - begin))) : 0;
    return Math.min(this.positions - 1, Math.floor((index + inside) * this.size));
  }

  of(position: number): number {
    return this.mode === "event" ? position : this.timeOf(position);
  }
  position(value: number): number {
    if (this.mode === "time") return this.atTime(value);
    return Math.min(this.positions - 1, Math.max(0, Math.round(value)));
  }
}

/** The first index in [low, high) whose value is greater; `high` if there is none. */
function firstAfter(rising: Float64Array, value: number, low: number, high: number): number {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rising[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
