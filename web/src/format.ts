// Figures as text, as the program writes them (src/base/bytes.cpp, src/base/time.hpp).

/** Three significant digits without trailing zeros: 9.77, 97.7, 977, 2. */
function threeDigits(value: number): string {
  const decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  const text = value.toFixed(decimals);
  return decimals > 0 ? text.replace(/\.?0+$/, "") : text;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: number): string {
  const negative = value < 0;
  let number = Math.abs(value);
  let unit = 0;
  while (number >= 1023.5 && unit < UNITS.length - 1) {
    number /= 1024;
    ++unit;
  }
  return `${negative ? "−" : ""}${threeDigits(number)} ${UNITS[unit]}`;
}

export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function percent(share: number): string {
  return `${threeDigits(share * 100)} %`;
}

const TIMES: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

export function duration(ns: number): string {
  if (ns === 0) return "0 s";
  const size = Math.abs(ns);
  const [scale, unit] = TIMES.find(([scale]) => size >= scale) ?? [1, "ns"];
  return `${ns < 0 ? "−" : ""}${threeDigits(size / scale)} ${unit}`;
}

/** A moment, precise enough to tell it from others that are `stepNs` away. */
export function moment(ns: number, stepNs: number): string {
  const decimals = Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(Math.max(stepNs, 1)))));
  return `${(ns / 1e9).toFixed(decimals)} s`;
}

export function address(value: number): string {
  return `0x${value.toString(16)}`;
}
