// Silences: a form that silences an alert or all of its rule, and the list of those that apply now.
import { useState } from "preact/hooks";
import { t } from "../texts";
import type { Alert, Silence } from "./api";
import type { Board } from "./board";
import { momentText } from "./clock";

const DURATIONS: [string, string][] = [
  ["30min", t("30 min")],
  ["2h", t("2 h")],
  ["24h", t("24 h")],
  ["168h", t("7 days")],
];
const LONGEST_COMMENT = 120; // characters: fewer bytes than the server accepts

export function SilenceForm({ board, alert, close }: { board: Board; alert: Alert; close: () => void }) {
  const [duration, setDuration] = useState("2h");
  const [comment, setComment] = useState("");
  const [isRule, setRule] = useState(false);
  const send = async (event: Event) => {
    event.preventDefault();
    const what = isRule ? { rule: alert.rule } : { alert: alert.id };
    await board.change<{ silence: Silence }>("api/v1/silences", { ...what, duration, comment }, ({ silence }) =>
      t("Silenced until {0}.", momentText(silence.until_unix_ns / 1e9)),
    );
    if (!board.store.get().notice?.isTrouble) close();
  };
  return (
    <form class="silence-form" onSubmit={send}>
      <label>
        {t("for")}{" "}
        <select value={duration} onChange={(event) => setDuration(event.currentTarget.value)}>
          {DURATIONS.map(([id, name]) => (
            <option key={id} value={id}>
              {t(name)}
            </option>
          ))}
        </select>
      </label>
      <label class="silence-comment">
        {t("comment")}{" "}
        <input type="text" maxLength={LONGEST_COMMENT} value={comment} onInput={(event) => setComment(event.currentTarget.value)} />
      </label>
      <label>
        <input type="checkbox" checked={isRule} onChange={(event) => setRule(event.currentTarget.checked)} /> {t("all alerts of this rule")}
      </label>
      <button type="submit" class="action is-main">
        {t("silence")}
      </button>
      <button type="button" class="action" onClick={close}>
        {t("cancel")}
      </button>
    </form>
  );
}

export function SilenceList({ board, silences }: { board: Board; silences: Silence[] }) {
  if (silences.length === 0) return null;
  return (
    <>
      <h2>{t("Silences")}</h2>
      <ul class="silences">
        {silences.map((silence) => (
          <li key={silence.number} data-silence={silence.number}>
            <bdi class="name">{silence.rule || silence.alert}</bdi>
            <span>{t("until {0}", momentText(silence.until_unix_ns / 1e9))}</span>
            <bdi class="calm">{silence.comment}</bdi>
            <button type="button" class="action" onClick={() => board.change("api/v1/silences/end", { number: silence.number }, () => t("The silence has ended."))}>
              {t("end")}
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
