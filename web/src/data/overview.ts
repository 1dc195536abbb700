// The coarse level of a device's timeline (src/pages/overview.hpp): equal bins of positions. A position is the number of events
// that have happened; 0 is before the first one.
import { Columns, plain, wandering } from "./columns";
import type { DeviceHead } from "./page";

/** The groups with a colour of their own (kShownGroups in src/pages/overview.hpp); the others are drawn as one. */
export const SHOWN_GROUPS = 11;

/** Bins of positions, one level of a timeline. Bin i has the positions from first + i * size on. */
export interface Bins {
  first: number;
  size: number;
  count: number;
  peakAt: Float64Array; // the position in it where most was requested
  peak: Float64Array; // requested bytes there
  low: Float64Array; // the fewest
  reserved: Float64Array; // the most
  groups: Float64Array[]; // by group, the bytes at peakAt; without the rest
}

export interface Overview {
  bins: Omit<Bins, "groups">;
  allocated: Float64Array;
  active: Float64Array;
  times: Float64Array; // where each bin begins, in nanoseconds
  groups: Float64Array[][]; // by dimension, group and bin
}

export function readOverview(bytes: Uint8Array, head: DeviceHead): Overview {
  const columns = new Columns(bytes);
  const size = head.bin_positions;
  const count = Math.ceil((head.events + 1) / size);
  const values = () => wandering(columns.next(), new Float64Array(count));
  const peakAt = plain(columns.next(), new Float64Array(count));
  for (let i = 0; i < count; ++i) peakAt[i] += i * size;
  const peak = values();
  const low = values();
  const allocated = values();
  const active = values();
  const reserved = values();
  const times = values();
  const groups = head.dimensions.map((dimension) => {
    const shown = Math.min(SHOWN_GROUPS, dimension.groups.length);
    const all = new Float64Array(shown * count);
    const column = columns.next();
    plainSigned(column, all);
    return Array.from({ length: shown }, (_, group) => {
      const of = all.subarray(group * count, (group + 1) * count);
      for (let i = 1; i < count; ++i) of[i] += of[i - 1];
      return of;
    });
  });
  return { bins: { first: 0, size, count, peakAt, peak, low, reserved }, allocated, active, times, groups };
}

function plainSigned(column: Uint8Array, out: Float64Array): void {
  plain(column, out);
  for (let i = 0; i < out.length; ++i) out[i] = out[i] % 2 === 0 ? out[i] / 2 : -(out[i] + 1) / 2;
}
