// The keyboard: the same keys in every view. The list is shown by "?".
import { t } from "../texts";
import { zoomed } from "../ui/pointer";
import type { App } from "./app";

interface Key {
  keys: string[];
  shown: string;
  about: string;
  act(app: App): void;
}

function pan(app: App, share: number): void {
  const axis = app.axis();
  const [from, to] = app.store.get().window ?? [axis.begin, axis.end];
  app.setWindow([from + share * (to - from), to + share * (to - from)]);
}

function zoom(app: App, factor: number): void {
  const axis = app.axis();
  const window = app.store.get().window ?? [axis.begin, axis.end];
  const chosen = axis.of(app.store.get().position);
  const at = chosen >= window[0] && chosen <= window[1] ? chosen : (window[0] + window[1]) / 2;
  app.setWindow(zoomed(window, at, factor));
}

export const KEYS: Key[] = [
  { keys: ["w", "+", "="], shown: "W +", about: t("zoom in"), act: (app) => zoom(app, 0.7) },
  { keys: ["s", "-"], shown: "S −", about: t("zoom out"), act: (app) => zoom(app, 1 / 0.7) },
  { keys: ["a"], shown: "A", about: t("move left"), act: (app) => pan(app, -0.15) },
  { keys: ["d"], shown: "D", about: t("move right"), act: (app) => pan(app, 0.15) },
  { keys: ["ArrowLeft"], shown: "←", about: t("previous event"), act: (app) => app.choose(app.store.get().position - 1) },
  { keys: ["ArrowRight"], shown: "→", about: t("next event"), act: (app) => app.choose(app.store.get().position + 1) },
  { keys: ["["], shown: "[", about: t("peak of the previous step"), act: (app) => app.moveBySteps(-1) },
  { keys: ["]"], shown: "]", about: t("peak of the next step"), act: (app) => app.moveBySteps(1) },
  { keys: ["p"], shown: "P", about: t("the peak"), act: (app) => app.choose(app.model.peak) },
  { keys: ["z"], shown: "Z", about: t("zoom to the step"), act: (app) => app.zoomToStep(app.store.get().position) },
  { keys: ["0"], shown: "0", about: t("the whole recording"), act: (app) => app.setWindow(null) },
  {
    keys: ["e"],
    shown: "E",
    about: t("axis: time or events"),
    act: (app) => app.store.set({ axis: app.store.get().axis === "time" ? "event" : "time", window: null }),
  },
  { keys: ["Escape"], shown: "Esc", about: t("clear the selection"), act: (app) => app.store.set({ range: null, highlight: null, block: null, help: false }) },
  { keys: ["?"], shown: "?", about: t("this list"), act: (app) => app.store.set({ help: !app.store.get().help }) },
];

export function attachKeys(app: App, views: string[]): void {
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
    const view = Number(event.key) - 1;
    if (view >= 0 && view < views.length) {
      app.store.set({ view: views[view] });
      event.preventDefault();
      return;
    }
    const key = KEYS.find(({ keys }) => keys.includes(event.key.length === 1 ? event.key.toLowerCase() : event.key));
    if (!key) return;
    key.act(app);
    event.preventDefault();
  });
}
