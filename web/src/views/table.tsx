// The table of allocations: those that are live at the chosen moment, of the window, or all; with search, filter and order.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { colourOf, theme } from "../charts/palette";
import { NEVER } from "../data/detail";
import { findRows, type RowSet, type Rows, type SortBy } from "../data/rows";
import { address, bytes, count, duration, moment } from "../format";
import { t } from "../texts";
import { BlockDetails } from "./block";
import { SearchBox } from "./flame";

const ROW = 24;
// Browsers limit the height of an element to about 33 million pixels.
const MAX_ROWS = 1_000_000;
const MAX_HEIGHT = 4000; // of what is seen, whatever the layout makes of it

const SETS: [RowSet, string][] = [
  ["live", t("live at the moment")],
  ["window", t("allocated in the window")],
  ["all", t("all")],
];
const HEADS: [SortBy | null, string][] = [
  ["bytes", t("requested")],
  [null, t("where")],
  ["begin", t("allocated")],
  ["life", t("lived")],
  ["address", t("address")],
];

export function TableView({ app }: { app: App }) {
  const state = useStore(app.store);
  const [set, setSet] = useState<RowSet>("live");
  const [order, setOrder] = useState<{ by: SortBy; isRising: boolean }>({ by: "bytes", isRising: false });
  const axis = app.axis();
  const window = state.range ?? (state.window ? [axis.position(state.window[0]), axis.position(state.window[1])] : [0, app.model.positions]);
  const rows = useMemo(
    () => rowsOf(app, set, window[0], window[1], order),
    [app, set, order, state.device, state.loaded, state.query, state.dimension, state.highlight, set === "live" ? state.position : `${app.detail?.first}/${window.join()}`],
  );
  return (
    <section class={state.block === null ? "table-view has-no-block" : "table-view"} aria-label={t("Allocations")}>
      <div class="table-main">
        <div class="tools">
          <select aria-label={t("Which blocks")} value={set} onChange={(event) => setSet(event.currentTarget.value as RowSet)}>
            {SETS.map(([id, name]) => (
              <option key={id} value={id}>
                {t(name)}
              </option>
            ))}
          </select>
          <SearchBox app={app} />
          {state.highlight !== null && (
            <button type="button" class="chip" onClick={() => app.store.set({ highlight: null })}>
              <bdi>{app.groups(state.dimension)[state.highlight].slice(0, 80)}</bdi> ×
            </button>
          )}
          <span class="what" data-rows={rows?.blocks.length} data-bytes={rows?.bytes}>
            {rows &&
              (rows.blocks.length === 1
                ? t("1 block, {0}", bytes(rows.bytes))
                : t("{0} blocks, {1}", count(rows.blocks.length), bytes(rows.bytes)))}
            {rows && set !== "live" && !app.model.isOnePart && ` · ${partName(app)}`}
          </span>
        </div>
        <div class="table" role="table" aria-label={t("Allocations")} aria-rowcount={rows?.blocks.length}>
          <div class="row row-head" role="row">
            {HEADS.map(([by, name]) => (
              <span key={name} role="columnheader" aria-sort={by === order.by ? (order.isRising ? "ascending" : "descending") : "none"}>
                <button type="button" disabled={!by} onClick={() => by && setOrder({ by, isRising: by === order.by ? !order.isRising : false })}>
                  {t(name)}
                  {by === order.by && (order.isRising ? " ↑" : " ↓")}
                </button>
              </span>
            ))}
          </div>
          {rows && <Body app={app} rows={rows} />}
        </div>
      </div>
      <aside class="side">
        {state.block !== null ? <BlockDetails app={app} id={state.block} /> : <p class="more">{t("Choose a block to see its stack.")}</p>}
      </aside>
    </section>
  );
}

/** Of a large recording, only blocks of the part around the chosen moment are listed. */
function partName(app: App): string {
  const { detail } = app;
  return detail ? t("of events {0} to {1}", count(detail.first), count(detail.last - 1)) : "";
}

function rowsOf(app: App, set: RowSet, from: number, to: number, order: { by: SortBy; isRising: boolean }): Rows | null {
  const { head } = app.model;
  const { detail } = app;
  const { texts } = app.recording;
  const { query, highlight, dimension, position } = app.store.get();
  if (!detail || !texts) return null;
  const stackTexts = new Map<number, string>();
  const textOf = (kind: number) => {
    const stack = detail.kinds.stack[kind];
    let text = stackTexts.get(stack);
    if (text === undefined) {
      text = texts
        .stack(stack)
        .map((frame) => `${frame.function} ${frame.file}:${frame.line}`)
        .join("\n")
        .toLowerCase();
      stackTexts.set(stack, text);
    }
    const names = head.dimensions.map((each, i) => each.groups[detail.kinds.groups[i][kind]]);
    return `${names.join("\n").toLowerCase()}\n${text}`;
  };
  return findRows(
    detail,
    { set, position, from, to, text: query, group: highlight, dimension, sort: order.by, isRising: order.isRising },
    textOf,
  );
}

/** Only the rows that are seen are elements. */
function Body({ app, rows }: { app: App; rows: Rows }) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(Math.min(MAX_HEIGHT, element.clientHeight)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const all = Math.min(rows.blocks.length, MAX_ROWS);
  const first = Math.max(0, Math.floor(top / ROW) - 4);
  const last = Math.min(all, first + Math.ceil(height / ROW) + 8);
  const shown: number[] = [];
  for (let i = first; i < last; ++i) shown.push(rows.blocks[i]);
  return (
    <div class="rows" ref={box} onScroll={(event) => setTop(event.currentTarget.scrollTop)} tabIndex={0} role="rowgroup">
      <div role="presentation" style={{ height: `${all * ROW}px`, paddingTop: `${first * ROW}px` }}>
        {shown.map((block) => (
          <Row key={block} app={app} block={block} />
        ))}
      </div>
    </div>
  );
}

function Row({ app, block }: { app: App; block: number }) {
  const { head } = app.model;
  const { detail } = app;
  const { dimension, block: chosen } = app.store.get();
  if (!detail) return null;
  const axis = app.model.axis("time");
  const isTime = head.clock === "time";
  const [begin, end] = [detail.begin[block], detail.end[block]];
  const group = detail.group(block, dimension);
  const life = isTime ? duration(axis.timeOf(end) - axis.timeOf(begin)) : t("{0} events", count(end - begin));
  return (
    <div role="row" class={detail.ids[block] === chosen ? "row is-chosen" : "row"} data-bytes={detail.requestedBytes(block)} onClick={() => app.store.set({ block: detail.ids[block] })}>
      <span role="cell">{bytes(detail.requestedBytes(block))}</span>
      <span role="cell" class="where">
        <span class="swatch" style={{ background: colourOf(group, theme()) }} />
        <button type="button">
          <bdi>{head.dimensions[dimension].groups[group].slice(0, 300)}</bdi>
        </button>
      </span>
      <span role="cell">{begin === 0 ? t("before") : isTime ? moment(axis.timeOf(begin), 1e4) : count(begin - 1)}</span>
      <span role="cell">{end === NEVER ? t("to the end") : life}</span>
      <span role="cell" class="address">
        {address(detail.address[block])}
      </span>
    </div>
  );
}
