// The frame around the views: the machine, the views, how fresh the figures are, settings, and the token that the server may want.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useStore } from "../app/store";
import { currentLanguage, setLanguage, t } from "../texts";
import { AlertsView } from "./alerts";
import { AllocatorsView } from "./allocators";
import type { Board } from "./board";
import { agoText, spanText } from "./clock";
import { DevicesView } from "./devices";
import { HistoryView } from "./history";
import { KEYS } from "./keys";
import { RecordingsView } from "./recordings";
import type { ViewId } from "./state";
import { TokenForm } from "./token";

const VIEWS: { id: ViewId; name: string; show(board: Board): ComponentChildren }[] = [
  { id: "devices", name: t("GPUs"), show: (board) => <DevicesView board={board} /> },
  { id: "history", name: t("History"), show: (board) => <HistoryView board={board} /> },
  { id: "allocators", name: t("Allocators"), show: (board) => <AllocatorsView board={board} /> },
  { id: "alerts", name: t("Alerts"), show: (board) => <AlertsView board={board} /> },
  { id: "recordings", name: t("Recordings"), show: (board) => <RecordingsView board={board} /> },
];

export function Shell({ board }: { board: Board }) {
  const state = useStore(board.store);
  const [, again] = useState(0);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const listener = () => again((n) => n + 1);
    query.addEventListener("change", listener);
    return () => query.removeEventListener("change", listener);
  }, []);
  const view = VIEWS.find(({ id }) => id === state.view) ?? VIEWS[0];
  const firing = state.alerts.filter((alert) => alert.state === "firing" && alert.silence === null).length;
  return (
    <>
      <header>
        <h1>
          <span class="brand">vram</span>
          <bdi class="title">{state.status?.host ?? ""}</bdi>
        </h1>
        <nav aria-label={t("Views")}>
          {VIEWS.map(({ id, name }, index) => (
            <button
              key={id}
              type="button"
              aria-current={id === view.id ? "page" : undefined}
              title={t("key {0}", index + 1)}
              onClick={() => board.store.set({ view: id })}
            >
              {t(name)}
              {id === "alerts" && firing > 0 && <span class="badge">{firing}</span>}
            </button>
          ))}
        </nav>
        <Settings board={board} redraw={() => again((n) => n + 1)} />
      </header>
      <main>{state.link === "wants-token" ? <TokenForm board={board} /> : view.show(board)}</main>
      <Foot board={board} />
      {state.help && <Help board={board} />}
      {state.notice && (
        <div class={`notice ${state.notice.isTrouble ? "is-trouble" : ""}`} role={state.notice.isTrouble ? "alert" : "status"}>
          <bdi>{state.notice.text}</bdi>
          <button type="button" aria-label={t("Close")} onClick={() => board.store.set({ notice: null })}>
            ×
          </button>
        </div>
      )}
    </>
  );
}

function Settings({ board, redraw }: { board: Board; redraw: () => void }) {
  const { help } = board.store.get();
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
      {board.api.hasToken && (
        <button
          type="button"
          onClick={() => {
            board.api.setToken(null);
            board.live.now();
          }}
        >
          {t("forget the token")}
        </button>
      )}
      <button type="button" onClick={turnLanguage}>
        {currentLanguage() === "en" ? "中文" : "English"}
      </button>
      <button type="button" aria-label={t("Light or dark")} onClick={turnTheme}>
        ◐
      </button>
      <button type="button" aria-label={t("Keys")} onClick={() => board.store.set({ help: !help })}>
        ?
      </button>
    </div>
  );
}

/** How fresh the figures are, as /healthz says; the age grows while no answer comes. */
function Foot({ board }: { board: Board }) {
  const { link, trouble, health, status, isPaused } = useStore(board.store);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const [received, setReceived] = useState(Date.now());
  useEffect(() => setReceived(Date.now()), [status]);
  const age = (health?.age_ns ?? 0) / 1e9 + Math.max(0, now - received) / 1000;
  const isFresh = link === "ok" && health?.status === "ok";
  const word =
    link === "lost" ? t("no connection") : link === "connecting" ? t("connecting") : isPaused ? t("paused") : isFresh ? t("live") : t("not fresh");
  return (
    <footer class="moment">
      <span role="status" class={`light ${isFresh && !isPaused ? "is-fresh" : "is-old"}`}>
        <span aria-hidden="true">{isFresh && !isPaused ? "●" : "▲"}</span> {word}
      </span>
      {status && <span>{t("sampled {0}", agoText(Math.round(age)))}</span>}
      {health && isFresh && <span>{t("one every {0}", health.period_ns < 1e9 ? `${health.period_ns / 1e6} ms` : spanText(health.period_ns / 1e9))}</span>}
      {(trouble || (health?.why && !isFresh)) && <bdi class="trouble">{trouble || health?.why}</bdi>}
      <button type="button" class="pause" onClick={() => board.pause()}>
        {isPaused ? t("continue") : t("pause")}
      </button>
      {!board.api.hasToken && <a href={board.api.address("api")}>{t("all paths of this server")}</a>}
    </footer>
  );
}

function Help({ board }: { board: Board }) {
  return (
    <div class="help" role="dialog" aria-label={t("Keys")}>
      <button type="button" class="close" aria-label={t("Close")} onClick={() => board.store.set({ help: false })}>
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
      <p>{t("In the history, the wheel zooms, dragging moves, and Shift and dragging selects a range.")}</p>
    </div>
  );
}
