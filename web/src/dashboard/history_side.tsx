// Next to the chart of the history: each GPU's average, minimum and maximum in the chosen time, and the processes that held its memory.
import { useStore } from "../app/store";
import { bytes } from "../format";
import { t } from "../texts";
import type { PastProcesses } from "./api";
import { type Board, programOf } from "./board";
import { metricOf, summaryOf } from "./metrics";
import { type Past, usePastProcesses } from "./past";

export function DeviceSummaries({ board, past }: { board: Board; past: Past }) {
  const { selection, metric, hidden } = useStore(board.store);
  const [from, to] = selection ? [selection.from, selection.to] : board.window();
  const { text } = metricOf(metric);
  const toggle = (key: string) => {
    const next = new Set(hidden);
    if (!next.delete(key)) next.add(key);
    board.store.set({ hidden: next });
  };
  return (
    <>
      <h2>{t("GPUs")}</h2>
      <ul class="summaries">
        {past.series.map(({ device, points }) => {
          const summary = summaryOf(points, from - past.step, to);
          return (
            <li key={device.key} data-device={device.index} data-average={summary?.average} data-maximum={summary?.maximum}>
              <button type="button" aria-pressed={!hidden.has(device.key)} title={t("show or hide")} onClick={() => toggle(device.key)}>
                <span class="swatch" style={{ background: hidden.has(device.key) ? "transparent" : board.colourOfDevice(device.index) }} />
                <bdi class="name">
                  GPU {device.index} {device.name ?? ""}
                </bdi>
                <b>{summary ? text(summary.average) : "–"}</b>
                <span class="more-line">{summary ? t("on average; {0} to {1}", text(summary.minimum), text(summary.maximum)) : t("no samples")}</span>
              </button>
            </li>
          );
        })}
      </ul>
      {!past.isReading && past.series.length === 0 && <p class="calm">{t("no samples")}</p>}
    </>
  );
}

type Holder = PastProcesses["series"][number];

const peakOf = (holder: Holder): number => Math.max(0, ...holder.points.map((point) => point.maximum));

export function PastHolders({ board, selection }: { board: Board; selection: { from: number; to: number } | null }) {
  const { device } = board.store.get();
  const found = usePastProcesses(board, selection);
  const holders = (found ?? []).filter((holder) => device === null || holder.device.index === device).sort((a, b) => peakOf(b) - peakOf(a));
  const most = Math.max(1, ...holders.map(peakOf));
  return (
    <>
      <h2>{t("Processes by peak memory")}</h2>
      {found === null && <p class="calm">{t("reading …")}</p>}
      {found !== null && holders.length === 0 && <p class="calm">{t("none")}</p>}
      <ol class="past-holders">
        {holders.slice(0, 20).map((holder) => (
          <li key={`${holder.process.pid} ${holder.process.start_ticks} ${holder.device.key}`} data-pid={holder.process.pid} data-peak={peakOf(holder)}>
            <span class="swatch" style={{ background: board.colourOfProcess(holder.process.pid) }} />
            <bdi class="name">{programOf(holder.process).slice(0, 200)}</bdi>
            <b>{bytes(peakOf(holder))}</b>
            <span class="more-line">
              <bdi>{holder.process.user ?? "–"}</bdi> · {t("pid {0}", holder.process.pid)} · GPU {holder.device.index}
            </span>
            <span class="share" style={{ width: `${(peakOf(holder) / most) * 100}%` }} />
          </li>
        ))}
      </ol>
    </>
  );
}
