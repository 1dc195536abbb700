// The dashboard of vram serve: devices, processes, history and alerts of a machine, from the server's API.
import { render } from "preact";
import { Api } from "./dashboard/api";
import { Board } from "./dashboard/board";
import { attachKeys } from "./dashboard/keys";
import { Live } from "./dashboard/live";
import { Shell } from "./dashboard/shell";
import { fromLink, newStore, toLink } from "./dashboard/state";
import "./style.css";
import "./dashboard/dashboard.css";
import { setLanguage } from "./texts";

function start(): void {
  if (navigator.language.startsWith("zh")) {
    setLanguage("zh");
    document.documentElement.lang = "zh";
  }
  const root = document.getElementById("app") as HTMLElement;
  const store = newStore();
  const api = new Api(location.pathname);
  const live = new Live(api, store);
  const board = new Board(api, store, live);
  store.set(fromLink(location.hash));
  // The address names the state, so that it can be copied; the browser's history stays as it is.
  store.subscribe(() => {
    const link = toLink(store.get());
    if (link !== location.hash) history.replaceState(null, "", link);
    const { host } = store.get().status ?? {};
    document.title = host ? `${host} · vram` : "vram";
  });
  addEventListener("hashchange", () => {
    if (location.hash !== toLink(store.get())) store.set(fromLink(location.hash));
  });
  attachKeys(board);
  root.replaceChildren();
  render(<Shell board={board} />, root);
  live.start();
}

start();
