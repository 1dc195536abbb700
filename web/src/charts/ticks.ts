// Round values along an axis.

/** Steps of 1, 2 or 5 times a power of `base`-friendly numbers, so that about `wanted` fit. */
export function niceStep(span: number, wanted: number): number {
  const raw = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const part = raw / power;
  return (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
}

/** Powers of two of bytes: 256 MiB, 512 MiB, 1 GiB. */
export function byteStep(span: number, wanted: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, span / Math.max(1, wanted))));
}

export function ticks(from: number, to: number, step: number): number[] {
  const found: number[] = [];
  for (let i = Math.ceil(from / step); i * step <= to; ++i) found.push(i * step);
  return found;
}
