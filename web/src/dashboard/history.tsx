// History: a metric of every GPU over the clock, and who held memory in the chosen time. The wheel zooms, dragging moves, dragging with
// Shift selects a range.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useStore } from "../app/store";
import { Canvas, type Pen } from "../charts/canvas";
import { theme } from "../charts/palette";
import { t } from "../texts";
import { attachPointer } from "../ui/pointer";
import { Tooltip, type TooltipContent } from "../ui/tooltip";
import type { Board } from "./board";
import { momentText, spanText } from "./clock";
import { type ClockChart, clockTime, drawClockChart, stepAt } from "./clock_chart";
import { DeviceSummaries, PastHolders } from "./history_side";
import { METRICS, metricOf } from "./metrics";
import { chartOf, type Past, usePast } from "./past";

const SPANS: [number, string][] = [
  [900, t("15 min")],
  [3600, t("1 h")],
  [6 * 3600, t("6 h")],
  [86_400, t("24 h")],
  [7 * 86_400, t("7 days")],
  [30 * 86_400, t("30 days")],
];

export function HistoryView({ board }: { board: Board }) {
  const state = useStore(board.store);
  const past = usePast(board);
  return (
    <section class="history-view" aria-label={t("History")}>
      <Tools board={board} past={past} />
      <div class="timeline-view">
        {past.trouble ? <p class="empty">{past.trouble}</p> : <PastChart board={board} past={past} />}
        <aside class="side" tabIndex={0} aria-label={t("In the chosen time")}>
          <Chosen board={board} />
          <DeviceSummaries board={board} past={past} />
          <PastHolders board={board} selection={state.selection} />
        </aside>
      </div>
    </section>
  );
}

function Tools({ board, past }: { board: Board; past: Past }) {
  const { metric, span } = board.store.get();
  return (
    <div class="tools">
      <select aria-label={t("Metric")} value={metric} onChange={(event) => board.store.set({ metric: event.currentTarget.value })}>
        {METRICS.map(({ id, name }) => (
          <option key={id} value={id}>
            {t(name)}
          </option>
        ))}
      </select>
      <div class="spans" role="group" aria-label={t("Time")}>
        {SPANS.map(([seconds, name]) => (
          <button
            key={seconds}
            type="button"
            aria-pressed={"last" in span && span.last === seconds}
            onClick={() => board.setSpan({ last: seconds })}
          >
            {t(name)}
          </button>
        ))}
      </div>
      {!("last" in span) && (
        <button type="button" onClick={() => board.setSpan({ last: span.to - span.from })}>
          {t("to the present")}
        </button>
      )}
      <span class="what" aria-live="polite">
        {past.isReading ? t("reading …") : past.step > 0 && t("one point per {0}", spanText(past.step))}
      </span>
    </div>
  );
}

function PastChart({ board, past }: { board: Board; past: Past }) {
  const [tip, setTip] = useState<TooltipContent | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const { selection, metric } = board.store.get();
  const latest = useRef({ width: 1, chart: null as ClockChart | null });
  const chart = { ...chartOf(board, past), selection: selection ? ([selection.from, selection.to] as [number, number]) : null, cursor };
  latest.current.chart = chart;
  const draw = (pen: Pen) => {
    latest.current.width = pen.width;
    drawClockChart(pen, latest.current.chart as ClockChart, theme());
  };
  const attach = useMemo(
    () => (canvas: HTMLCanvasElement) => {
      const toValue = (x: number) => clockTime(board.window(), latest.current.width, x);
      return attachPointer(canvas, {
        toValue,
        window: () => board.window(),
        setWindow: (window) => board.setWindow(window),
        choose: () => board.store.set({ selection: null }),
        select: (from, to) => board.store.set({ selection: { from, to } }),
        hover: (x, y) => {
          setCursor(x === null ? null : toValue(x));
          setTip(x === null ? null : tipOf(board, latest.current.chart as ClockChart, toValue(x), x, y));
        },
        zoomIn: (time) => {
          const [from, to] = board.window();
          board.setWindow([time - (to - from) / 8, time + (to - from) / 8]);
        },
      });
    },
    [board],
  );
  return (
    <div class="chart-box">
      <Canvas label={t("{0} of each GPU over time", t(metricOf(metric).name))} draw={draw} attach={attach} />
      <Tooltip content={tip} />
    </div>
  );
}

function tipOf(board: Board, chart: ClockChart, time: number, x: number, y: number): TooltipContent {
  const rows = board.shownSeries.flatMap((series, i) => {
    const course = chart.courses[i];
    const at = course ? stepAt(course, time) : -1;
    if (at < 0) return [];
    const text = chart.metric.text;
    const hasSpread = course.maximum[at] > course.minimum[at];
    const spread = hasSpread ? ` (${text(course.minimum[at])} – ${text(course.maximum[at])})` : "";
    return [{ name: `GPU ${series.index}`, colour: course.colour, value: `${text(course.average[at])}${spread}` }];
  });
  return { x, y, title: momentText(time), rows };
}

/** What the figures next to the chart are about. */
function Chosen({ board }: { board: Board }) {
  const { selection, span } = board.store.get();
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 5000);
    return () => clearInterval(timer);
  }, []);
  const [from, to] = selection ? [selection.from, selection.to] : "last" in span ? [now - span.last, now] : [span.from, span.to];
  return (
    <div class="chosen">
      <h2>{selection ? t("Selection") : t("Shown time")}</h2>
      <p>
        {momentText(from)} – {momentText(to)} <span class="calm">({spanText(to - from)})</span>
      </p>
      {selection ? (
        <p class="links">
          <button type="button" onClick={() => board.setSpan({ from: selection.from, to: selection.to })}>
            {t("zoom to it")}
          </button>
          <button type="button" onClick={() => board.store.set({ selection: null })}>
            {t("clear the selection")}
          </button>
        </p>
      ) : (
        <p class="calm">{t("Shift and dragging selects a range.")}</p>
      )}
    </div>
  );
}
