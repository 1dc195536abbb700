// Recordings: the files in the folder of the server, their peaks and findings, and their reports as pages.
import { useState } from "preact/hooks";
import { bytes, count } from "../format";
import { t } from "../texts";
import type { Recording, RecordingPage } from "./api";
import type { Board } from "./board";
import { momentText } from "./clock";
import { usePolled } from "./poll";

const PAUSE_MS = 10_000;
const READING_PAUSE_MS = 1_000;
const SHOWN_FINDINGS = 3;

export function RecordingsView({ board }: { board: Board }) {
  const isReading = (all: { recordings: Recording[] } | null) => all?.recordings.some(({ state }) => state === "reading");
  const { document, trouble } = usePolled<{ recordings: Recording[] }>(board, "api/v1/recordings", (last) => (isReading(last) ? READING_PAUSE_MS : PAUSE_MS));
  if (trouble) return <section class="empty">{trouble}</section>;
  if (!document) return <section class="empty">{t("reading …")}</section>;
  return (
    <section class="overview recordings-view" aria-label={t("Recordings")}>
      {document.recordings.length === 0 && <p class="all-well">{t("The folder has no recording yet.")}</p>}
      <ul class="recordings">
        {document.recordings.map((recording) => (
          <RecordingRow key={`${recording.name} ${recording.modified_unix_ns}`} board={board} recording={recording} />
        ))}
      </ul>
    </section>
  );
}

function RecordingRow({ board, recording }: { board: Board; recording: Recording }) {
  const { summary } = recording;
  return (
    <li class="recording" data-recording={recording.name}>
      <div class="recording-head">
        <bdi class="name">{recording.name.slice(0, 200)}</bdi>
        <span class="calm">
          {bytes(recording.size_bytes)} · {momentText(recording.modified_unix_ns / 1e9)}
        </span>
        <OpenButton board={board} name={recording.name} />
      </div>
      {recording.state === "reading" && <p class="calm">{t("reading …")}</p>}
      {recording.state === "unread" && <p class="calm">{t("too large to be read unasked")}</p>}
      {recording.error && (
        <p class="trouble">
          <bdi>{recording.error}</bdi>
        </p>
      )}
      {summary && (
        <>
          <p class="recording-figures">
            <span>
              {t("peak requested")} <b data-bytes={summary.peak_requested_bytes}>{bytes(summary.peak_requested_bytes)}</b>
            </span>
            <span>
              {t("peak reserved")} <b>{bytes(summary.peak_reserved_bytes)}</b>
            </span>
            <span>{t("{0} events", count(summary.events))}</span>
            {summary.oom_count > 0 && <b class="trouble">{t("out of memory: {0}", summary.oom_count)}</b>}
          </p>
          <ul class="recording-findings">
            {summary.findings.slice(0, SHOWN_FINDINGS).map((finding, index) => (
              <li key={index} class={`is-${finding.kind}`}>
                <b>{bytes(finding.bytes)}</b> <bdi>{finding.title.slice(0, 400)}</bdi>
              </li>
            ))}
            {summary.findings.length > SHOWN_FINDINGS && <li class="calm">{t("{0} more", summary.findings.length - SHOWN_FINDINGS)}</li>}
          </ul>
        </>
      )}
    </li>
  );
}

const AGAIN_MS = 500;

/** The server makes the page, which may take minutes for a large recording; then the browser goes there. */
function OpenButton({ board, name }: { board: Board; name: string }) {
  const [state, setState] = useState<"idle" | "preparing">("idle");
  const [trouble, setTrouble] = useState("");
  const open = async () => {
    setState("preparing");
    setTrouble("");
    try {
      for (;;) {
        const page = await board.api.get<RecordingPage>("api/v1/recordings/page", { name });
        if (page.state === "failed") throw new Error(page.error ?? "");
        if (page.state === "ready" && page.path) {
          location.assign(board.api.address(page.path.replace(/^\//, "")));
          break;
        }
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    } catch (error) {
      setTrouble(error instanceof Error ? error.message : String(error));
    }
    setState("idle");
  };
  return (
    <>
      <button type="button" class="action" disabled={state === "preparing"} onClick={open}>
        {state === "preparing" ? t("preparing the report …") : t("open the report")}
      </button>
      {trouble && (
        <span class="trouble" role="alert">
          {trouble}
        </span>
      )}
    </>
  );
}
