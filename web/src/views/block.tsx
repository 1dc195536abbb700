// One block in full: its life, its place, its groups and its stack.
import type { App } from "../app/app";
import { NEVER } from "../data/detail";
import type { Frame } from "../data/page";
import { address, bytes, count, duration } from "../format";
import { t } from "../texts";

export function Stack({ frames }: { frames: Frame[] }) {
  if (frames.length === 0) return <p class="more">{t("no stack recorded")}</p>;
  return (
    <ol class="stack" aria-label={t("Stack, innermost first")}>
      {frames.slice(0, 200).map((frame, index) => (
        <li key={index}>
          <bdi class="function">{frame.function}</bdi>
          <bdi class="file">
            {frame.file}
            {frame.line ? `:${frame.line}` : ""}
          </bdi>
        </li>
      ))}
    </ol>
  );
}

export function BlockDetails({ app, id }: { app: App; id: number }) {
  const { head } = app.model;
  const { detail } = app;
  if (!detail) return null;
  const block = detail.indexOf(id);
  if (block < 0) return <p class="more">{t("The chosen block is not active near this moment.")}</p>;
  const begin = detail.begin[block];
  const end = detail.end[block];
  const axis = app.model.axis("time");
  const when = (position: number) => {
    if (position === 0) return t("before the recording");
    const event = t("event {0}", count(position - 1));
    return head.clock === "time" ? `${duration(axis.timeOf(position))}, ${event}` : event;
  };
  const facts: [string, string][] = [
    [t("requested"), `${bytes(detail.requestedBytes(block))} (${count(detail.requestedBytes(block))} B)`],
    [t("block"), bytes(detail.blockBytes(block))],
    [t("address"), address(detail.address[block])],
    [t("allocated"), when(begin)],
    [t("freed"), end === NEVER ? t("not in the recording") : when(end)],
  ];
  if (end !== NEVER && head.clock === "time" && begin > 0)
    facts.push([t("lived"), duration(axis.timeOf(end) - axis.timeOf(begin))]);
  head.dimensions.forEach((dimension, index) => {
    if (dimension.id !== "size") facts.push([app.dimensionName(index), dimension.groups[detail.group(block, index)]]);
  });
  const stack = detail.kinds.stack[detail.kind[block]];
  return (
    <section class="block-details" aria-label={t("The chosen block")} data-bytes={detail.requestedBytes(block)}>
      <h2>{t("Block")}</h2>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <bdi>{value.slice(0, 300)}</bdi>
            </dd>
          </div>
        ))}
      </dl>
      <div class="links">
        <button type="button" onClick={() => app.choose(begin)}>
          {t("to its allocation")}
        </button>
        <button type="button" onClick={() => app.showRange(begin, end === NEVER ? app.model.positions - 1 : end)}>
          {t("show its life")}
        </button>
      </div>
      <Stack frames={app.recording.texts?.stack(stack) ?? []} />
    </section>
  );
}
