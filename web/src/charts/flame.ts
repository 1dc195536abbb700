// Draws a flame graph, outermost frames at the top: a frame is as wide as the bytes that were allocated below it.
import type { FlameNode } from "../data/flame";
import { fitText, FONT, type Pen } from "./canvas";
import type { Theme } from "./palette";

export const ROW = 19;
const LEFT = 12;
const MIN_WIDTH = 0.7;

export interface FlameBox {
  node: FlameNode;
  x: number;
  y: number;
  width: number;
}

/** The frames to draw: those around the focused one at full width, those inside it in proportion. */
export function layOutFlame(focus: FlameNode, width: number): FlameBox[] {
  const boxes: FlameBox[] = [];
  const room = width - 2 * LEFT;
  const path: FlameNode[] = [];
  for (let node = focus.parent; node; node = node.parent) path.unshift(node);
  for (const node of path) boxes.push({ node, x: LEFT, y: 8 + node.depth * ROW, width: room });
  const open: FlameBox[] = [{ node: focus, x: LEFT, y: 8 + focus.depth * ROW, width: room }];
  for (let box = open.pop(); box; box = open.pop()) {
    boxes.push(box);
    let x = box.x;
    for (const child of box.node.children) {
      const wide = box.node.bytes > 0 ? (child.bytes / box.node.bytes) * box.width : 0;
      if (wide >= MIN_WIDTH) open.push({ node: child, x, y: box.y + ROW, width: wide });
      x += wide;
    }
  }
  return boxes;
}

export const depthOf = (boxes: FlameBox[]): number => boxes.reduce((most, { node }) => Math.max(most, node.depth + 1), 0);

/** Files of one package share a hue, so that the program's own code stands out from the framework's. */
function colourFor(node: FlameNode, theme: Theme): string {
  if (node.depth === 0) return theme.isDark ? "#2a323b" : "#dfe4ea";
  const isOwn = node.isGroup || !/(site-packages|dist-packages|\/torch\/|lib\/python|<frozen|\.so|\.cpp|^\?\?|^$)/.test(node.file);
  let hash = 0;
  for (let i = 0; i < Math.min(80, node.name.length); ++i) hash = (hash * 31 + node.name.charCodeAt(i)) | 0;
  const light = (theme.isDark ? 34 : 74) + (((hash % 7) + 7) % 7) * (theme.isDark ? 1.2 : 1.4);
  return isOwn ? `hsl(${28 + (((hash % 11) + 11) % 11)} ${theme.isDark ? 55 : 82}% ${light}%)` : `hsl(${208 + (((hash % 14) + 14) % 14)} ${theme.isDark ? 18 : 30}% ${light + (theme.isDark ? -4 : 8)}%)`;
}

export function drawFlame({ context }: Pen, boxes: FlameBox[], query: string, hovered: FlameNode | null, theme: Theme): void {
  context.font = FONT;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const wanted = query.toLowerCase();
  for (const { node, x, y, width } of boxes) {
    const isFound = wanted === "" || `${node.name} ${node.file}`.toLowerCase().includes(wanted);
    context.globalAlpha = isFound ? 1 : 0.3;
    context.fillStyle = colourFor(node, theme);
    context.fillRect(x, y, Math.max(width - 0.7, 0.5), ROW - 1.5);
    context.globalAlpha = 1;
    if (node === hovered) {
      context.strokeStyle = theme.ink;
      context.lineWidth = 1.5;
      context.strokeRect(x, y, Math.max(width - 0.7, 1), ROW - 1.5);
    }
    if (width < 30) continue;
    context.fillStyle = theme.ink;
    const short = node.file.slice(node.file.lastIndexOf("/") + 1);
    context.fillText(fitText(context, short ? `${node.name}  ${short}` : node.name, width - 8), x + 4, y + ROW / 2 - 0.5);
  }
}
