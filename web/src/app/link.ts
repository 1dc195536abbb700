// Links that restore a state: "#view=timeline&t=event:1234&by=scope&axis=event&from=…&to=…". The page writes its state there, and
// reads what it is opened with; unknown or impossible values are left out.
import type { App } from "./app";
import type { State } from "./store";

export function toLink(app: App): string {
  const state = app.store.get();
  const parts = new URLSearchParams();
  if (state.view) parts.set("view", state.view);
  if (app.recordings.length > 1) parts.set("recording", String(state.recording));
  if (app.recording.head.devices.length > 1) parts.set("device", String(state.device));
  parts.set("t", `event:${state.position - 1}`);
  if (state.dimension !== app.defaultDimension) parts.set("by", app.model.head.dimensions[state.dimension].id);
  if (state.axis === "event") parts.set("axis", "event");
  if (state.window) {
    parts.set("from", String(Math.round(state.window[0])));
    parts.set("to", String(Math.round(state.window[1])));
  }
  if (state.range) parts.set("range", `${state.range[0] - 1}-${state.range[1] - 1}`);
  if (state.highlight !== null) parts.set("group", String(state.highlight));
  if (state.map === "time") parts.set("map", "time");
  if (state.block !== null) parts.set("block", String(state.block));
  if (state.query) parts.set("q", state.query);
  return `#${parts.toString().replaceAll("%3A", ":")}`;
}

/** The recording and the device that a link names, if the page has them. */
export function placeOf(app: App, hash: string): { recording: number; device: number } | null {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const { recording: now } = app.store.get();
  const recording = Number(parts.get("recording") ?? now);
  const devices = app.recordings[recording]?.head.devices;
  if (!devices) return null;
  const device = Number(parts.get("device") ?? app.recordings[recording].head.main_device);
  return devices[device] ? { recording, device } : null;
}

/** The parts of a state that a link names, besides these. */
export function fromLink(app: App, hash: string): Partial<State> {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  // What a link does not name is as it is at first, except for the view and the moment.
  const state: Partial<State> = { window: null, range: null, highlight: null, block: null, axis: "time", map: "moment", dimension: app.defaultDimension };
  const number = (name: string) => {
    const text = parts.get(name);
    return text !== null && /^-?\d+$/.test(text) ? Number(text) : null;
  };
  const view = parts.get("view");
  if (view) state.view = view;
  const position = positionOf(app, parts.get("t"));
  if (position !== null) state.position = position;
  const by = app.model.head.dimensions.findIndex(({ id }) => id === parts.get("by"));
  if (by >= 0) state.dimension = by;
  if (parts.get("axis") === "event") state.axis = "event";
  const [from, to] = [number("from"), number("to")];
  if (from !== null && to !== null && from < to) state.window = [from, to];
  const range = /^(-?\d+)-(\d+)$/.exec(parts.get("range") ?? "");
  if (range) state.range = [Number(range[1]) + 1, Number(range[2]) + 1];
  const group = number("group");
  if (group !== null && group >= 0 && group < app.groups(state.dimension ?? 0).length) state.highlight = group;
  if (parts.get("map") === "time") state.map = "time";
  const block = number("block");
  if (block !== null && block >= 0 && block < app.model.head.lifetimes) state.block = block;
  state.query = parts.get("q") ?? "";
  return state;
}

/** "event:1234", "peak", "step:12", "1.5s", as --at of the command line. */
function positionOf(app: App, text: string | null): number | null {
  if (!text) return null;
  const limited = (position: number) => Math.max(0, Math.min(app.model.positions - 1, position));
  const event = /^event:(-?\d+)$/.exec(text);
  if (event) return limited(Number(event[1]) + 1);
  if (text === "peak") return limited(app.model.peak);
  const step = /^step:(\d+)$/.exec(text);
  if (step && app.model.steps[Number(step[1])]) return limited(app.model.steps[Number(step[1])].peak_event + 1);
  const time = /^(\d+(?:\.\d+)?)(ms|s)$/.exec(text);
  return time ? app.model.axis("time").atTime(Number(time[1]) * (time[2] === "s" ? 1e9 : 1e6)) : null;
}
