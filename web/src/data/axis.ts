// The two axes of a timeline: real time, and events. Values on the axis are nanoseconds or positions; both rise together.

export type AxisMode = "time" | "event";

/** The times of positions: of every `size`th one, and of all positions of the parts that are loaded. */
export interface Times {
  size: number;
  coarse: Float64Array;
  partSize: number; // positions; a multiple of `size`
  parts: Map<number, Float64Array>;
}

export class Axis {
  constructor(
    readonly mode: AxisMode,
    private readonly times: Times,
    private readonly positions: number,
    readonly endNs: number,
  ) {}

  get begin(): number {
    return 0;
  }
  get end(): number {
    return this.mode === "event" ? Math.max(this.positions - 1, 1) : Math.max(this.endNs, 1);
  }

  timeOf(position: number): number {
    const { size, coarse, partSize, parts } = this.times;
    const limited = Math.min(this.positions - 1, Math.max(0, position));
    const part = Math.floor(limited / partSize);
    const fine = parts.get(part);
    if (fine) return fine[Math.floor(limited) - part * partSize];
    const at = limited / size;
    const index = Math.min(Math.floor(at), coarse.length - 1);
    if (index === at) return coarse[index];
    const next = index + 1 < coarse.length ? coarse[index + 1] : this.endNs;
    return coarse[index] + (next - coarse[index]) * (at - index);
  }

  /** The last position not later than a time. */
  atTime(ns: number): number {
    const { size, coarse, partSize, parts } = this.times;
    const index = Math.max(0, firstAfter(coarse, ns, 0, coarse.length) - 1);
    const first = index * size;
    const part = Math.floor(first / partSize);
    const fine = parts.get(part);
    if (fine) {
      const from = first - part * partSize;
      const after = firstAfter(fine, ns, from, Math.min(from + size, fine.length));
      return Math.min(this.positions - 1, part * partSize + Math.max(from, after - 1));
    }
    const end = index + 1 < coarse.length ? coarse[index + 1] : this.endNs;
    const inside = end > coarse[index] ? Math.min(1, Math.max(0, (ns - coarse[index]) / (end - coarse[index]))) : 0;
    return Math.min(this.positions - 1, Math.floor((index + inside) * size));
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
