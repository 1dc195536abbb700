// The keys of the dashboard.
import { t } from "../texts";
import type { Board } from "./board";
import { VIEW_IDS } from "./state";

interface Key {
  shown: string;
  about: string; // t() translates it when it is shown
  keys: string[];
  act(board: Board): void;
}

const STEP = 0.25;
const ZOOM = 1.5;

export const KEYS: Key[] = [
  { shown: "1 – 5", about: t("views"), keys: [], act: () => undefined },
  { shown: "/", about: t("search processes"), keys: ["/"], act: search },
  { shown: "← →", about: t("move the history"), keys: ["ArrowLeft"], act: (board) => ifHistory(board, () => board.move(-STEP)) },
  { shown: "+ −", about: t("zoom the history"), keys: ["+", "="], act: (board) => ifHistory(board, () => board.zoom(1 / ZOOM)) },
  { shown: "Home", about: t("the last hour"), keys: ["Home"], act: (board) => ifHistory(board, () => board.setSpan({ last: 3600 })) },
  { shown: "Space", about: t("pause or continue"), keys: [" "], act: (board) => board.pause() },
  { shown: "Esc", about: t("clear the selection"), keys: ["Escape"], act: (board) => board.store.set({ selection: null, device: null, query: "", help: false, notice: null }) },
  { shown: "?", about: t("this list"), keys: ["?"], act: (board) => board.store.set({ help: !board.store.get().help }) },
];
const MORE: Pick<Key, "keys" | "act">[] = [
  { keys: ["ArrowRight"], act: (board) => ifHistory(board, () => board.move(STEP)) },
  { keys: ["-", "_"], act: (board) => ifHistory(board, () => board.zoom(ZOOM)) },
];

function ifHistory(board: Board, act: () => void): void {
  if (board.store.get().view === "history") act();
}

function search(board: Board): void {
  board.store.set({ view: "devices" });
  setTimeout(() => document.getElementById("search")?.focus(), 0);
}

export function attachKeys(board: Board): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    const isTyping = target.matches("input, select, textarea");
    if (isTyping && event.key !== "Escape") return;
    // A button and a link have their own use for it.
    if (event.key === " " && target.matches("button, a, summary")) return;
    const view = VIEW_IDS[Number(event.key) - 1];
    if (view) {
      board.store.set({ view });
      return;
    }
    const found = [...KEYS, ...MORE].find(({ keys }) => keys.includes(event.key));
    if (!found) return;
    event.preventDefault();
    found.act(board);
  });
}
