// A random program over a small allocator, as the blocks of a page and as plain facts to compare with.
import { Detail, readKinds, readSegments } from "../src/data/detail";
import type { DeviceHead } from "../src/data/page";
import { columnsOf, differences, zigzag } from "./encode";

export interface Life {
  begin: number;
  end: number; // 0: never
  wait: number;
  bytes: number;
  group: number;
  address: number;
}

export interface Program {
  head: DeviceHead;
  lives: Life[];
  detail: Detail; // the whole
  parts: Detail[];
}

export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** `events` events: allocations and frees, each with the free's request one event before its completion. */
export function makeProgram(seed: number, events: number, groups = 14, partPositions = 2 ** 20): Program {
  const next = random(seed);
  const lives: Life[] = [];
  const live: Life[] = [];
  for (let i = 0; i < 3; ++i) lives.push({ begin: 0, end: 0, wait: 0, bytes: 512 * (i + 1), group: i, address: 4096 * i });
  live.push(...lives);
  let position = 1;
  while (position < events) {
    if (live.length > 0 && next() < 0.45) {
      const [freed] = live.splice(Math.floor(next() * live.length), 1);
      freed.end = ++position;
      freed.wait = 1;
    } else {
      const life = { begin: position, end: 0, wait: 0, bytes: 512 * (1 + Math.floor(next() * 40)), group: Math.floor(next() * groups), address: position * 65536 };
      lives.push(life);
      live.push(life);
    }
    ++position;
  }
  return build(lives, position, groups, partPositions);
}

/** The lives that are active in [first, last), as src/pages/device_blocks.cpp writes them. */
function encodePart(lives: Life[], first: number, last: number): Uint8Array {
  const ids = lives.flatMap((life, i) => (life.begin < last && (life.end === 0 || life.end > first) ? [i] : []));
  const inside = ids.map((id) => lives[id]);
  const addresses = [...new Set(inside.map((life) => life.address))].sort((a, b) => a - b);
  const index = new Map(addresses.map((address, i) => [address, i]));
  return columnsOf([
    differences(ids),
    differences(inside.map((life) => life.begin)),
    inside.map((life) => (life.end === 0 ? 0 : life.end - life.begin)),
    inside.map((life) => life.wait),
    ids,
    inside.map((life) => index.get(life.address) as number),
    differences(addresses),
  ]);
}

function build(lives: Life[], positions: number, groups: number, partPositions: number): Program {
  const head: DeviceHead = {
    name: "GPU 0",
    clock: "event_index",
    events: positions - 1,
    lifetimes: lives.length,
    bin_positions: 64,
    part_positions: partPositions,
    time_unit_ns: 1,
    memory_bytes: null,
    dimensions: [{ id: "user_frame", groups: Array.from({ length: groups }, (_, i) => `group ${i}`) }],
  };
  const kindColumns = columnsOf([
    lives.map((life) => life.bytes - 100),
    lives.map((life) => life.bytes),
    lives.map(() => 0),
    lives.map((life) => life.group),
  ]);
  const segmentColumns = columnsOf([[0, 10], [0, 0], [zigzag(0), zigzag(2 ** 30)], [2 ** 20, 2 ** 21], [0, 0], [0, 0]]);
  const kinds = readKinds(kindColumns, head);
  const segments = readSegments(segmentColumns);
  const part = (first: number, last: number) => new Detail(first, last, encodePart(lives, first, last), kinds, segments);
  const parts: Detail[] = [];
  for (let first = 0; first < positions; first += partPositions) parts.push(part(first, Math.min(first + partPositions, positions)));
  return { head, lives, detail: part(0, positions), parts };
}
