// What the dashboard knows and shows: the last documents of the server, and the reader's choices, which the address restores.
import { Store } from "../app/store";
import type { Alert, Health, History, Rule, Silence, Status } from "./api";

export type ViewId = "devices" | "history" | "allocators" | "alerts" | "recordings";
export const VIEW_IDS: ViewId[] = ["devices", "history", "allocators", "alerts", "recordings"];

/** A time of the history, in seconds since 1970; or the last so many seconds, which moves with the clock. */
export type Span = { last: number } | { from: number; to: number };

export type Column = "device" | "pid" | "user" | "command" | "memory" | "busy";

/** How the connection to the server is. */
export type Link = "connecting" | "ok" | "lost" | "wants-token";

export interface DashboardState {
  link: Link;
  trouble: string; // why it is lost
  status: Status | null;
  health: Health | null;
  alerts: Alert[];
  silences: Silence[];
  rules: Rule[];
  notice: { text: string; isTrouble: boolean } | null; // what came of a change
  recent: Map<number, Recent>; // by the device's index

  view: ViewId;
  device: number | null; // the one whose processes are shown; null: all
  query: string; // of the processes
  sort: { by: Column; isDescending: boolean };
  metric: string;
  span: Span;
  selection: { from: number; to: number } | null; // within the span
  segments: number | null; // the pid of the process whose segments are shown
  hidden: Set<string>; // keys of devices that the history leaves out
  isPaused: boolean;
  help: boolean;
}

/** Used memory of the last minutes, in the order of time. */
export interface Recent {
  times: number[]; // seconds since 1970
  used: number[];
}

export const RECENT_S = 300;

export function initialState(): DashboardState {
  return {
    link: "connecting",
    trouble: "",
    status: null,
    health: null,
    alerts: [],
    silences: [],
    rules: [],
    notice: null,
    recent: new Map(),
    view: "devices",
    device: null,
    query: "",
    sort: { by: "memory", isDescending: true },
    metric: "used_bytes",
    span: { last: 3600 },
    selection: null,
    segments: null,
    hidden: new Set(),
    isPaused: false,
    help: false,
  };
}

/** The figures of a new sample after those of the ones before. */
export function withSample(recent: Map<number, Recent>, status: Status): Map<number, Recent> {
  const time = (status.time_unix_ns ?? 0) / 1e9;
  const next = new Map<number, Recent>();
  for (const device of status.devices) {
    const before = recent.get(device.index) ?? { times: [], used: [] };
    const used = device.memory?.used_bytes;
    const isNew = used !== null && used !== undefined && time > (before.times.at(-1) ?? 0);
    const times = isNew ? [...before.times, time] : before.times;
    const values = isNew ? [...before.used, used] : before.used;
    const first = times.findIndex((at) => at >= time - RECENT_S);
    next.set(device.index, { times: times.slice(Math.max(first, 0)), used: values.slice(Math.max(first, 0)) });
  }
  return next;
}

/** The same, after what the history has from before them. */
export function withPast(recent: Map<number, Recent>, past: History): Map<number, Recent> {
  const next = new Map(recent);
  for (const { device, points } of past.series) {
    const known = recent.get(device.index);
    if (!known) continue;
    const older = points.filter((point) => point.time_unix_ns / 1e9 < (known.times[0] ?? Infinity) - 1);
    next.set(device.index, {
      times: [...older.map((point) => point.time_unix_ns / 1e9), ...known.times],
      used: [...older.map((point) => point.average), ...known.used],
    });
  }
  return next;
}

/** The span in seconds since 1970. */
export function boundsOf(span: Span, now: number): [number, number] {
  return "last" in span ? [now - span.last, now] : [span.from, span.to];
}

const isView = (text: string | null): text is ViewId => VIEW_IDS.some((id) => id === text);

export function toLink(state: DashboardState): string {
  const words = new URLSearchParams({ view: state.view });
  if (state.device !== null) words.set("gpu", String(state.device));
  if (state.view === "allocators" && state.segments !== null) words.set("segments", String(state.segments));
  if (state.view === "history") {
    words.set("metric", state.metric);
    if ("last" in state.span) words.set("last", String(state.span.last));
    else {
      words.set("from", state.span.from.toFixed(3));
      words.set("to", state.span.to.toFixed(3));
    }
  }
  return `#${words}`;
}

const LONGEST_S = 366 * 86_400;

/** The choices that a link states; what it states wrongly is left as it is. */
export function fromLink(hash: string): Partial<DashboardState> {
  const words = new URLSearchParams(hash.slice(1));
  const number = (name: string) => (words.get(name)?.match(/^\d+(\.\d+)?$/) ? Number(words.get(name)) : null);
  const found: Partial<DashboardState> = {};
  const view = words.get("view");
  if (isView(view)) found.view = view;
  const gpu = number("gpu");
  if (gpu !== null) found.device = gpu;
  const segments = number("segments");
  if (segments !== null) found.segments = segments;
  const metric = words.get("metric");
  if (metric?.match(/^[a-z_]{1,60}$/)) found.metric = metric;
  const [last, from, to] = [number("last"), number("from"), number("to")];
  if (last !== null && last >= 1 && last <= LONGEST_S) found.span = { last };
  else if (from !== null && to !== null && to - from >= 1 && to - from <= LONGEST_S) found.span = { from, to };
  return found;
}

export type DashboardStore = Store<DashboardState>;
export const newStore = (): DashboardStore => new Store(initialState());
