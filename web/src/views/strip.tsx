// The whole recording as a strip: where the window and the chosen moment are. Dragging moves the window.
import { useMemo, useRef } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { Canvas, type Pen } from "../charts/canvas";
import { theme } from "../charts/palette";
import { boundaries, sample } from "../charts/samples";
import type { Axis } from "../data/axis";
import { t } from "../texts";

const LEFT = 12;

/** The curves, which change with the recording and the size only. */
function drawCurves({ context, width, height }: Pen, app: App): void {
  const axis = app.axis();
  const colours = theme();
  const columns = Math.max(1, Math.floor(width - 2 * LEFT));
  const samples = sample([app.model.levels.coarse(0)], boundaries(axis, [axis.begin, axis.end], columns));
  let most = 1;
  for (let i = 0; i < samples.count; ++i) most = Math.max(most, samples.reserved[i], samples.peak[i]);
  const y = (value: number) => height - 3 - (value / most) * (height - 8);
  const fill = (values: Float64Array, colour: string) => {
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(LEFT, y(0));
    values.forEach((value, i) => {
      context.lineTo(LEFT + i, y(value));
      context.lineTo(LEFT + i + 1, y(value));
    });
    context.lineTo(LEFT + columns, y(0));
    context.fill();
  };
  fill(samples.reserved, colours.isDark ? "#2a323b" : "#e3e8ee");
  fill(samples.peak, colours.isDark ? "#4f6b8a" : "#9db7d4");
  fill(samples.low, colours.isDark ? "#6487ae" : "#7d9fc4");
}

let curves: { key: string; picture: HTMLCanvasElement } | null = null;

function drawStrip(pen: Pen, app: App): void {
  const { context, width, height } = pen;
  const { recording, device, axis, loaded } = app.store.get();
  const ratio = window.devicePixelRatio || 1;
  const key = [width, height, ratio, recording, device, axis, loaded, theme().isDark].join();
  if (curves?.key !== key) {
    const picture = document.createElement("canvas");
    picture.width = Math.round(width * ratio);
    picture.height = Math.round(height * ratio);
    const hidden = picture.getContext("2d") as CanvasRenderingContext2D;
    hidden.scale(ratio, ratio);
    drawCurves({ context: hidden, width, height }, app);
    curves = { key, picture };
  }
  context.drawImage(curves.picture, 0, 0, width, height);
  drawPlace(context, app, app.axis(), Math.max(1, Math.floor(width - 2 * LEFT)), height);
}

function drawPlace(context: CanvasRenderingContext2D, app: App, axis: Axis, columns: number, height: number): void {
  const state = app.store.get();
  const colours = theme();
  const x = (value: number) => LEFT + ((value - axis.begin) / (axis.end - axis.begin)) * columns;
  if (state.window) {
    const [from, to] = [x(state.window[0]), Math.max(x(state.window[1]), x(state.window[0]) + 2)];
    context.fillStyle = colours.surface;
    context.globalAlpha = 0.6;
    context.fillRect(LEFT, 0, from - LEFT, height);
    context.fillRect(to, 0, LEFT + columns - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.strokeRect(from + 0.5, 0.5, Math.max(1, to - from - 1), height - 1);
  }
  for (const oom of app.model.report.ooms) {
    context.fillStyle = colours.danger;
    context.fillRect(x(axis.of(oom.event + 1)) - 0.5, 0, 1.5, height);
  }
  context.fillStyle = colours.accent;
  context.fillRect(x(axis.of(state.position)) - 0.75, 0, 1.5, height);
}

export function Strip({ app }: { app: App }) {
  useStore(app.store);
  const drags = useRef(false);
  const attach = useMemo(
    () => (canvas: HTMLCanvasElement) => {
      const centre = (event: PointerEvent) => {
        const axis = app.axis();
        const box = canvas.getBoundingClientRect();
        const value = axis.begin + ((event.clientX - box.left - LEFT) / (box.width - 2 * LEFT)) * (axis.end - axis.begin);
        const { window } = app.store.get();
        if (window) app.setWindow([value - (window[1] - window[0]) / 2, value + (window[1] - window[0]) / 2]);
        else app.choose(axis.position(value));
      };
      const down = (event: PointerEvent) => {
        drags.current = true;
        canvas.setPointerCapture(event.pointerId);
        centre(event);
      };
      const move = (event: PointerEvent) => drags.current && centre(event);
      const up = () => {
        drags.current = false;
      };
      canvas.addEventListener("pointerdown", down);
      canvas.addEventListener("pointermove", move);
      canvas.addEventListener("pointerup", up);
      canvas.addEventListener("pointercancel", up);
      return () => {
        canvas.removeEventListener("pointerdown", down);
        canvas.removeEventListener("pointermove", move);
        canvas.removeEventListener("pointerup", up);
        canvas.removeEventListener("pointercancel", up);
      };
    },
    [app],
  );
  return (
    <section class="strip" aria-label={t("The whole recording")}>
      <Canvas label={t("The whole recording")} draw={(pen) => drawStrip(pen, app)} attach={attach} />
    </section>
  );
}
