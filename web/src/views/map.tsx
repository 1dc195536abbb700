// The memory map: where blocks and holes are at the chosen moment, and which groups keep free space from being given back.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { Canvas, type Pen } from "../charts/canvas";
import { drawMap, layOutMap, type MapLayout, placeAt } from "../charts/map";
import { colourOf, theme } from "../charts/palette";
import type { SegmentView } from "../data/segments";
import { address, bytes } from "../format";
import { t } from "../texts";
import { attachPlaces } from "../ui/pointer";
import { Tooltip, type TooltipContent } from "../ui/tooltip";
import { BlockDetails } from "./block";
import { kindOf, MapFacts } from "./map_facts";
import { SpaceChart } from "./space";

export function MapView({ app }: { app: App }) {
  const state = useStore(app.store);
  const layout = useRef<MapLayout | null>(null);
  const [tip, setTip] = useState<TooltipContent | null>(null);
  const { detail } = app;
  const views = app.segments(state.position);
  const draw = (pen: Pen) => {
    if (!detail) return;
    layout.current = layOutMap(views, pen.width, pen.height);
    drawMap(pen, layout.current, { blocks: detail, dimension: state.dimension, highlight: state.highlight, block: state.block === null ? null : detail.indexOf(state.block) }, theme());
  };
  const attach = useMemo(
    () => (canvas: HTMLCanvasElement) => {
      const at = (x: number, y: number) => (app.detail && layout.current ? placeAt(layout.current, app.detail, x, y) : null);
      return attachPlaces(canvas, {
        hover(x, y) {
          const place = at(x, y);
          setTip(place ? tooltipOf(app, place, x, y) : null);
        },
        click(x, y) {
          const block = at(x, y)?.block ?? null;
          app.store.set({ block: block === null ? null : (app.detail?.ids[block] ?? null) });
        },
        leave: () => setTip(null),
      });
    },
    [app],
  );
  return (
    <section class="map-view" aria-label={t("Memory map")}>
      {state.map === "time" ? (
        <SpaceChart app={app} />
      ) : (
        <div class="chart-box">
          <Canvas label={t("Segments, blocks and holes at the chosen moment")} draw={draw} attach={attach} />
          <Tooltip content={tip} />
        </div>
      )}
      <aside class="side">
        <Player app={app} />
        {state.block !== null && detail ? <BlockDetails app={app} id={state.block} /> : <MapSummary app={app} views={views} />}
      </aside>
    </section>
  );
}

function tooltipOf(app: App, place: NonNullable<ReturnType<typeof placeAt>>, x: number, y: number): TooltipContent {
  const { detail } = app;
  const { segment } = place.view;
  const dimension = app.store.get().dimension;
  const rows: TooltipContent["rows"] = [];
  if (place.block !== null && detail) {
    const group = detail.group(place.block, dimension);
    rows.push({ name: app.groups(dimension)[group], value: bytes(detail.requestedBytes(place.block)), colour: colourOf(group, theme()), isMain: true });
    rows.push({ name: t("block"), value: bytes(detail.blockBytes(place.block)) });
    rows.push({ name: t("address"), value: address(detail.address[place.block]) });
  } else if (place.hole) {
    rows.push({ name: t("hole"), value: bytes(place.hole.bytes), isMain: true });
    rows.push({ name: t("address"), value: address(place.hole.address) });
  }
  const kind = kindOf(segment);
  rows.push({ name: kind ? `${t("segment")} · ${kind}` : t("segment"), value: bytes(segment.bytes) });
  rows.push({ name: t("of it in use"), value: bytes(place.view.used) });
  return { x, y, title: address(segment.address), rows };
}

interface Pinner {
  group: number;
  pinned: number;
  free: number;
  segments: number;
}

/** Groups whose blocks are the only ones in segments with free space: without them, the segments could be given back. */
export function pinners(app: App, views: SegmentView[]): Pinner[] {
  const { detail } = app;
  if (!detail) return [];
  const found = new Map<number, Pinner>();
  for (const view of views) {
    const free = view.segment.bytes - view.used;
    if (free <= 0 || view.blocks.length === 0 || view.segment.isPrivate) continue;
    const group = detail.group(view.blocks[0], 0);
    if (view.blocks.some((block) => detail.group(block, 0) !== group)) continue;
    const pinner = found.get(group) ?? { group, pinned: 0, free: 0, segments: 0 };
    pinner.pinned += view.used;
    pinner.free += free;
    ++pinner.segments;
    found.set(group, pinner);
  }
  return [...found.values()].sort((a, b) => b.free - a.free);
}

function MapSummary({ app, views }: { app: App; views: SegmentView[] }) {
  const names = app.groups(0);
  const list = pinners(app, views).slice(0, 30);
  return (
    <>
      <MapFacts views={views} />
      {list.length > 0 && <h2>{t("Alone in segments with free space")}</h2>}
      <ol class="pinners">
        {list.map((pinner) => (
          <li key={pinner.group}>
            <button type="button" onClick={() => app.store.set({ dimension: 0, highlight: pinner.group })}>
              <span class="swatch" style={{ background: colourOf(pinner.group, theme()) }} />
              <bdi class="name">{names[pinner.group]}</bdi>
              <span class="bytes">{t("{0} hold {1}", bytes(pinner.pinned), bytes(pinner.free))}</span>
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}

const SECONDS = 12; // to play the window

/** Moves the chosen moment along the window. */
function Player({ app }: { app: App }) {
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => {
    if (!isPlaying) return;
    let frame = 0;
    let before = performance.now();
    const axis = app.axis();
    let at = axis.of(app.store.get().position);
    const step = (now: number) => {
      const [from, to] = app.store.get().window ?? [axis.begin, axis.end];
      at += ((now - before) / 1000 / SECONDS) * (to - from);
      before = now;
      if (at >= to || at < from) at = from;
      const position = axis.position(at);
      if (position !== app.store.get().position) app.choose(position);
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [isPlaying]);
  const { map } = app.store.get();
  return (
    <div class="player">
      <button type="button" aria-pressed={map === "time"} onClick={() => app.store.set({ map: map === "time" ? "moment" : "time" })}>
        {map === "time" ? t("at the moment") : t("over time")}
      </button>
      <button type="button" aria-pressed={isPlaying} onClick={() => setPlaying(!isPlaying)}>
        {isPlaying ? `❚❚ ${t("stop")}` : `▶ ${t("play")}`}
      </button>
      <select
        aria-label={t("Colour by")}
        value={app.store.get().dimension}
        onChange={(event) => app.store.set({ dimension: Number(event.currentTarget.value), highlight: null })}
      >
        {app.model.head.dimensions.map((_, index) => (
          <option key={index} value={index}>
            {t("by {0}", app.dimensionName(index))}
          </option>
        ))}
      </select>
    </div>
  );
}
