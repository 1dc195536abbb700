// Allocators: the processes that report what their allocators hold, their segments, requests to release cached memory or to record
// themselves, and what came of them.
import { useState } from "preact/hooks";
import { useStore } from "../app/store";
import { theme } from "../charts/palette";
import { bytes, count } from "../format";
import { t } from "../texts";
import type { Free, Holder, Job } from "./api";
import { type Board, programOf } from "./board";
import { agoText } from "./clock";
import { usePolled } from "./poll";
import { SegmentsPanel } from "./segments_panel";

const PAUSE_MS = 3_000;

export function AllocatorsView({ board }: { board: Board }) {
  const free = usePolled<Free>(board, "api/v1/free", () => PAUSE_MS);
  const jobs = usePolled<{ jobs: Job[] }>(board, "api/v1/jobs", (last) => (last?.jobs.some((job) => job.state === "running") ? 1_000 : PAUSE_MS));
  const all = free.document?.processes ?? [];
  const asked = all.filter((holder) => holder.can_be_asked);
  const cached = asked.reduce((sum, holder) => sum + (holder.cached_bytes ?? 0), 0);
  return (
    <section class="overview allocators-view" aria-label={t("Allocators")}>
      {free.trouble && <p class="note">{free.trouble}</p>}
      <div class="table-head">
        <h2>{t("Processes that report their allocator")}</h2>
        {asked.length > 0 && (
          <button type="button" class="action" onClick={() => trim(board, { all: true }, jobs.again)}>
            {t("release all caches: {0}", bytes(cached))}
          </button>
        )}
      </div>
      {free.document && asked.length === 0 && <p class="calm">{t("None. A program reports its allocator with vram.Board(), and runs as the user of this server.")}</p>}
      <ul class="holder-list">
        {asked.map((holder) => (
          <HolderRow key={holder.pid} board={board} holder={holder} again={jobs.again} />
        ))}
      </ul>
      {all.length > asked.length && <p class="calm">{t("Further processes that hold memory and cannot be asked: {0}", all.length - asked.length)}</p>}
      <Jobs jobs={jobs.document?.jobs ?? []} />
    </section>
  );
}

async function trim(board: Board, body: object, again: () => void): Promise<void> {
  await board.change("api/v1/trim", body, () => t("The processes are asked to release what they cache. Each answers at the end of a step."));
  again();
}

const gpuName = ({ device, number }: { device: number | null; number: number }): string => (device === null ? t("its GPU {0}", number) : `GPU ${device}`);

function HolderRow({ board, holder, again }: { board: Board; holder: Holder; again: () => void }) {
  const isOpen = useStore(board.store).segments === holder.pid;
  return (
    <li class="holder-row" data-pid={holder.pid} data-cached={holder.cached_bytes ?? ""}>
      <div class="holder-name">
        <span class="swatch" style={{ background: board.colourOfProcess(holder.pid) }} />
        <bdi class="name">{programOf(holder).slice(0, 300)}</bdi>
        <span class="calm">
          <bdi>{holder.user ?? "–"}</bdi> · {t("pid {0}", holder.pid)}
          {holder.step !== null && ` · ${t("step {0}", count(holder.step))}`}
          {holder.quiet_ns !== null && ` · ${t("reported {0}", agoText(Math.round(holder.quiet_ns / 1e9)))}`}
        </span>
        {holder.is_idle && <span class="place">{t("idle")}</span>}
      </div>
      {holder.devices.map((device) => (
        <Reserved key={device.number} device={device} />
      ))}
      <div class="actions">
        <button type="button" class="action" disabled={holder.cached_bytes === 0} onClick={() => trim(board, { pids: [holder.pid] }, again)}>
          {t("release its cache")}
        </button>
        <button type="button" class="action" aria-expanded={isOpen} onClick={() => board.store.set({ segments: isOpen ? null : holder.pid })}>
          {t("segments")}
        </button>
        <RecordForm board={board} pid={holder.pid} again={again} />
      </div>
      {isOpen && <SegmentsPanel board={board} pid={holder.pid} gpuName={(number) => gpuName(holder.devices.find((each) => each.number === number) ?? { device: null, number })} />}
    </li>
  );
}

/** What an allocator reserved on a device: in tensors, and cached. */
function Reserved({ device }: { device: Holder["devices"][number] }) {
  const { allocated_bytes: allocated, cached_bytes: cached, reserved_bytes: reserved } = device;
  const colours = theme();
  const most = Math.max(1, reserved ?? 0);
  const parts: [string, number | null, string][] = [
    [t("tensors"), allocated, colours.groups[0]],
    [t("cached"), cached, colours.groups[1]],
  ];
  return (
    <div class="reserved">
      <span class="calm">{gpuName(device)}</span>
      <div class="memory-bar" role="img" aria-label={t("Reserved memory: tensors and cache")}>
        {parts.map(([name, value, colour]) => (
          <span key={name} style={{ width: `${(Math.min(value ?? 0, most) / most) * 100}%`, background: colour }} />
        ))}
      </div>
      <span class="reserved-figures">
        <b>{reserved === null ? "–" : bytes(reserved)}</b> {t("reserved")}
        {parts.map(([name, value, colour]) => (
          <span key={name}>
            <span class="swatch" style={{ background: colour }} /> {name} {value === null ? "–" : bytes(value)}
          </span>
        ))}
      </span>
    </div>
  );
}

const RECORDINGS: [string, string, object][] = [
  ["kept", t("what it has retained"), {}],
  ["10s", t("the next 10 s"), { duration: "10s" }],
  ["60s", t("the next minute"), { duration: "60s" }],
  ["3", t("the next 3 steps"), { steps: 3 }],
];

function RecordForm({ board, pid, again }: { board: Board; pid: number; again: () => void }) {
  const [chosen, setChosen] = useState("kept");
  const record = async () => {
    const [, , order] = RECORDINGS.find(([id]) => id === chosen) ?? RECORDINGS[0];
    await board.change("api/v1/record", { pid, ...order }, () => t("The process is asked for a recording."));
    again();
  };
  return (
    <span class="record">
      <button type="button" class="action" onClick={record}>
        {t("record")}
      </button>
      <select aria-label={t("What to record of process {0}", pid)} value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
        {RECORDINGS.map(([id, name]) => (
          <option key={id} value={id}>
            {t(name)}
          </option>
        ))}
      </select>
    </span>
  );
}

const OUTCOMES: Record<string, string> = {
  answered: t("answered"),
  silent: t("did not answer"),
  taken: t("was asked by another program"),
  ended: t("has ended"),
  left: t("has removed its status page"),
  refused: t("cannot be asked"),
};

function outcomeOf(job: Job): string {
  if (job.state === "running") return t("running …");
  if (job.state === "failed") return job.error ?? t("failed");
  if (job.kind === "record") return `${job.result?.name}, ${bytes(job.result?.size_bytes ?? 0)}`;
  const answers = (job.result?.answers ?? []).filter((answer) => answer.outcome !== "answered");
  const rest = answers.map((answer) => `${t("pid {0}", answer.pid)}: ${answer.why ?? t(OUTCOMES[answer.outcome] ?? answer.outcome)}`);
  return [t("{0} came back", bytes(job.result?.freed_bytes ?? 0)), ...rest].join("; ");
}

function Jobs({ jobs }: { jobs: Job[] }) {
  if (jobs.length === 0) return null;
  return (
    <>
      <h2>{t("Requests")}</h2>
      <ol class="jobs">
        {jobs.slice(0, 10).map((job) => (
          <li key={job.number} class={`is-${job.state}`} data-job={job.number}>
            <span class="calm">{agoText(Math.max(0, Date.now() / 1000 - job.started_unix_ns / 1e9))}</span>
            <b>{job.kind === "trim" ? t("release") : t("record")}</b>
            <span>{job.request.pid ?? job.request.pids?.join(", ") ?? t("all")}</span>
            <bdi>{outcomeOf(job)}</bdi>
          </li>
        ))}
      </ol>
    </>
  );
}
