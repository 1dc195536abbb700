// The frame around all views: title, device and view at the top, the whole recording as a strip, and the figures of the chosen moment at
// the bottom.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { App } from "../app/app";
import { KEYS } from "../app/keys";
import { useStore } from "../app/store";
import { bytes, count } from "../format";
import { currentLanguage, setLanguage, t } from "../texts";
import { CompareView } from "./compare";
import { FlameView } from "./flame";
import { MapView } from "./map";
import { Overview } from "./overview";
import { PlanView } from "./plan";
import { ReplaysView } from "./replays";
import { Strip } from "./strip";
import { TableView } from "./table";
import { momentTitle, TimelineView } from "./timeline";

interface View {
  id: string;
  name: string;
  show(app: App): ComponentChildren;
}

// Names are translated when they are shown: here t() only marks them.
const VIEWS: View[] = [
  { id: "overview", name: t("Overview"), show: (app) => <Overview app={app} /> },
  { id: "timeline", name: t("Timeline"), show: (app) => <TimelineView app={app} /> },
  { id: "map", name: t("Memory map"), show: (app) => <MapView app={app} /> },
  { id: "flame", name: t("Flame graph"), show: (app) => <FlameView app={app} /> },
  { id: "table", name: t("Allocations"), show: (app) => <TableView app={app} /> },
  { id: "replays", name: t("What if"), show: (app) => <ReplaysView app={app} /> },
];
const COMPARE: View = { id: "compare", name: t("Compare"), show: (app) => <CompareView app={app} /> };

const PLAN: View = { id: "plan", name: t("Plan"), show: (app) => <PlanView app={app} /> };

/** The views that a page has; what compares recordings comes first. */
export function viewsOf(app: App): View[] {
  const views = app.recordings.length > 1 ? [COMPARE, ...VIEWS] : VIEWS;
  return app.head.documents.includes("plan") ? [...views, PLAN] : views;
}

export function Shell({ app }: { app: App }) {
  const state = useStore(app.store);
  const [, again] = useState(0);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const listener = () => again((n) => n + 1);
    query.addEventListener("change", listener);
    addEventListener("beforeprint", listener);
    addEventListener("afterprint", listener);
    return () => {
      query.removeEventListener("change", listener);
      removeEventListener("beforeprint", listener);
      removeEventListener("afterprint", listener);
    };
  }, []);
  const views = viewsOf(app);
  const view = views.find(({ id }) => id === state.view) ?? views[0];
  // On a narrow screen, the names of the views scroll.
  useEffect(() => document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [view.id]);
  return (
    <>
      <header>
        <h1>
          <span class="brand">vram</span>
          <bdi class="title">{app.head.title}</bdi>
          <Places app={app} />
        </h1>
        <nav aria-label={t("Views")}>
          {views.map(({ id, name }, index) => (
            <button
              key={id}
              type="button"
              aria-current={id === view.id ? "page" : undefined}
              title={t("key {0}", index + 1)}
              onClick={() => app.store.set({ view: id })}
            >
              {t(name)}
            </button>
          ))}
        </nav>
        <Settings app={app} redraw={() => again((n) => n + 1)} />
      </header>
      <Strip app={app} />
      <main>{view.show(app)}</main>
      <MomentLine app={app} />
      {state.help && <Help app={app} />}
    </>
  );
}

/** The recording and the device that the views show, if there are several. */
function Places({ app }: { app: App }) {
  const { recording } = app.store.get();
  const devices = app.recording.head.devices;
  const { recordings } = app.head;
  return (
    <>
      {recordings.length > 1 && (
        <select class="device" aria-label={t("Recording")} value={recording} onChange={(event) => void app.switchTo(Number(event.currentTarget.value))}>
          {recordings.map(({ title }, index) => (
            <option key={index} value={index}>
              {title.slice(0, 60)}
            </option>
          ))}
        </select>
      )}
      {devices.length < 2 ? (
        <span class="device">{devices[0].name}</span>
      ) : (
        <select
          class="device"
          aria-label={t("Device")}
          value={app.model.index}
          onChange={(event) => void app.switchTo(recording, Number(event.currentTarget.value))}
        >
          {devices.map((device, index) => (
            <option key={index} value={index}>
              {device.name}
            </option>
          ))}
        </select>
      )}
    </>
  );
}

function Settings({ app, redraw }: { app: App; redraw: () => void }) {
  const state = useStore(app.store);
  const root = document.documentElement;
  const turnTheme = () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    redraw();
  };
  const turnLanguage = () => {
    setLanguage(currentLanguage() === "en" ? "zh" : "en");
    root.lang = currentLanguage();
    redraw();
  };
  return (
    <div class="settings">
      {app.model.head.clock === "time" && (
        <button type="button" onClick={() => app.store.set({ axis: state.axis === "time" ? "event" : "time", window: null })}>
          {state.axis === "time" ? t("by time") : t("by event")}
        </button>
      )}
      <button type="button" onClick={turnLanguage}>
        {currentLanguage() === "en" ? "中文" : "English"}
      </button>
      <button type="button" aria-label={t("Light or dark")} onClick={turnTheme}>
        ◐
      </button>
      <button type="button" aria-label={t("Keys")} onClick={() => app.store.set({ help: !state.help })}>
        ?
      </button>
    </div>
  );
}

/** The figures of the chosen moment; "--at event:N" of the command line has the same. */
function MomentLine({ app }: { app: App }) {
  const state = useStore(app.store);
  const totals = app.totals(state.position);
  const step = app.model.stepOf(state.position);
  const scope = app.model.scopeAt(state.position);
  const figures: [string, string, number][] = totals
    ? [
        ["requested", t("requested"), totals.requested],
        ["allocated", t("allocated"), totals.allocated],
        ["active", t("active"), totals.active],
        ["reserved", t("reserved"), totals.reserved],
      ]
    : [];
  return (
    <footer class="moment" aria-live="polite">
      <span class="when">{momentTitle(app, state.position)}</span>
      {step && <span>{t("step {0}", step.index)}</span>}
      {scope && <bdi class="scope">{scope.name}</bdi>}
      {figures.map(([id, name, value]) => (
        <span key={id} class="figure">
          {name}{" "}
          <b data-figure={id} data-bytes={value}>
            {bytes(value)}
          </b>
        </span>
      ))}
      {totals && (
        <span class="figure">
          {t("blocks")} <b>{count(totals.count)}</b>
        </span>
      )}
      {!totals && <span class="loading">{state.problem || t("reading blocks …")}</span>}
    </footer>
  );
}

function Help({ app }: { app: App }) {
  return (
    <div class="help" role="dialog" aria-label={t("Keys")}>
      <button type="button" class="close" aria-label={t("Close")} onClick={() => app.store.set({ help: false })}>
        ×
      </button>
      <h2>{t("Keys")}</h2>
      <dl>
        {KEYS.map(({ shown, about }) => (
          <div key={shown}>
            <dt>
              <kbd>{shown}</kbd>
            </dt>
            <dd>{t(about)}</dd>
          </div>
        ))}
      </dl>
      <p>{t("The wheel zooms, dragging moves, Shift and dragging selects a range, a double click zooms to a step.")}</p>
    </div>
  );
}
