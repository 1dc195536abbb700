// Compare: the recordings of a page one below the other on the same scale, and what differs: the places whose memory changed between two
// recordings (vram.diff/1), or how the ranks of a program differ (vram.ranks/1).
import { useEffect, useState } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { Canvas, FONT, fitText, haloText, type Pen } from "../charts/canvas";
import { type Theme, theme } from "../charts/palette";
import { boundaries, sample } from "../charts/samples";
import type { DeviceModel } from "../data/model";
import type { Diff, Ranks } from "../data/page";
import { json } from "../data/blocks";
import { bytes } from "../format";
import { t } from "../texts";
import { RankMatrix, RankTable } from "./ranks";

export function CompareView({ app }: { app: App }) {
  useStore(app.store);
  const [models, setModels] = useState<DeviceModel[]>([]);
  const [diff, setDiff] = useState<Diff | null>(null);
  const [ranks, setRanks] = useState<Ranks | null>(null);
  useEffect(() => {
    void Promise.all(app.recordings.map((recording) => recording.device(recording.head.main_device))).then(setModels);
    if (app.head.documents.includes("diff")) void json<Diff>(app.source, "diff").then(setDiff);
    if (app.head.documents.includes("ranks")) void json<Ranks>(app.source, "ranks").then(setRanks);
  }, [app]);
  return (
    <section class="compare-view" aria-label={t("Compare")}>
      <div class="scroll">
        {ranks && ranks.steps.length > 0 && <RankMatrix app={app} ranks={ranks} />}
        <div class="rows-box" style={{ height: `${Math.max(1, models.length) * rowHeight(models.length) + 8}px` }}>
          <Canvas label={t("Memory of each recording over its own time, on one scale")} draw={(pen) => drawRows(pen, app, models, theme())} />
        </div>
        <ol class="row-links">
          {models.map((model, index) => (
            <li key={index}>
              <button type="button" onClick={() => void app.switchTo(index).then(() => app.store.set({ view: "timeline" }))}>
                <bdi class="name">{app.head.recordings[index].title}</bdi>
                <span>{t("peak {0}", bytes(model.report.peak.requested_bytes))}</span>
              </button>
            </li>
          ))}
        </ol>
      </div>
      <aside class="side wide">
        {diff && <Changes app={app} diff={diff} />}
        {ranks && <RankTable ranks={ranks} />}
      </aside>
    </section>
  );
}

const rowHeight = (count: number): number => (count <= 2 ? 250 : count <= 4 ? 150 : 84);

/** Requested and reserved memory of each recording; a step or a second is as wide in all of them. */
function drawRows({ context, width }: Pen, app: App, models: DeviceModel[], colours: Theme): void {
  const mode = app.store.get().axis;
  const axes = models.map((model) => model.axis(mode));
  const end = Math.max(1, ...axes.map((axis) => axis.end));
  const columns = Math.max(1, Math.floor(width - 24));
  const height = rowHeight(models.length);
  const samples = models.map((model, i) => {
    const own = Math.max(1, Math.round((axes[i].end / end) * columns));
    return sample([model.levels.coarse(0)], boundaries(axes[i], [0, axes[i].end], own));
  });
  const most = Math.max(1, ...samples.flatMap((each) => [Math.max(...each.reserved), Math.max(...each.peak)]));
  context.font = FONT;
  context.textBaseline = "middle";
  samples.forEach((each, i) => {
    const bottom = (i + 1) * height - 4;
    const y = (value: number) => bottom - (value / most) * (height - 22);
    fill(context, each.reserved, y, colours.isDark ? "#2a323b" : "#e3e8ee");
    fill(context, each.peak, y, colours.groups[i % colours.groups.length]);
    const { report } = models[i];
    const peakX = 12 + (axes[i].of(models[i].peak) / end) * columns;
    context.fillStyle = colours.ink;
    context.fillRect(peakX - 0.5, y(report.peak.requested_bytes) - 4, 1, 4);
    context.textAlign = peakX > width - 90 ? "right" : "left";
    haloText(context, bytes(report.peak.requested_bytes), peakX, y(report.peak.requested_bytes) - 10, colours.surface);
    context.textAlign = "left";
    haloText(context, fitText(context, app.head.recordings[i].title, width / 2), 16, bottom - height + 12, colours.surface);
    context.fillStyle = colours.grid;
    context.fillRect(12, bottom, columns, 1);
  });
}

function fill(context: CanvasRenderingContext2D, values: Float64Array, y: (value: number) => number, colour: string): void {
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(12, y(0));
  values.forEach((value, i) => {
    context.lineTo(12 + i, y(value));
    context.lineTo(13 + i, y(value));
  });
  context.lineTo(12 + values.length, y(0));
  context.fill();
}

const signedBytes = (value: number): string => (value > 0 ? `+${bytes(value)}` : bytes(value));

/** How a place changed, by the words of the data. */
const CHANGES: Record<string, string> = { new: t("new"), grown: t("grown"), shrunk: t("shrunk"), gone: t("gone") };

function Changes({ app, diff }: { app: App; diff: Diff }) {
  return (
    <>
      {diff.devices.map((device, index) => {
        const most = Math.max(1, ...device.sites.map((site) => Math.abs(site.growth_bytes)));
        return (
          <div key={index}>
            <h2>
              {t("{0} at the peak", device.kind === "host" ? t("pinned host memory") : `GPU ${device.device}`)}: {signedBytes(device.growth_bytes)}
            </h2>
            <ol class="changes">
              {device.sites.map((site, i) => (
                <li key={i} data-growth={site.growth_bytes}>
                  <button
                    type="button"
                    onClick={() => {
                      const group = app.groups(0).indexOf(site.name);
                      app.store.set({ view: "timeline", dimension: 0, highlight: group < 0 ? null : group });
                    }}
                  >
                    <b class={site.growth_bytes > 0 ? "is-more" : "is-less"}>{signedBytes(site.growth_bytes)}</b>
                    <bdi class="name">{site.name}</bdi>
                    <span class="more-line">
                      {t(CHANGES[site.kind] ?? site.kind)} · {bytes(site.a_bytes)} → {bytes(site.b_bytes)}
                    </span>
                    <span class="share" style={{ width: `${(Math.abs(site.growth_bytes) / most) * 100}%` }} />
                  </button>
                </li>
              ))}
            </ol>
          </div>
        );
      })}
    </>
  );
}
