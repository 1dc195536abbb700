// A document of the server that a view reads while it is shown: at once, and again after each pause.
import { useEffect, useState } from "preact/hooks";
import { useStore } from "../app/store";
import type { Board } from "./board";

export interface Polled<T> {
  document: T | null; // null: not read yet
  trouble: string;
  again(): void;
}

/** `pauseMs` may depend on what was read last. With a body, which stays the same, it is posted. */
export function usePolled<T>(board: Board, path: string, pauseMs: (last: T | null) => number, body?: object): Polled<T> {
  const { link, isPaused } = useStore(board.store);
  const [document, setDocument] = useState<T | null>(null);
  const [trouble, setTrouble] = useState("");
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (link === "wants-token") return;
    let isOver = false;
    let timer = 0;
    const read = async () => {
      let last = document;
      try {
        last = await (body ? board.api.post<T>(path, body) : board.api.get<T>(path));
        if (isOver) return;
        setDocument(last);
        setTrouble("");
      } catch (error) {
        if (!isOver) setTrouble(error instanceof Error ? error.message : String(error));
      }
      if (!isOver && !isPaused) timer = setTimeout(() => void read(), pauseMs(last));
    };
    void read();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [board, path, link, isPaused, round]);
  return { document, trouble, again: () => setRound((n) => n + 1) };
}
