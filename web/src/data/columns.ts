// Decodes blocks of varint columns (src/pages/block.hpp). Numbers beyond 2^53 lose precision; nothing that a page computes
// with is as large, except addresses of damaged files.

/** The columns of a block, one after the other. */
export class Columns {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  next(): Uint8Array {
    let length = 0;
    let factor = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      length += (byte & 0x7f) * factor;
      if (byte < 0x80) break;
      factor *= 128;
    }
    const column = this.bytes.subarray(this.at, this.at + length);
    this.at += length;
    return column;
  }
}

/** The number of values in a column. */
export function count(column: Uint8Array): number {
  let values = 0;
  for (let i = 0; i < column.length; ++i) values += column[i] < 0x80 ? 1 : 0;
  return values;
}

type Numbers = Float64Array | Int32Array | Uint32Array;

function decode<T extends Numbers>(column: Uint8Array, out: T, next: (value: number) => number): T {
  let at = 0;
  const end = column.length;
  for (let i = 0; i < out.length && at < end; ++i) {
    let byte = column[at++];
    let value = byte & 0x7f;
    for (let factor = 128; byte >= 0x80 && at < end; factor *= 128) {
      byte = column[at++];
      value += (byte & 0x7f) * factor;
    }
    out[i] = next(value);
  }
  return out;
}

export function plain<T extends Numbers>(column: Uint8Array, out: T): T {
  return decode(column, out, (value) => value);
}

/** Rising values, coded as differences. */
export function rising<T extends Numbers>(column: Uint8Array, out: T): T {
  let before = 0;
  return decode(column, out, (value) => (before += value));
}

/** Values coded as zigzag differences. */
export function wandering<T extends Numbers>(column: Uint8Array, out: T): T {
  let before = 0;
  return decode(column, out, (value) => (before += value % 2 === 0 ? value / 2 : -(value + 1) / 2));
}

/** Zigzag numbers. */
export function signed<T extends Numbers>(column: Uint8Array, out: T): T {
  return decode(column, out, (value) => (value % 2 === 0 ? value / 2 : -(value + 1) / 2));
}

export const plainAll = (column: Uint8Array): Float64Array => plain(column, new Float64Array(count(column)));
