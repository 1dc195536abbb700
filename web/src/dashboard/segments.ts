// The segments that a process listed (vram.segments/1), as the memory map draws them.
import type { MapBlocks, SegmentView } from "../data/segments";
import type { SegmentList } from "./api";

const FREE = 0;
const HELD = 2;

// Groups of blocks, which have the colours of these numbers.
export const IN_TENSORS = 0;
export const AWAITED = 2;

export interface LiveMap {
  views: SegmentView[];
  blocks: MapBlocks;
  requested: number[]; // by block
}

/** The numbers that the process gives the GPUs of the list. */
export const gpusOf = (list: SegmentList): number[] => [...new Set(list.segments.map(({ number }) => number))].sort((a, b) => a - b);

export function liveMap(list: SegmentList, number: number): LiveMap {
  const addresses: number[] = [];
  const sizes: number[] = [];
  const requested: number[] = [];
  const groups: number[] = [];
  const views = list.segments
    .filter((each) => each.number === number)
    .map((each): SegmentView => {
      const { address, size_bytes, stream, is_small, is_expandable, is_private } = each;
      const segment = { address, bytes: size_bytes, stream, isSmall: is_small, isExpandable: is_expandable, isPrivate: is_private, stack: 0 };
      const view: SegmentView = { segment, blocks: [], used: 0, holes: [] };
      let cursor = address;
      each.sizes.forEach((bytes, index) => {
        if (each.states[index] === FREE) view.holes.push({ address: cursor, bytes });
        else {
          view.blocks.push(addresses.length);
          view.used += bytes;
          addresses.push(cursor);
          sizes.push(bytes);
          requested.push(each.requested[index]);
          groups.push(each.states[index] === HELD ? AWAITED : IN_TENSORS);
        }
        cursor += bytes;
      });
      return view;
    });
  return { views, blocks: { address: addresses, blockBytes: (block) => sizes[block], group: (block) => groups[block] }, requested };
}
