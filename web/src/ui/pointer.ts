// Mouse, wheel and touch on a chart with a horizontal axis: the wheel zooms at the pointer, dragging pans, dragging with Shift selects a
// range, a click chooses a moment, two fingers zoom.

export interface PointerActions {
  toValue(x: number): number;
  window(): [number, number];
  setWindow(window: [number, number]): void;
  choose(value: number): void;
  select(from: number, to: number): void;
  hover(x: number | null, y: number): void;
  zoomIn(value: number): void;
}

const CLICK_DISTANCE = 4;

export function zoomed(window: [number, number], at: number, factor: number): [number, number] {
  return [at - (at - window[0]) * factor, at + (window[1] - at) * factor];
}

export function attachPointer(canvas: HTMLCanvasElement, actions: PointerActions): () => void {
  const held = new Map<number, { x: number; y: number }>();
  let start: { x: number; window: [number, number]; isSelecting: boolean; hasMoved: boolean } | null = null;
  let spread = 0;
  const place = (event: PointerEvent | WheelEvent | MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const perPixel = () => actions.toValue(1) - actions.toValue(0);

  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    const window = actions.window();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = (event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX) * perPixel();
      actions.setWindow([window[0] + by, window[1] + by]);
      return;
    }
    const factor = Math.exp(Math.max(-240, Math.min(240, event.deltaMode === 1 ? event.deltaY * 30 : event.deltaY)) * 0.0022);
    actions.setWindow(zoomed(window, actions.toValue(place(event).x), factor));
  };
  const onDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const at = place(event);
    held.set(event.pointerId, at);
    canvas.setPointerCapture(event.pointerId);
    start = { x: at.x, window: actions.window(), isSelecting: event.shiftKey, hasMoved: false };
    spread = 0;
  };
  const pinch = () => {
    const [a, b] = [...held.values()];
    const distance = Math.max(10, Math.abs(a.x - b.x));
    if (spread > 0) actions.setWindow(zoomed(actions.window(), actions.toValue((a.x + b.x) / 2), spread / distance));
    spread = distance;
    if (start) start.hasMoved = true;
  };
  const onMove = (event: PointerEvent) => {
    const at = place(event);
    if (held.has(event.pointerId)) held.set(event.pointerId, at);
    if (held.size === 2) {
      pinch();
      return;
    }
    if (!start || held.size === 0) {
      actions.hover(at.x, at.y);
      return;
    }
    if (Math.abs(at.x - start.x) > CLICK_DISTANCE) start.hasMoved = true;
    if (!start.hasMoved) return;
    actions.hover(null, 0);
    if (start.isSelecting) {
      actions.select(actions.toValue(Math.min(start.x, at.x)), actions.toValue(Math.max(start.x, at.x)));
      return;
    }
    const by = (at.x - start.x) * perPixel();
    actions.setWindow([start.window[0] - by, start.window[1] - by]);
  };
  const onUp = (event: PointerEvent) => {
    const wasHeld = held.delete(event.pointerId);
    if (wasHeld && start && !start.hasMoved && held.size === 0) actions.choose(actions.toValue(place(event).x));
    if (held.size === 0) start = null;
  };
  const onLeave = () => actions.hover(null, 0);
  const onDouble = (event: MouseEvent) => actions.zoomIn(actions.toValue(place(event).x));

  canvas.addEventListener("wheel", onWheel, { passive: false });
  canvas.addEventListener("pointerdown", onDown);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("pointerup", onUp);
  canvas.addEventListener("pointercancel", onUp);
  canvas.addEventListener("pointerleave", onLeave);
  canvas.addEventListener("dblclick", onDouble);
  return () => {
    canvas.removeEventListener("wheel", onWheel);
    canvas.removeEventListener("pointerdown", onDown);
    canvas.removeEventListener("pointermove", onMove);
    canvas.removeEventListener("pointerup", onUp);
    canvas.removeEventListener("pointercancel", onUp);
    canvas.removeEventListener("pointerleave", onLeave);
    canvas.removeEventListener("dblclick", onDouble);
  };
}

export interface PlaceActions {
  hover(x: number, y: number): void;
  click?(x: number, y: number): void;
  leave(): void;
}

/** Hovers and clicks on a picture without an axis. */
export function attachPlaces(canvas: HTMLCanvasElement, actions: PlaceActions): () => void {
  const at = (event: PointerEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const move = (event: PointerEvent) => actions.hover(...at(event));
  const up = (event: PointerEvent) => actions.click?.(...at(event));
  const leave = () => actions.leave();
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointerleave", leave);
  return () => {
    canvas.removeEventListener("pointermove", move);
    canvas.removeEventListener("pointerup", up);
    canvas.removeEventListener("pointerleave", leave);
  };
}
