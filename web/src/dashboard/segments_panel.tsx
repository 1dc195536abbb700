// The memory map of a process's allocator, live: segments, blocks and holes, as the process lists them while this is shown.
import { useMemo, useRef, useState } from "preact/hooks";
import { Canvas, type Pen } from "../charts/canvas";
import { drawMap, layOutMap, type MapLayout, placeAt } from "../charts/map";
import { colourOf, theme } from "../charts/palette";
import { address, bytes, count } from "../format";
import { t } from "../texts";
import { attachPlaces } from "../ui/pointer";
import { Tooltip, type TooltipContent } from "../ui/tooltip";
import { kindOf, MapFacts } from "../views/map_facts";
import type { Segments } from "./api";
import type { Board } from "./board";
import { agoText } from "./clock";
import { usePolled } from "./poll";
import { AWAITED, gpusOf, IN_TENSORS, type LiveMap, liveMap } from "./segments";

const PAUSE_MS = 1_000;
const FIRST_PAUSE_MS = 200; // until the first list is there

const GROUPS: [number, string][] = [
  [IN_TENSORS, t("tensors")],
  [AWAITED, t("freed, in use by another stream")],
];

export function SegmentsPanel({ board, pid, gpuName }: { board: Board; pid: number; gpuName(number: number): string }) {
  const { document, trouble } = usePolled<Segments>(board, "api/v1/segments", (last) => (last?.list ? PAUSE_MS : FIRST_PAUSE_MS), { pid });
  const [chosen, setChosen] = useState<number | null>(null);
  const list = document?.list ?? null;
  const problem = trouble || document?.error;
  const gpus = list ? gpusOf(list) : [];
  const gpu = chosen !== null && gpus.includes(chosen) ? chosen : gpus[0];
  const map = useMemo(() => (list && gpu !== undefined ? liveMap(list, gpu) : null), [list, gpu]);
  return (
    <div class="segments-panel" data-taken={list?.taken_unix_ns}>
      <div class="segments-head">
        {gpus.length > 1 &&
          gpus.map((number) => (
            <button key={number} type="button" class="action" aria-pressed={number === gpu} onClick={() => setChosen(number)}>
              {gpuName(number)}
            </button>
          ))}
        {map &&
          GROUPS.map(([group, name]) => (
            <span key={group}>
              <span class="swatch" style={{ background: colourOf(group, theme()) }} /> {t(name)}
            </span>
          ))}
        {list && <span class="calm">{t("listed {0}", agoText(Math.max(0, Math.round(Date.now() / 1000 - list.taken_unix_ns / 1e9))))}</span>}
        {!list && !problem && <span class="calm">{t("The process is asked for its segments. It answers at the end of a step.")}</span>}
        {problem && <bdi class="trouble">{problem}</bdi>}
      </div>
      {list && list.segments.length < list.segment_count && (
        <p class="calm">{t("Shown are {0} of {1} segments.", count(list.segments.length), count(list.segment_count))}</p>
      )}
      {list && gpu === undefined && <p class="calm">{t("The process has no segments now.")}</p>}
      {map && <Map map={map} />}
    </div>
  );
}

function Map({ map }: { map: LiveMap }) {
  const layout = useRef<MapLayout | null>(null);
  const latest = useRef(map);
  latest.current = map;
  const [tip, setTip] = useState<TooltipContent | null>(null);
  const draw = (pen: Pen) => {
    layout.current = layOutMap(map.views, pen.width, pen.height);
    drawMap(pen, layout.current, { blocks: map.blocks, dimension: 0, highlight: null, block: null }, theme());
  };
  const attach = (canvas: HTMLCanvasElement) =>
    attachPlaces(canvas, {
      hover: (x, y) => setTip(layout.current ? tooltipOf(latest.current, layout.current, x, y) : null),
      leave: () => setTip(null),
    });
  return (
    <div class="segments-map">
      <div class="chart-box">
        <Canvas label={t("Segments, blocks and holes now")} draw={draw} attach={attach} />
        <Tooltip content={tip} />
      </div>
      <MapFacts views={map.views} />
    </div>
  );
}

function tooltipOf(map: LiveMap, layout: MapLayout, x: number, y: number): TooltipContent | null {
  const place = placeAt(layout, map.blocks, x, y);
  if (!place) return null;
  const { segment } = place.view;
  const rows: TooltipContent["rows"] = [];
  if (place.block !== null) {
    const group = map.blocks.group(place.block, 0);
    const name = GROUPS.find(([id]) => id === group)?.[1] ?? "";
    rows.push({ name: t(name), value: bytes(map.blocks.blockBytes(place.block)), colour: colourOf(group, theme()), isMain: true });
    if (map.requested[place.block] > 0) rows.push({ name: t("requested"), value: bytes(map.requested[place.block]) });
    rows.push({ name: t("address"), value: address(map.blocks.address[place.block]) });
  } else if (place.hole) {
    rows.push({ name: t("hole"), value: bytes(place.hole.bytes), isMain: true });
    rows.push({ name: t("address"), value: address(place.hole.address) });
  }
  const kind = kindOf(segment);
  rows.push({ name: kind ? `${t("segment")} · ${kind}` : t("segment"), value: bytes(segment.bytes) });
  rows.push({ name: t("of it in use"), value: bytes(place.view.used) });
  if (segment.stream !== 0) rows.push({ name: t("stream"), value: address(segment.stream) });
  return { x, y, title: address(segment.address), rows };
}
