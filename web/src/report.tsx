// The HTML report of one recording, or of several that are compared.
import { render } from "preact";
import { App } from "./app/app";
import { attachKeys } from "./app/keys";
import { fromLink, placeOf, toLink } from "./app/link";
import { json, pageBlocks } from "./data/blocks";
import { printInLightColours } from "./app/paper";
import { Recording } from "./data/model";
import type { Head } from "./data/page";
import "./style.css";
import { setLanguage } from "./texts";
import { Shell, viewsOf } from "./views/shell";

async function start(): Promise<void> {
  if (navigator.language.startsWith("zh")) {
    setLanguage("zh");
    document.documentElement.lang = "zh";
  }
  const root = document.getElementById("app") as HTMLElement;
  try {
    const source = pageBlocks();
    const head = await json<Head>(source, "head");
    const recordings = await Promise.all(head.recordings.map((each, index) => Recording.open(source, index, each)));
    const main = recordings[recordings.length - 1];
    const app = new App(head, source, recordings, await main.device(main.head.main_device));
    document.title = `${head.title} · vram`;
    const place = placeOf(app, location.hash);
    if (place) await app.goTo(place.recording, place.device);
    app.store.set(fromLink(app, location.hash));
    keepLink(app);
    attachKeys(
      app,
      viewsOf(app).map(({ id }) => id),
    );
    printInLightColours();
    root.replaceChildren();
    render(<Shell app={app} />, root);
    document.documentElement.dataset.first = String(Math.round(performance.now()));
    // The picture is on the screen before the rest is read.
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
    await app.loadDetail();
    app.keepLoaded();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  } catch (error) {
    root.textContent = `This report cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
    throw error;
  }
}

/** Browsers refuse it in sandboxed frames and after many changes in a short time: the page then works without it. */
function replaceAddress(link: string): void {
  try {
    history.replaceState(null, "", link);
  } catch {
    // The next change tries again.
  }
}

/** The address names the state, so that it can be copied; the browser's history stays as it is. */
function keepLink(app: App): void {
  let timer = 0;
  app.store.subscribe(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const link = toLink(app);
      if (link !== location.hash) replaceAddress(link);
    }, 120);
  });
  addEventListener("hashchange", async ({ newURL }) => {
    // The address may have been written again since then.
    const { hash } = new URL(newURL);
    if (hash === toLink(app)) return;
    const place = placeOf(app, hash);
    if (place) await app.switchTo(place.recording, place.device);
    app.store.set(fromLink(app, hash));
  });
}

void start();
