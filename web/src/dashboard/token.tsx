// The token that the server wants. It is kept for this tab alone, sent in the header of each request, and never part of an address.
import { useState } from "preact/hooks";
import { t } from "../texts";
import type { Board } from "./board";

export function TokenForm({ board }: { board: Board }) {
  const { trouble } = board.store.get();
  const [text, setText] = useState("");
  const send = (event: Event) => {
    event.preventDefault();
    if (text.trim() === "") return;
    board.api.setToken(text.trim());
    setText("");
    board.store.set({ link: "connecting" });
    board.live.now();
  };
  return (
    <section class="empty">
      <form class="token" onSubmit={send}>
        <h2>{t("Token")}</h2>
        <p>{t("This server requires a token: the line in the file that its option --token-file names.")}</p>
        {trouble && (
          <p class="trouble" role="alert">
            {trouble}
          </p>
        )}
        <label>
          {t("Token")}{" "}
          <input type="password" autocomplete="off" spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <button type="submit">{t("Continue")}</button>
        <p class="calm">{t("The page keeps it until this tab is closed.")}</p>
      </form>
    </section>
  );
}
