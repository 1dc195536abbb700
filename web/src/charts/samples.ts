// What a timeline draws in each of its columns of pixels: the largest values of the positions that fall into it, and the groups where
// most was requested, so that they add up to it.
import type { Axis } from "../data/axis";
import type { Bins } from "../data/overview";

export interface Samples {
  count: number;
  peak: Float64Array;
  peakAt: Float64Array;
  low: Float64Array;
  reserved: Float64Array;
  groups: Float64Array[];
}

/** The positions at which columns of pixels begin, with one more for the end. */
export function boundaries(axis: Axis, window: [number, number], count: number): Float64Array {
  const positions = new Float64Array(count + 1);
  const step = (window[1] - window[0]) / count;
  for (let i = 0; i <= count; ++i) {
    const value = window[0] + i * step;
    positions[i] = axis.mode === "time" ? axis.atTime(value) : Math.max(0, Math.min(axis.end, Math.floor(value)));
  }
  return positions;
}

export function sample(parts: Bins[], positions: Float64Array): Samples {
  const count = positions.length - 1;
  const shown = parts.length > 0 ? parts[0].groups.length : 0;
  const values = () => new Float64Array(count);
  const samples: Samples = {
    count,
    peak: values(),
    peakAt: values(),
    low: values(),
    reserved: values(),
    groups: Array.from({ length: shown }, values),
  };
  let part = 0;
  for (let column = 0; column < count; ++column) {
    // A column begins in the state that the last event before it left.
    const from = positions[column];
    const to = Math.max(from + 1, positions[column + 1]);
    while (part + 1 < parts.length && parts[part + 1].first <= from) ++part;
    let best = -1;
    let bestPart = part;
    let low = Number.POSITIVE_INFINITY;
    let reserved = 0;
    for (let p = part; p < parts.length && parts[p].first < to; ++p) {
      const bins = parts[p];
      const first = Math.max(0, Math.floor((from - bins.first) / bins.size));
      const last = Math.min(bins.count, Math.ceil((to - bins.first) / bins.size));
      for (let bin = first; bin < last; ++bin) {
        if (best < 0 || bins.peak[bin] > parts[bestPart].peak[best]) [best, bestPart] = [bin, p];
        if (bins.low[bin] < low) low = bins.low[bin];
        if (bins.reserved[bin] > reserved) reserved = bins.reserved[bin];
      }
    }
    if (best < 0) continue;
    const bins = parts[bestPart];
    samples.peak[column] = bins.peak[best];
    samples.peakAt[column] = bins.peakAt[best];
    samples.low[column] = low;
    samples.reserved[column] = reserved;
    for (let g = 0; g < shown; ++g) samples.groups[g][column] = bins.groups[g][best];
  }
  return samples;
}
