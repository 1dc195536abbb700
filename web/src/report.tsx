// The HTML report of one recording.
import { render } from "preact";
import { App } from "./app/app";
import { attachKeys } from "./app/keys";
import { fromLink, toLink } from "./app/link";
import { EmbeddedBlocks } from "./data/blocks";
import { Recording } from "./data/model";
import "./style.css";
import { Shell, VIEWS } from "./views/shell";

async function start(): Promise<void> {
  const root = document.getElementById("app") as HTMLElement;
  try {
    const recording = await Recording.open(new EmbeddedBlocks());
    const app = new App(recording, await recording.device(recording.head.main_device));
    document.title = `${recording.head.title} · vram`;
    app.store.set(fromLink(app, location.hash));
    keepLink(app);
    attachKeys(
      app,
      VIEWS.map(({ id }) => id),
    );
    root.replaceChildren();
    render(<Shell app={app} />, root);
    document.documentElement.dataset.first = String(Math.round(performance.now()));
    // The picture is on the screen before the rest is read.
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
    await recording.loadDetail(app.model);
    app.store.set({ loaded: app.store.get().loaded + 1 });
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  } catch (error) {
    root.textContent = `This report cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
    throw error;
  }
}

/** The address names the state, so that it can be copied; the browser's history stays as it is. */
function keepLink(app: App): void {
  let timer = 0;
  app.store.subscribe(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const link = toLink(app);
      if (link !== location.hash) history.replaceState(null, "", link);
    }, 120);
  });
  addEventListener("hashchange", () => {
    if (location.hash !== toLink(app)) app.store.set(fromLink(app, location.hash));
  });
}

void start();
