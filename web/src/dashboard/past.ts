// Past: the history that the chart shows, read from the server when the time or the metric changes, and again while it follows the clock.
import { useEffect, useState } from "preact/hooks";
import { useStore } from "../app/store";
import { t } from "../texts";
import { ApiError, type History, type PastDevice, type PastProcesses, type Point } from "./api";
import type { Board } from "./board";
import type { ClockChart, Course } from "./clock_chart";
import { metricOf } from "./metrics";

export interface PastSeries {
  device: PastDevice;
  points: Point[];
}

export interface Past {
  series: PastSeries[];
  step: number; // seconds
  trouble: string;
  isReading: boolean;
}

const WANTED_POINTS = 600;
const READ_AFTER_MS = 150; // while the pointer zooms
const MIN_AGAIN_MS = 5_000;

/** How the API names a time: fractions of a second matter while zooming in. */
export const timeQuery = (from: number, to: number, points: number): Record<string, string> => ({
  from: Math.max(0, from).toFixed(3),
  to: to.toFixed(3),
  step: `${Math.max(1000, Math.ceil(((to - from) * 1000) / points))}ms`,
});

function troubleOf(error: unknown): string {
  if (error instanceof ApiError && error.status === 404) return t("No history is kept. Start vram serve with --history FILE.");
  return error instanceof Error ? error.message : String(error);
}

export function usePast(board: Board): Past {
  const { metric, span, link } = useStore(board.store);
  const [past, setPast] = useState<Past>({ series: [], step: 0, trouble: "", isReading: true });
  const [round, setRound] = useState(0);
  const key = "last" in span ? `${span.last}` : `${span.from} ${span.to}`;
  useEffect(() => {
    if (link === "wants-token") return;
    let isOver = false;
    let again = 0;
    const timer = setTimeout(async () => {
      const [from, to] = board.window();
      try {
        const found = await board.api.get<History>("api/v1/history", { metric, ...timeQuery(from, to, WANTED_POINTS) });
        if (isOver) return;
        const step = Math.max(0, ...found.series.map((series) => series.step_ns / 1e9));
        setPast({ series: found.series.filter((series) => series.points.length > 0), step, trouble: "", isReading: false });
      } catch (error) {
        if (!isOver) setPast((before) => ({ ...before, trouble: troubleOf(error), isReading: false }));
      }
      if (isOver || !("last" in span)) return;
      again = setTimeout(() => setRound((n) => n + 1), Math.max(MIN_AGAIN_MS, ((to - from) * 1000) / WANTED_POINTS));
    }, READ_AFTER_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
      clearTimeout(again);
    };
  }, [board, metric, key, round, link]);
  return past;
}

/** The processes that held most memory in a time; null: not read yet. */
export function usePastProcesses(board: Board, selection: { from: number; to: number } | null): PastProcesses["series"] | null {
  const { span, link } = useStore(board.store);
  const [found, setFound] = useState<PastProcesses["series"] | null>(null);
  const key = selection ? `${selection.from} ${selection.to}` : JSON.stringify(span);
  useEffect(() => {
    if (link === "wants-token") return;
    let isOver = false;
    const timer = setTimeout(async () => {
      const [from, to] = selection ? [selection.from, selection.to] : board.window();
      const query = timeQuery(from, to, 60);
      try {
        const { series } = await board.api.get<PastProcesses>("api/v1/history/processes", { ...query, most: "10" });
        if (!isOver) setFound(series);
      } catch {
        if (!isOver) setFound([]); // the chart says why
      }
    }, READ_AFTER_MS * 2);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [board, key, link]);
  return found;
}

function courseOf(board: Board, { device, points }: PastSeries, step: number, isFaint: boolean): Course {
  const column = (of: (point: Point) => number) => Float64Array.from(points, of);
  return {
    times: column((point) => point.time_unix_ns / 1e9 + step / 2),
    average: column((point) => point.average),
    minimum: column((point) => point.minimum),
    maximum: column((point) => point.maximum),
    step,
    colour: board.colourOfDevice(device.index),
    isFaint,
  };
}

/** The chart of what was read; the board knows which series it shows. */
export function chartOf(board: Board, past: Past): ClockChart {
  const { metric, hidden, device } = board.store.get();
  const shown = past.series.filter((series) => !hidden.has(series.device.key));
  board.shownSeries = shown.map((series) => series.device);
  const totals = shown.map((series) => series.device.total_bytes ?? 0);
  return {
    window: board.window(),
    selection: null,
    cursor: null,
    metric: metricOf(metric),
    limit: metric === "used_bytes" && totals.length > 0 ? Math.max(...totals) : null,
    courses: shown.map((series) => courseOf(board, series, past.step, device !== null && device !== series.device.index)),
  };
}
