// The axis of a clock: round local times, and durations and moments as text.
import { t } from "../texts";

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
const DAY_S = 86_400;

/** A round step such that about `wanted` fit into the span. */
export function clockStep(span: number, wanted: number): number {
  const raw = span / Math.max(1, wanted);
  const found = STEPS_S.find((step) => step >= raw);
  return found ?? Math.ceil(raw / DAY_S) * DAY_S;
}

/** Multiples of the step by the local clock, in [from, to]. */
export function clockTicks(from: number, to: number, step: number): number[] {
  const offset = new Date(from * 1000).getTimezoneOffset() * 60;
  const found: number[] = [];
  for (let i = Math.ceil((from - offset) / step); i * step + offset <= to; ++i) found.push(i * step + offset);
  return found;
}

const two = (value: number): string => String(value).padStart(2, "0");

export function dayText(time: number): string {
  const date = new Date(time * 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

export function timeText(time: number, hasSeconds: boolean): string {
  const date = new Date(time * 1000);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return hasSeconds ? `${text}:${two(date.getSeconds())}` : text;
}

/** Of a tick: the day at midnight, else the time. */
export function tickText(time: number, step: number): string {
  const date = new Date(time * 1000);
  const isMidnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
  return step >= DAY_S || (isMidnight && step >= 60) ? dayText(time).slice(5) : timeText(time, step < 60);
}

export const momentText = (time: number): string => `${dayText(time)} ${timeText(time, true)}`;

/** "3 min", "2 h 5 min". */
export function spanText(seconds: number): string {
  if (seconds < 60) return t("{0} s", Math.max(0, Math.round(seconds)));
  if (seconds < 3600) return t("{0} min", Math.round(seconds / 60));
  if (seconds < 2 * DAY_S) {
    const minutes = Math.round(seconds / 60);
    return minutes % 60 === 0 ? t("{0} h", minutes / 60) : t("{0} h {1} min", Math.floor(minutes / 60), minutes % 60);
  }
  return t("{0} days", Math.round(seconds / DAY_S));
}

/** How long ago. */
export const agoText = (seconds: number): string => (seconds < 1 ? t("now") : t("{0} ago", spanText(seconds)));
