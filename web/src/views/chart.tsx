// A chart of curves that shares the window, the moment and the pointer's actions with the timeline.
import { useMemo, useRef, useState } from "preact/hooks";
import type { App } from "../app/app";
import { Canvas, type Pen } from "../charts/canvas";
import { drawLines, lineValue, type LinesState } from "../charts/lines";
import { theme } from "../charts/palette";
import { attachPointer } from "../ui/pointer";
import { Tooltip, type TooltipContent } from "../ui/tooltip";

interface Props {
  app: App;
  label: string;
  state: LinesState;
  hover: (value: number, x: number, y: number) => TooltipContent | null;
}

export function LinesChart({ app, label, state, hover }: Props) {
  const [tip, setTip] = useState<TooltipContent | null>(null);
  const latest = useRef({ state, hover, width: 1 });
  latest.current.state = state;
  latest.current.hover = hover;
  const draw = (pen: Pen) => {
    latest.current.width = pen.width;
    drawLines(pen, latest.current.state, theme());
  };
  const attach = useMemo(
    () => (canvas: HTMLCanvasElement) =>
      attachPointer(canvas, {
        toValue: (x) => lineValue(latest.current.state, latest.current.width, x),
        window: () => latest.current.state.window,
        setWindow: (window) => app.setWindow(window),
        choose: (value) => app.choose(app.axis().position(value)),
        select: (from, to) => app.selectRange(from, to),
        hover: (x, y) => setTip(x === null ? null : latest.current.hover(lineValue(latest.current.state, latest.current.width, x), x, y)),
        zoomIn: (value) => app.zoomToStep(app.axis().position(value)),
      }),
    [app],
  );
  return (
    <div class="chart-box">
      <Canvas label={label} draw={draw} attach={attach} />
      <Tooltip content={tip} />
    </div>
  );
}
