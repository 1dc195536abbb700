// The flame graph: where the memory of a moment, or its growth between two, was allocated.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { Canvas, type Pen } from "../charts/canvas";
import { depthOf, drawFlame, type FlameBox, layOutFlame, ROW } from "../charts/flame";
import { theme } from "../charts/palette";
import { bytesByKind, flame, type FlameNode, growth } from "../data/flame";
import { bytes, count, percent } from "../format";
import { t } from "../texts";
import { Tooltip, type TooltipContent } from "../ui/tooltip";
import { momentTitle } from "./timeline";

/** The whole graph of the state; null before the blocks are loaded. */
export function flameOf(app: App): FlameNode | null {
  const { texts } = app.recording;
  const { range, position } = app.store.get();
  const sums = (at: number) => {
    const of = app.model.detailAt(at);
    return of && bytesByKind(of, of.live(at));
  };
  const detail = app.model.detailAt(range ? range[1] : position);
  const [before, now] = [range ? sums(range[0]) : null, sums(range ? range[1] : position)];
  if (!detail || !texts || !now || (range && !before)) return null;
  const kinds = before ? growth(detail.kinds, before, now) : now;
  const root = flame(detail, texts, app.groups(0), kinds);
  root.name = range ? t("grown by {0}", bytes(root.bytes)) : t("{0} requested", bytes(root.bytes));
  return root;
}

export function FlameView({ app }: { app: App }) {
  const state = useStore(app.store);
  const root = useMemo(() => flameOf(app), [app, state.device, state.position, state.range, state.loaded]);
  const [focus, setFocus] = useState<FlameNode | null>(null);
  const [hovered, setHovered] = useState<{ node: FlameNode; tip: TooltipContent } | null>(null);
  const boxes = useRef<FlameBox[]>([]);
  const [depth, setDepth] = useState(12);
  useEffect(() => setFocus(null), [root]);
  const draw = (pen: Pen) => {
    if (!root) return;
    boxes.current = layOutFlame(focus ?? root, pen.width);
    drawFlame(pen, boxes.current, state.query, hovered?.node ?? null, theme());
    const needed = depthOf(boxes.current);
    if (needed !== depth) setDepth(needed);
  };
  const rootNow = useRef(root);
  rootNow.current = root;
  const attach = useMemo(
    () => (canvas: HTMLCanvasElement) => {
      const at = (event: PointerEvent) => {
        const bounds = canvas.getBoundingClientRect();
        const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
        return { x, y, box: boxes.current.find((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + ROW) };
      };
      const move = (event: PointerEvent) => {
        const { x, y, box } = at(event);
        setHovered(box ? { node: box.node, tip: tooltipOf(box.node, rootNow.current, x, y) } : null);
      };
      const click = (event: PointerEvent) => setFocus(at(event).box?.node ?? null);
      const leave = () => setHovered(null);
      canvas.addEventListener("pointermove", move);
      canvas.addEventListener("pointerup", click);
      canvas.addEventListener("pointerleave", leave);
      return () => {
        canvas.removeEventListener("pointermove", move);
        canvas.removeEventListener("pointerup", click);
        canvas.removeEventListener("pointerleave", leave);
      };
    },
    [],
  );
  return (
    <section class="flame-view" aria-label={t("Flame graph")} data-bytes={root?.bytes} data-blocks={root?.count}>
      <div class="tools">
        <span class="what">
          {state.range
            ? t("Growth from {0} to {1}", momentTitle(app, state.range[0]), momentTitle(app, state.range[1]))
            : t("Live memory at {0}", momentTitle(app, state.position))}
        </span>
        <button type="button" onClick={() => app.store.set({ range: null, position: app.model.peak })}>
          {t("at the peak")}
        </button>
        <button type="button" onClick={() => app.store.set({ range: growthRange(app) })}>
          {t("growth over the steps")}
        </button>
        <SearchBox app={app} />
      </div>
      <div class="scroll">
        <div class="flame-box" style={{ height: `${depth * ROW + 24}px` }}>
          <Canvas label={t("Stacks by bytes, outermost frames at the top")} draw={draw} attach={attach} />
          <Tooltip content={hovered?.tip ?? null} />
        </div>
      </div>
    </section>
  );
}

export function SearchBox({ app }: { app: App }) {
  return (
    <input
      type="search"
      placeholder={t("search")}
      aria-label={t("Search")}
      value={app.store.get().query}
      onInput={(event) => app.store.set({ query: event.currentTarget.value })}
    />
  );
}

/** From the end of the first steady step to the end of the last one, as the report's growth; else the whole recording. */
export function growthRange(app: App): [number, number] {
  const { steps, report } = app.model;
  const end = (index: number) => steps[index].first_event + steps[index].event_count;
  const warmup = report.steps.warmup;
  return steps.length >= warmup + 2 ? [end(warmup), end(steps.length - 1)] : [0, app.model.positions - 1];
}

function tooltipOf(node: FlameNode, root: FlameNode | null, x: number, y: number): TooltipContent {
  const rows: TooltipContent["rows"] = [
    { name: t("bytes"), value: bytes(node.bytes), isMain: true },
    { name: t("share"), value: percent(root && root.bytes > 0 ? node.bytes / root.bytes : 0) },
    { name: t("blocks"), value: count(node.count) },
  ];
  if (node.file) rows.unshift({ name: node.file, value: "" });
  return { x, y, title: node.name.slice(0, 200), rows };
}
