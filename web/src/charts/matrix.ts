// Draws the peaks of the steps of all ranks: a row for each rank, a column for each step, the darker the more. Of steps that share a column
// of pixels, the largest is drawn.
import { bytes } from "../format";
import { fitText, FONT, type Pen } from "./canvas";
import { blended, type Theme } from "./palette";

export interface Matrix {
  rows: string[];
  columns: string[];
  values: (number | null)[][]; // by column and row
}

export interface MatrixPlace {
  row: number;
  column: number;
}

const LEFT = 46;
const TOP = 30;
const RIGHT = 12;
const MIN_SHARE = 0.08; // of the colour, for the smallest value

interface Layout {
  wide: number; // of a column; less than 1 if several share a column of pixels
  tall: number;
}

const layOut = (matrix: Matrix, width: number, height: number): Layout => ({
  wide: Math.max(0, width - LEFT - RIGHT) / Math.max(1, matrix.columns.length),
  tall: Math.max(0, height - TOP - 8) / Math.max(1, matrix.rows.length),
});

/** The smallest and the largest value. */
export function extent(matrix: Matrix): [number, number] {
  let [least, most] = [Number.POSITIVE_INFINITY, 0];
  for (const column of matrix.values)
    for (const value of column) {
      if (value === null) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  return [Math.min(least, most), most];
}

export function drawMatrix({ context, width, height }: Pen, matrix: Matrix, chosen: MatrixPlace | null, theme: Theme): void {
  const { wide, tall } = layOut(matrix, width, height);
  const [least, most] = extent(matrix);
  const share = (value: number) => MIN_SHARE + (1 - MIN_SHARE) * (most > least ? (value - least) / (most - least) : 0.5);
  const gap = Math.min(wide, tall) > 6 ? 1 : 0;
  const step = Math.max(1, Math.ceil(1 / Math.max(wide, 1e-9)));
  for (let column = 0; column < matrix.columns.length; column += step) {
    for (let row = 0; row < matrix.rows.length; ++row) {
      let value: number | null = null;
      for (let each = column; each < Math.min(column + step, matrix.columns.length); ++each) {
        const found = matrix.values[each][row];
        if (found !== null && (value === null || found > value)) value = found;
      }
      if (value === null) continue;
      context.fillStyle = blended(theme.accent, theme.surface, share(value));
      context.fillRect(LEFT + column * wide, TOP + row * tall, Math.max(1, wide * step - gap), Math.max(1, tall - gap));
    }
  }
  if (chosen) {
    context.strokeStyle = theme.ink;
    context.lineWidth = 1.5;
    context.strokeRect(LEFT + chosen.column * wide, TOP + chosen.row * tall, Math.max(2, wide - gap), Math.max(2, tall - gap));
  }
  drawNames(context, matrix, wide, tall, theme);
  drawScale(context, least, most, theme);
}

function drawNames(context: CanvasRenderingContext2D, matrix: Matrix, wide: number, tall: number, theme: Theme): void {
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = theme.muted;
  context.textAlign = "right";
  const everyRow = Math.max(1, Math.ceil(13 / Math.max(tall, 0.01)));
  for (let row = 0; row < matrix.rows.length; row += everyRow)
    context.fillText(fitText(context, matrix.rows[row], LEFT - 10), LEFT - 6, TOP + (row + 0.5) * tall);
  context.textAlign = "left";
  const everyColumn = Math.max(1, Math.ceil(64 / Math.max(wide, 0.01)));
  for (let column = 0; column < matrix.columns.length; column += everyColumn)
    context.fillText(fitText(context, matrix.columns[column], everyColumn * wide - 6), LEFT + column * wide, TOP - 9);
}

function drawScale(context: CanvasRenderingContext2D, least: number, most: number, theme: Theme): void {
  const [from, to] = [bytes(least), bytes(most)];
  context.textAlign = "left";
  context.fillText(from, LEFT, 8);
  const left = LEFT + context.measureText(from).width + 6;
  for (let i = 0; i < 60; ++i) {
    context.fillStyle = blended(theme.accent, theme.surface, MIN_SHARE + ((1 - MIN_SHARE) * i) / 59);
    context.fillRect(left + i * 1.5, 3, 2, 10);
  }
  context.fillStyle = theme.muted;
  context.fillText(to, left + 98, 8);
}

export function placeAt(matrix: Matrix, width: number, height: number, x: number, y: number): MatrixPlace | null {
  const { wide, tall } = layOut(matrix, width, height);
  const place = { row: Math.floor((y - TOP) / tall), column: Math.floor((x - LEFT) / wide) };
  return place.row >= 0 && place.row < matrix.rows.length && place.column >= 0 && place.column < matrix.columns.length ? place : null;
}
