// Encodes data as src/pages/ does, for tests.

export function varints(values: number[]): Uint8Array {
  const bytes: number[] = [];
  for (let value of values) {
    while (value >= 128) {
      bytes.push((value % 128) | 128);
      value = Math.floor(value / 128);
    }
    bytes.push(value);
  }
  return Uint8Array.from(bytes);
}

export const zigzag = (value: number): number => (value < 0 ? -value * 2 - 1 : value * 2);

export function differences(values: number[]): number[] {
  return values.map((value, i) => (i === 0 ? value : value - values[i - 1]));
}

export function columnsOf(columns: number[][]): Uint8Array {
  const parts = columns.flatMap((column) => {
    const coded = varints(column);
    return [varints([coded.length]), coded];
  });
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
