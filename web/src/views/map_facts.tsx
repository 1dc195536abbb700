// What a memory map shows, in figures.
import type { Segment, SegmentView } from "../data/segments";
import { bytes, count } from "../format";
import { t } from "../texts";

/** What a segment is for; empty: nothing in particular. */
export function kindOf(segment: Segment): string {
  return segment.isPrivate ? t("private pool") : segment.isSmall ? t("small requests") : segment.isExpandable ? t("expandable") : "";
}

export function MapFacts({ views }: { views: SegmentView[] }) {
  const holes = views.flatMap((view) => (view.blocks.length > 0 ? view.holes : []));
  const empty = views.filter((view) => view.blocks.length === 0);
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  // Of each: its name, how many, and their bytes.
  const facts: [string, string, number | null, number][] = [
    ["segments", t("segments"), views.length, sum(views.map((view) => view.segment.bytes))],
    ["blocks", t("blocks"), sum(views.map((view) => view.blocks.length)), sum(views.map((view) => view.used))],
    ["holes", t("holes"), holes.length, sum(holes.map((hole) => hole.bytes))],
    ["largest-hole", t("largest hole"), null, holes.reduce((most, hole) => Math.max(most, hole.bytes), 0)],
    ["empty", t("empty segments"), empty.length, sum(empty.map((view) => view.segment.bytes))],
  ];
  return (
    <dl class="facts is-first">
      {facts.map(([id, name, number, size]) => (
        <div key={id} data-fact={id} data-count={number} data-bytes={size}>
          <dt>{name}</dt>
          <dd>{number === null ? bytes(size) : `${count(number)}, ${bytes(size)}`}</dd>
        </div>
      ))}
    </dl>
  );
}
