// The timeline with its legend: which groups hold memory, over time and at the chosen moment.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { Canvas, type Pen } from "../charts/canvas";
import { returnsNear, sampleAt } from "../charts/marks";
import { colourOf, type Theme, theme } from "../charts/palette";
import { drawTimeline, edges, type Layout, layOut, type TimelineState, valueOf, yOf } from "../charts/timeline";
import { SHOWN_GROUPS } from "../data/overview";
import { bytes, count, duration, moment } from "../format";
import { t } from "../texts";
import { attachPointer } from "../ui/pointer";
import { Tooltip, type TooltipContent } from "../ui/tooltip";
import { Legend } from "./legend";

export function timelineState(app: App): TimelineState {
  const state = app.store.get();
  const axis = app.axis();
  return {
    model: app.model,
    axis,
    window: state.window ?? [axis.begin, axis.end],
    dimension: state.dimension,
    position: state.position,
    range: state.range,
    highlight: state.highlight,
  };
}

export function TimelineView({ app }: { app: App }) {
  const state = useStore(app.store);
  const layout = useRef<Layout | null>(null);
  const [tip, setTip] = useState<TooltipContent | null>(null);
  const frame = useRef(0);
  const [, redraw] = useState(0);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);

  const draw = (pen: Pen) => {
    const of = timelineState(app);
    layout.current = layOut(of, pen.width, pen.height);
    drawTimeline(pen, of, layout.current, theme());
    pen.context.canvas.dataset.complete = String(layout.current.isComplete);
    if (!layout.current.isComplete) frame.current = requestAnimationFrame(() => redraw((n) => n + 1));
  };
  const attach = useMemo(
    () => (canvas: HTMLCanvasElement) =>
      attachPointer(canvas, {
        toValue: (x) => (layout.current ? valueOf(layout.current, timelineState(app).window, x) : 0),
        window: () => timelineState(app).window,
        setWindow: (window) => app.setWindow(window),
        choose: (value) => app.choose(app.axis().position(value)),
        select: (from, to) => app.selectRange(from, to),
        hover: (x, y) => setTip(x === null || !layout.current ? null : tooltipAt(app, layout.current, x, y)),
        zoomIn: (value) => app.zoomToStep(app.axis().position(value)),
      }),
    [app],
  );
  return (
    <section class="timeline-view" aria-label={t("Timeline")}>
      <div class="chart-box">
        <Canvas label={t("Memory over time, stacked by {0}", app.dimensionName(state.dimension))} className="timeline" draw={draw} attach={attach} />
        <Tooltip content={tip} />
      </div>
      <Legend app={app} />
    </section>
  );
}

/** What is under the pointer. */
function tooltipAt(app: App, layout: Layout, x: number, y: number): TooltipContent | null {
  const column = Math.floor(x - layout.left);
  if (column < 0 || column >= layout.samples.count) return null;
  const of = timelineState(app);
  const { samples } = layout;
  const position = samples.peakAt[column];
  const colours = theme();
  const rows: TooltipContent["rows"] = [];
  if (y < layout.top && y > layout.scopesTop) addScopes(app, position, rows);
  const group = groupAt(layout, column, y);
  if (group !== null) {
    const names = app.groups(of.dimension);
    const isRest = group >= samples.groups.length;
    const shown = samples.groups.reduce((sum, values) => sum + values[column], 0);
    rows.push({
      name: !isRest ? names[group] : names.length === SHOWN_GROUPS + 1 ? t("1 other") : t("{0} others", count(names.length - SHOWN_GROUPS)),
      value: bytes(isRest ? samples.peak[column] - shown : samples.groups[group][column]),
      colour: colourOf(group, colours),
      isMain: true,
    });
  }
  rows.push({ name: t("requested"), value: bytes(samples.peak[column]) });
  if (samples.low[column] < samples.peak[column]) rows.push({ name: t("lowest here"), value: bytes(samples.low[column]) });
  rows.push({ name: t("reserved"), value: bytes(samples.reserved[column]) });
  const end = valueOf(layout, of.window, layout.left + column + 1);
  const sampled = sampleAt(app.model.samples, of.axis.mode === "time" ? end : of.axis.timeOf(position));
  if (sampled >= 0) rows.push({ name: t("used on the device"), value: bytes(app.model.samples.used[sampled]) });
  const returned = returnsNear(of, layout, x);
  if (returned) rows.push({ name: t("segments given back: {0}", count(returned.count)), value: bytes(returned.bytes) });
  const step = app.model.stepOf(position);
  if (step) rows.push({ name: t("step"), value: String(step.index) });
  return { x, y, title: momentTitle(app, position), rows };
}

function addScopes(app: App, position: number, rows: TooltipContent["rows"]): void {
  const scope = app.model.scopeAt(position);
  if (scope) rows.push({ name: scope.name, value: duration(scope.endNs - scope.beginNs), isMain: true });
}

export function momentTitle(app: App, position: number): string {
  const event = position === 0 ? t("before the first event") : t("event {0}", count(position - 1));
  return app.model.head.clock === "time" ? `${moment(app.axis().timeOf(position), 1e4)} · ${event}` : event;
}

function groupAt(layout: Layout, column: number, y: number): number | null {
  const tops = edges(layout.samples);
  for (let group = 0; group < tops.length; ++group) {
    const below = group === 0 ? 0 : tops[group - 1][column];
    if (tops[group][column] > below && y >= yOf(layout, tops[group][column]) && y < yOf(layout, below)) return group;
  }
  return null;
}

export type { Theme };
