// What if: the reserved memory of replays with other allocators, over the same time, and what the program requested.
import { useEffect, useState } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { indexAt, type Line, type LinesState } from "../charts/lines";
import { theme } from "../charts/palette";
import type { Replays } from "../data/page";
import { bytes, duration } from "../format";
import { t } from "../texts";
import type { TooltipContent } from "../ui/tooltip";
import { LinesChart } from "./chart";

/** How exact a replay is, by the words of the data. */
const BASES: Record<string, string> = {
  exact: t("exact"),
  emulated: t("emulated"),
  estimate: t("estimate"),
  model: t("model"),
};

export function ReplaysView({ app }: { app: App }) {
  const state = useStore(app.store);
  const [replays, setReplays] = useState<Replays | null | undefined>(undefined);
  const [chosen, setChosen] = useState<number | null>(null);
  useEffect(() => {
    setReplays(undefined);
    void app.recording.replays(app.model.index).then(setReplays);
  }, [app, state.recording, state.device]);
  if (replays === undefined) return <section class="empty">{t("reading …")}</section>;
  if (replays === null) return <section class="empty">{t("No replays were made of this recording.")}</section>;
  const lines = linesOf(app, replays, chosen);
  const most = Math.max(...replays.replays.map((replay) => replay.peak_reserved_bytes), 1);
  const chart: LinesState = {
    axis: app.axis(),
    window: state.window ?? [app.axis().begin, app.axis().end],
    cursor: app.axis().of(state.position),
    most,
    limit: replays.capacity_bytes,
    lines: [requestedLine(app), ...lines],
  };
  const hover = (value: number, x: number, y: number): TooltipContent => ({
    x,
    y,
    title: t("reserved"),
    rows: replays.replays.map((replay, i) => {
      const index = indexAt(lines[i], value);
      return { name: replay.allocator, colour: lines[i].colour, value: index < 0 ? "" : bytes(lines[i].values[index]), isMain: i === chosen };
    }),
  });
  return (
    <section class="replays-view" aria-label={t("What if")}>
      <LinesChart app={app} label={t("Reserved memory with other allocators, over time")} state={chart} hover={hover} />
      <aside class="side">
        <h2>{t("Peak of reserved memory")}</h2>
        <ol class="replays">
          {replays.replays.map((replay, index) => (
            <li key={index} data-allocator={replay.allocator} data-peak={replay.peak_reserved_bytes}>
              <button type="button" aria-pressed={index === chosen} class={index === chosen ? "is-chosen" : ""} onClick={() => setChosen(index === chosen ? null : index)}>
                <span class="swatch" style={{ background: lines[index].colour }} />
                <bdi class="name">{replay.allocator}</bdi>
                <b>{bytes(replay.peak_reserved_bytes)}</b>
                <span class="more-line">
                  {[
                    replay.is_recorded ? t("as recorded") : "",
                    t(BASES[replay.basis] ?? replay.basis),
                    replay.completed ? "" : t("runs out of memory"),
                    t("driver {0}", duration(replay.driver_time_ns)),
                  ]
                    .filter(Boolean)
                    .join(" · ")}
                </span>
              </button>
            </li>
          ))}
        </ol>
        <p class="more">{t("The filled area is what the program requested. A replay runs the recorded requests against another allocator on a simulated GPU.")}</p>
      </aside>
    </section>
  );
}

function linesOf(app: App, replays: Replays, chosen: number | null): Line[] {
  const colours = theme();
  const axis = app.axis();
  return replays.replays.map((replay, index) => ({
    at: Float64Array.from(replay.times_ns, (ns) => (axis.mode === "time" || app.model.head.clock !== "time" ? ns : axis.atTime(ns))),
    values: Float64Array.from(replay.reserved_bytes),
    colour: replay.is_recorded ? colours.ink : colours.groups[index % colours.groups.length],
    width: chosen === null || chosen === index ? (replay.is_recorded ? 2 : 1.6) : 0.6,
    isDashed: replay.basis === "model",
  }));
}

/** What was requested, from the coarse timeline. */
function requestedLine(app: App): Line {
  const { bins } = app.model.overview;
  const axis = app.axis();
  const isDark = theme().isDark;
  return {
    at: Float64Array.from({ length: bins.count }, (_, i) => axis.of(i * bins.size)),
    values: bins.peak,
    colour: isDark ? "#23303f" : "#e3ebf4",
    width: 0,
    isFilled: true,
  };
}
