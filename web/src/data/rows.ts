// The rows of the table of allocations: which blocks, by a search, in an order.
import { type Detail, NEVER } from "./detail";

export type RowSet = "live" | "window" | "all";
export type SortBy = "bytes" | "begin" | "life" | "address";

export interface RowQuery {
  set: RowSet;
  position: number;
  from: number; // positions of the window
  to: number;
  text: string;
  group: number | null;
  dimension: number;
  sort: SortBy;
  isRising: boolean;
}

/** A search is words, each of which must be in a block's names; ">1MiB" and "<4KiB" limit its size. */
export interface Search {
  words: string[];
  min: number;
  max: number;
}

const UNITS: Record<string, number> = { b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };

export function parseSearch(text: string): Search {
  const search: Search = { words: [], min: 0, max: Number.POSITIVE_INFINITY };
  for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
    const limit = /^([<>])=?(\d+(?:\.\d+)?)([bkmgt]?)(?:i?b)?$/.exec(word);
    if (!limit) {
      search.words.push(word);
      continue;
    }
    const size = Number(limit[2]) * (UNITS[limit[3]] ?? 1);
    if (limit[1] === ">") search.min = size;
    else search.max = size;
  }
  return search;
}

/** Which kinds of blocks match. `textOf`: all names of a kind, in lower case. */
function matchingKinds(detail: Detail, search: Search, query: RowQuery, textOf: (kind: number) => string): Uint8Array {
  const { requested, groups } = detail.kinds;
  const matches = new Uint8Array(requested.length);
  for (let kind = 0; kind < matches.length; ++kind) {
    if (requested[kind] < search.min || requested[kind] > search.max) continue;
    if (query.group !== null && groups[query.dimension][kind] !== query.group) continue;
    if (search.words.length > 0) {
      const text = textOf(kind);
      if (!search.words.every((word) => text.includes(word))) continue;
    }
    matches[kind] = 1;
  }
  return matches;
}

export interface Rows {
  blocks: Int32Array;
  bytes: number; // requested
}

export function findRows(detail: Detail, query: RowQuery, textOf: (kind: number) => string): Rows {
  const matches = matchingKinds(detail, parseSearch(query.text), query, textOf);
  const found: number[] = [];
  let bytes = 0;
  const add = (block: number) => {
    if (!matches[detail.kind[block]]) return;
    found.push(block);
    bytes += detail.requestedBytes(block);
  };
  if (query.set === "live") detail.live(query.position).forEach(add);
  else {
    const [from, to] = query.set === "all" ? [0, NEVER] : [query.from, query.to];
    for (let block = 0; block < detail.count && detail.begin[block] <= to; ++block)
      if (detail.begin[block] >= from) add(block);
  }
  return { blocks: sorted(detail, Int32Array.from(found), query), bytes };
}

function sorted(detail: Detail, blocks: Int32Array, { sort, isRising }: RowQuery): Int32Array {
  const values: Record<SortBy, (block: number) => number> = {
    bytes: (block) => detail.requestedBytes(block),
    begin: (block) => detail.begin[block],
    life: (block) => (detail.end[block] === NEVER ? NEVER : detail.end[block] - detail.begin[block]),
    address: (block) => detail.address[block],
  };
  if (sort === "begin") return isRising ? blocks : blocks.reverse();
  const value = values[sort];
  const keys = Float64Array.from(blocks, value);
  const order = Uint32Array.from(blocks, (_, i) => i);
  order.sort((a, b) => (isRising ? keys[a] - keys[b] : keys[b] - keys[a]) || a - b);
  return Int32Array.from(order, (i) => blocks[i]);
}
