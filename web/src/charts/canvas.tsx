// A canvas that fills its box at the screen's resolution and is drawn again when the box or `draw` changes.
import { useEffect, useRef } from "preact/hooks";

export interface Pen {
  context: CanvasRenderingContext2D;
  width: number; // in CSS pixels
  height: number;
}

export function penOf(canvas: HTMLCanvasElement): Pen {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** Nothing is drawn on a canvas without a size, as in a frame that is not shown yet. It is drawn when it gets one. */
function drawOn(canvas: HTMLCanvasElement, draw: (pen: Pen) => void): void {
  const pen = penOf(canvas);
  if (pen.width > 0 && pen.height > 0) draw(pen);
}

interface Props {
  label: string;
  className?: string;
  draw: (pen: Pen) => void;
  attach?: (canvas: HTMLCanvasElement) => () => void;
}

export function Canvas({ label, className, draw, attach }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(draw);
  latest.current = draw;
  useEffect(() => {
    if (canvas.current) drawOn(canvas.current, draw);
  });
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const again = () => drawOn(element, latest.current);
    const observer = new ResizeObserver(again);
    observer.observe(element);
    addEventListener("beforeprint", again);
    addEventListener("afterprint", again);
    const detach = attach?.(element);
    return () => {
      observer.disconnect();
      removeEventListener("beforeprint", again);
      removeEventListener("afterprint", again);
      detach?.();
    };
  }, []);
  return <canvas ref={canvas} class={className} role="img" aria-label={label} tabIndex={0} />;
}

/** Text that keeps its distance from what is drawn below it. */
export function haloText(context: CanvasRenderingContext2D, text: string, x: number, y: number, halo: string): void {
  context.save();
  context.strokeStyle = halo;
  context.lineWidth = 3;
  context.lineJoin = "round";
  context.strokeText(text, x, y);
  context.restore();
  context.fillText(text, x, y);
}

/** As much of a text as fits, with an ellipsis. */
export function fitText(context: CanvasRenderingContext2D, text: string, width: number): string {
  const short = text.length > 400 ? text.slice(0, 400) : text;
  if (context.measureText(short).width <= width) return short;
  let low = 0;
  let high = short.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${short.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `${short.slice(0, low)}…` : "";
}

export const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif";
