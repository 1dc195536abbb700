// A random program over a small allocator, as the blocks of a page and as plain facts to compare with.
import { Detail } from "../src/data/detail";
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
  detail: Detail;
}

export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** `events` events: allocations and frees, each with the free's request one event before its completion. */
export function makeProgram(seed: number, events: number, groups = 14): Program {
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
  return build(lives, position, groups);
}

function build(lives: Life[], positions: number, groups: number): Program {
  const head: DeviceHead = {
    name: "GPU 0",
    clock: "event_index",
    events: positions - 1,
    lifetimes: lives.length,
    bin_positions: 64,
    time_unit_ns: 1,
    memory_bytes: null,
    dimensions: [{ id: "user_frame", groups: Array.from({ length: groups }, (_, i) => `group ${i}`) }],
  };
  const addresses = [...new Set(lives.map((life) => life.address))].sort((a, b) => a - b);
  const index = new Map(addresses.map((address, i) => [address, i]));
  const lifetimes = columnsOf([
    differences(lives.map((life) => life.begin)),
    lives.map((life) => (life.end === 0 ? 0 : life.end - life.begin)),
    lives.map((life) => life.wait),
    lives.map((_, i) => i),
    lives.map((life) => index.get(life.address) as number),
    differences(addresses),
  ]);
  const kinds = columnsOf([
    lives.map((life) => life.bytes - 100),
    lives.map((life) => life.bytes),
    lives.map(() => 0),
    lives.map((life) => life.group),
  ]);
  const segments = columnsOf([[0, 10], [0, 0], [zigzag(0), zigzag(2 ** 30)], [2 ** 20, 2 ** 21], [0, 0], [0, 0]]);
  return { head, lives, detail: new Detail(head, lifetimes, kinds, segments) };
}
