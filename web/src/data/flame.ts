// Flame graphs: live bytes by stack, at a moment or as the growth between two. Frames from the outermost in.
import type { Detail, Kinds } from "./detail";
import type { Texts } from "./model";

export interface FlameNode {
  name: string; // "function file:line", or a group without a stack
  file: string;
  bytes: number;
  count: number;
  children: FlameNode[]; // the largest first
  parent: FlameNode | null;
  depth: number;
  isGroup: boolean;
}

interface Building {
  node: FlameNode;
  byFrame: Map<number | string, Building>;
}

/** Bytes and blocks of every kind of block: by the kind's number. */
export function bytesByKind(detail: Detail, live: number[]): Map<number, { bytes: number; count: number }> {
  const found = new Map<number, { bytes: number; count: number }>();
  for (const block of live) {
    const kind = detail.kind[block];
    const sum = found.get(kind) ?? { bytes: 0, count: 0 };
    sum.bytes += detail.kinds.requested[kind];
    ++sum.count;
    found.set(kind, sum);
  }
  return found;
}

type Sums = Map<number, { bytes: number; count: number }>;

/** What `now` has more of than `before`, stack by stack. */
export function growth(kinds: Kinds, before: Sums, now: Sums): Sums {
  const byStack = new Map<string, { kind: number; bytes: number; count: number }>();
  const add = (sums: Sums, sign: number) => {
    for (const [kind, { bytes, count }] of sums) {
      const stack = kinds.stack[kind];
      const key = `${stack}/${stack === 0 ? kinds.groups[0][kind] : ""}`;
      const sum = byStack.get(key) ?? { kind, bytes: 0, count: 0 };
      sum.bytes += sign * bytes;
      sum.count += sign * count;
      byStack.set(key, sum);
    }
  };
  add(now, 1);
  add(before, -1);
  const grown = [...byStack.values()].filter(({ bytes }) => bytes > 0);
  return new Map(grown.map(({ kind, bytes, count }) => [kind, { bytes, count }]));
}

export function flame(
  detail: Detail,
  texts: Texts,
  groups: string[],
  kinds: Map<number, { bytes: number; count: number }>,
): FlameNode {
  const make = (name: string, file: string, parent: FlameNode | null, isGroup: boolean): Building => ({
    node: { name, file, bytes: 0, count: 0, children: [], parent, depth: parent ? parent.depth + 1 : 0, isGroup },
    byFrame: new Map(),
  });
  const root = make("", "", null, true);
  const into = (at: Building, key: number | string, name: string, file: string, isGroup: boolean): Building => {
    let next = at.byFrame.get(key);
    if (!next) {
      next = make(name, file, at.node, isGroup);
      at.byFrame.set(key, next);
      at.node.children.push(next.node);
    }
    return next;
  };
  for (const [kind, { bytes, count }] of kinds) {
    let at = root;
    const add = () => {
      at.node.bytes += bytes;
      at.node.count += count;
    };
    add();
    const frames = texts.frameIds(detail.kinds.stack[kind]);
    for (let i = frames.length - 1; i >= 0; --i) {
      const frame = texts.frame(frames[i]);
      at = into(at, frames[i], frame.function, frame.line ? `${frame.file}:${frame.line}` : frame.file, false);
      add();
    }
    if (frames.length === 0) {
      const group = detail.kinds.groups[0][kind];
      at = into(at, `group ${group}`, groups[group], "", true);
      add();
    }
  }
  sort(root.node);
  return root.node;
}

function sort(root: FlameNode): void {
  const open = [root];
  for (let node = open.pop(); node; node = open.pop()) {
    node.children.sort((a, b) => b.bytes - a.bytes);
    open.push(...node.children);
  }
}
