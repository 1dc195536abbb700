// The ranks of a program side by side: the peak of every step of every rank as a matrix, and what the worst rank has more of (vram.ranks/1).
import { useMemo, useRef, useState } from "preact/hooks";
import type { App } from "../app/app";
import { Canvas, type Pen } from "../charts/canvas";
import { drawMatrix, type Matrix, type MatrixPlace, placeAt } from "../charts/matrix";
import { theme } from "../charts/palette";
import type { Ranks } from "../data/page";
import { bytes } from "../format";
import { t } from "../texts";
import { Tooltip, type TooltipContent } from "../ui/tooltip";

const signedBytes = (value: number): string => (value > 0 ? `+${bytes(value)}` : bytes(value));

export function matrixOf(ranks: Ranks): Matrix {
  return {
    rows: ranks.ranks.map(({ rank }) => t("rank {0}", rank)),
    columns: ranks.steps.map(({ name }) => name),
    values: ranks.steps.map((step) => step.peak_bytes),
  };
}

/** Shows the step of a rank in the timeline. */
async function showStep(app: App, ranks: Ranks, { row, column }: MatrixPlace): Promise<void> {
  const value = ranks.steps[column].peak_bytes[row];
  const index = app.recordings.findIndex((recording) => recording.report.path === ranks.ranks[row].path);
  if (index < 0 || value === null) return;
  await app.switchTo(index);
  const ofValue = app.model.steps.filter((step) => step.peak_requested_bytes === value);
  const step = ofValue.find(({ name }) => ranks.steps[column].name.startsWith(name)) ?? ofValue[0];
  app.store.set({ view: "timeline" });
  if (!step) return;
  app.choose(step.peak_event + 1);
  app.zoomToStep(step.peak_event + 1);
}

export function RankMatrix({ app, ranks }: { app: App; ranks: Ranks }) {
  const matrix = useMemo(() => matrixOf(ranks), [ranks]);
  const [hovered, setHovered] = useState<{ place: MatrixPlace; tip: TooltipContent } | null>(null);
  const draw = (pen: Pen) => drawMatrix(pen, matrix, hovered?.place ?? null, theme());
  const latest = useRef(matrix);
  latest.current = matrix;
  const attach = useMemo(
    () => (canvas: HTMLCanvasElement) => {
      const at = (event: PointerEvent) => {
        const box = canvas.getBoundingClientRect();
        const [x, y] = [event.clientX - box.left, event.clientY - box.top];
        return { x, y, place: placeAt(latest.current, box.width, box.height, x, y) };
      };
      const move = (event: PointerEvent) => {
        const { x, y, place } = at(event);
        setHovered(place ? { place, tip: tooltipOf(ranks, place, x, y) } : null);
      };
      const click = (event: PointerEvent) => {
        const { place } = at(event);
        if (place) void showStep(app, ranks, place);
      };
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
    [app, ranks],
  );
  return (
    <>
      <h2>{t("Peak of each step")}</h2>
      <div class="matrix-box" style={{ height: `${38 + Math.max(90, Math.min(420, matrix.rows.length * 26))}px` }}>
        <Canvas label={t("Peak of requested memory in each step of each rank")} draw={draw} attach={attach} />
        <Tooltip content={hovered?.tip ?? null} />
      </div>
    </>
  );
}

function tooltipOf(ranks: Ranks, { row, column }: MatrixPlace, x: number, y: number): TooltipContent {
  const step = ranks.steps[column];
  const value = step.peak_bytes[row];
  const known = step.peak_bytes.filter((each) => each !== null).sort((a, b) => a - b);
  const median = known[Math.floor((known.length - 1) / 2)];
  const rows: TooltipContent["rows"] = [
    { name: t("rank {0}", ranks.ranks[row].rank), value: value === null ? t("has no such step") : bytes(value), isMain: true },
    { name: t("median of the ranks"), value: bytes(median ?? 0) },
    { name: t("most: rank {0}", step.worst_rank), value: bytes(known[known.length - 1] ?? 0) },
  ];
  return { x, y, title: step.name, rows };
}

/** What the worst rank has more of than the median one. */
function Surplus({ ranks }: { ranks: Ranks }) {
  const { worst } = ranks;
  if (!worst) return <p class="more">{t("The peaks of all ranks are equal.")}</p>;
  const parts = [worst.category, worst.site, worst.step].filter((part) => part !== null);
  return (
    <>
      <h2>{t("Rank {0} against rank {1}, the median", worst.rank, worst.median_rank)}</h2>
      <ol class="changes">
        {parts.map((part, index) => (
          <li key={index} class="change">
            <b class="is-more">{signedBytes(part.worst_bytes - part.median_bytes)}</b>
            <bdi class="name">{part.name}</bdi>
            <span class="more-line">
              {bytes(part.median_bytes)} → {bytes(part.worst_bytes)}
            </span>
          </li>
        ))}
      </ol>
    </>
  );
}

export function RankTable({ ranks }: { ranks: Ranks }) {
  return (
    <>
      <h2>{t("Ranks")}</h2>
      <table class="rank-table">
        <thead>
          <tr>
            <th scope="col">{t("rank")}</th>
            <th scope="col">{t("requested")}</th>
            <th scope="col">{t("reserved")}</th>
            <th scope="col">{t("steps")}</th>
          </tr>
        </thead>
        <tbody>
          {ranks.ranks.map((rank) => (
            <tr
              key={rank.rank}
              class={ranks.worst?.rank === rank.rank ? "is-worst" : ""}
              data-requested={rank.peak_requested_bytes}
              data-reserved={rank.peak_reserved_bytes}
            >
              <th scope="row">{rank.rank}</th>
              <td>{bytes(rank.peak_requested_bytes)}</td>
              <td>{bytes(rank.peak_reserved_bytes)}</td>
              <td>{rank.step_count}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Surplus ranks={ranks} />
    </>
  );
}
