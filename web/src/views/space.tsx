// Addresses over time: the life of every block as a rectangle.
import { useMemo, useRef, useState } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { Canvas, type Pen } from "../charts/canvas";
import { colourOf, theme } from "../charts/palette";
import { blockAt, drawSpace, layOutSpace, type SpaceLayout, type SpaceState, spaceValue } from "../charts/space";
import { address, bytes } from "../format";
import { t } from "../texts";
import { attachPointer } from "../ui/pointer";
import { Tooltip, type TooltipContent } from "../ui/tooltip";

function spaceState(app: App): SpaceState | null {
  const { detail } = app;
  const space = app.space();
  if (!detail || !space) return null;
  const axis = app.axis();
  const { window, position, dimension, highlight, block } = app.store.get();
  return { detail, space, axis, window: window ?? [axis.begin, axis.end], position, dimension, highlight, block: block === null ? null : detail.indexOf(block) };
}

export function SpaceChart({ app }: { app: App }) {
  useStore(app.store);
  const [tip, setTip] = useState<TooltipContent | null>(null);
  const layout = useRef<SpaceLayout | null>(null);
  const hovered = useRef<number | null>(null);
  const draw = (pen: Pen) => {
    const state = spaceState(app);
    if (!state) return;
    layout.current = layOutSpace(state, pen.width, pen.height);
    drawSpace(pen, state, layout.current, theme());
  };
  const attach = useMemo(
    () => (canvas: HTMLCanvasElement) =>
      attachPointer(canvas, {
        toValue: (x) => {
          const state = spaceState(app);
          return state && layout.current ? spaceValue(state, layout.current, x) : 0;
        },
        window: () => spaceState(app)?.window ?? [0, 1],
        setWindow: (window) => app.setWindow(window),
        choose: (value) => {
          const detail = app.detail;
          app.choose(app.axis().position(value));
          app.store.set({ block: hovered.current === null ? null : (detail?.ids[hovered.current] ?? null) });
        },
        select: (from, to) => app.selectRange(from, to),
        hover: (x, y) => {
          const state = spaceState(app);
          hovered.current = x === null || !state || !layout.current ? null : blockAt(state, layout.current, x, y);
          setTip(x === null || !state || hovered.current === null ? null : tooltipOf(app, state, hovered.current, x, y));
        },
        zoomIn: (value) => app.zoomToStep(app.axis().position(value)),
      }),
    [app],
  );
  return (
    <div class="chart-box">
      <Canvas label={t("Addresses over time: the life of every block")} draw={draw} attach={attach} />
      <Tooltip content={tip} />
    </div>
  );
}

function tooltipOf(app: App, { detail, dimension }: SpaceState, block: number, x: number, y: number): TooltipContent {
  const group = detail.group(block, dimension);
  return {
    x,
    y,
    title: address(detail.address[block]),
    rows: [
      { name: app.groups(dimension)[group], value: bytes(detail.requestedBytes(block)), colour: colourOf(group, theme()), isMain: true },
      { name: t("block"), value: bytes(detail.blockBytes(block)) },
    ],
  };
}
