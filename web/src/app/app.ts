// What views of a recording share: the model of the chosen device, the state, and what is computed from both.
import { Axis } from "../data/axis";
import { Space } from "../charts/space";
import type { Detail, Totals } from "../data/detail";
import type { BlockSource } from "../data/blocks";
import { type DeviceModel, MAX_PARTS, type Recording } from "../data/model";
import type { Head } from "../data/page";
import { type SegmentView, viewSegments } from "../data/segments";
import { t } from "../texts";
import { Store } from "./store";

export interface Held {
  group: number;
  requested: number;
  block: number;
  count: number;
}

/** Size classes may be hundreds; where a recording says nothing about the code, their ranges are shown first. */
function defaultDimension(model: DeviceModel): number {
  const { dimensions } = model.head;
  return dimensions[0].id === "size" ? Math.max(0, dimensions.findIndex(({ id }) => id === "size_range")) : 0;
}

const DIMENSION_NAMES: Record<string, string> = {
  user_frame: t("line of code"),
  category: t("category"),
  scope: t("scope"),
  size: t("size"),
  size_range: t("power of two"),
  stream: t("stream"),
  pool: t("pool"),
  step: t("step of allocation"),
};

export class App {
  readonly store: Store;
  private axes: { key: string; axis: Axis } | null = null;
  private held: { key: string; held: Held[] } | null = null;
  private map: { key: string; views: SegmentView[] } | null = null;
  private spaces: { detail: Detail; space: Space } | null = null;
  private sums: { key: string; totals: Totals } | null = null;
  private lives: { key: string; live: number[] } | null = null;
  private loading: Promise<void> | null = null;

  constructor(
    readonly head: Head,
    readonly source: BlockSource,
    readonly recordings: Recording[],
    public model: DeviceModel,
  ) {
    this.store = new Store({
      view: "",
      recording: recordings.length - 1,
      device: model.index,
      dimension: defaultDimension(model),
      axis: "time",
      window: null,
      position: model.peak,
      range: null,
      highlight: null,
      map: "moment",
      block: null,
      query: "",
      help: false,
      loaded: 0,
      problem: "",
    });
  }

  /** The blocks of the part that has the chosen moment, if they are loaded. */
  get detail(): Detail | null {
    return this.model.detailAt(this.store.get().position);
  }

  get defaultDimension(): number {
    return defaultDimension(this.model);
  }
  get recording(): Recording {
    return this.recordings[this.store.get().recording];
  }

  axis(): Axis {
    const { axis, loaded } = this.store.get();
    const key = `${this.key()}/${axis}/${loaded}`;
    if (this.axes?.key !== key) this.axes = { key, axis: this.model.axis(axis) };
    return this.axes.axis;
  }

  private key(): string {
    return `${this.store.get().recording}/${this.model.index}`;
  }

  dimensionName(dimension: number): string {
    const id = this.model.head.dimensions[dimension]?.id ?? "";
    return t(DIMENSION_NAMES[id] ?? id);
  }
  groups(dimension: number): string[] {
    return this.model.head.dimensions[dimension].groups;
  }

  /** The blocks that are active at a position; none before they are loaded. */
  live(position: number): number[] {
    const detail = this.model.detailAt(position);
    if (!detail) return [];
    const key = `${this.key()}/${position}`;
    if (this.lives?.key !== key) this.lives = { key, live: detail.live(position) };
    return this.lives.live;
  }

  totals(position: number): Totals | null {
    const detail = this.model.detailAt(position);
    if (!detail) return null;
    const key = `${this.key()}/${position}`;
    if (this.sums?.key !== key) this.sums = { key, totals: detail.totals(position, this.live(position)) };
    return this.sums.totals;
  }

  segments(position: number): SegmentView[] {
    const detail = this.model.detailAt(position);
    if (!detail) return [];
    const key = `${this.key()}/${position}`;
    if (this.map?.key !== key) this.map = { key, views: viewSegments(detail, position, this.live(position)) };
    return this.map.views;
  }

  /** The addresses of the device over the whole recording. */
  space(): Space | null {
    const { detail } = this;
    if (!detail) return null;
    if (this.spaces?.detail !== detail) this.spaces = { detail, space: new Space(detail) };
    return this.spaces.space;
  }

  /** The groups that hold memory at a position, the largest first. Until blocks are loaded, those of the coarse timeline. */
  heldAt(position: number, dimension: number): Held[] {
    const { overview } = this.model;
    const detail = this.model.detailAt(position);
    const key = `${this.key()}/${position}/${dimension}/${detail !== null}`;
    if (this.held?.key === key) return this.held.held;
    const groups = new Map<number, Held>();
    const add = (group: number, requested: number, block: number, count: number) => {
      const held = groups.get(group) ?? { group, requested: 0, block: 0, count: 0 };
      held.requested += requested;
      held.block += block;
      held.count += count;
      groups.set(group, held);
    };
    if (detail) {
      for (const block of this.live(position))
        add(detail.group(block, dimension), detail.requestedBytes(block), detail.blockBytes(block), 1);
    } else {
      const bin = Math.min(overview.bins.count - 1, Math.floor(position / overview.bins.size));
      overview.groups[dimension].forEach((values, group) => values[bin] > 0 && add(group, values[bin], values[bin], 0));
    }
    const held = [...groups.values()].sort((a, b) => b.requested - a.requested || a.group - b.group);
    this.held = { key, held };
    return held;
  }

  /** Another device or recording of the page, without its blocks. */
  async goTo(recording: number, device: number): Promise<void> {
    const now = this.store.get();
    if (recording === now.recording && device === now.device) return;
    const model = await this.recordings[recording].device(device);
    this.model = model;
    const position = model.peak;
    this.store.set({ recording, device, position, dimension: defaultDimension(model), window: null, range: null, highlight: null, block: null });
  }

  async switchTo(recording: number, device = this.recordings[recording].head.main_device): Promise<void> {
    await this.goTo(recording, device);
    await this.loadDetail();
  }

  /** Reads the blocks that the state needs, unless they are there; views draw again then. */
  loadDetail(): Promise<void> {
    this.loading ??= this.loadMissing()
      .then(
        () => this.store.get().problem && this.store.set({ problem: "" }),
        (error: unknown) => this.store.set({ problem: error instanceof Error ? error.message : String(error) }),
      )
      .then(() => {
        this.loading = null;
      });
    return this.loading;
  }

  /** From now on, what a change of the state needs is read. Recordings of one part are read once. */
  keepLoaded(): void {
    this.store.subscribe(() => {
      if (!this.model.isOnePart && this.missingParts().length > 0) void this.loadDetail();
    });
  }

  private async loadMissing(): Promise<void> {
    for (;;) {
      const { model, recording } = this;
      const missing = this.missingParts();
      if (model.isLoaded && missing.length === 0) return;
      await recording.loadParts(model, missing.slice(0, 1));
      this.store.set({ loaded: this.store.get().loaded + 1 });
    }
  }

  /** The parts that have the chosen moment, the ends of the range and, if it is not too long, the window. */
  private missingParts(): number[] {
    const { model } = this;
    const { position, range, window } = this.store.get();
    const needed = new Set([position, ...(range ?? [])].map((each) => model.partOf(each)));
    const ends = (window ?? [this.axis().begin, this.axis().end]).map((each) => model.partOf(this.axis().position(each)));
    if (needed.size + ends[1] - ends[0] < MAX_PARTS) for (let part = ends[0]; part <= ends[1]; ++part) needed.add(part);
    return [...needed].slice(0, MAX_PARTS).filter((part) => !model.hasPart(part));
  }

  choose(position: number): void {
    this.store.set({ position: Math.max(0, Math.min(this.model.positions - 1, position)), range: null });
  }

  selectRange(from: number, to: number): void {
    const axis = this.axis();
    this.store.set({ range: [axis.position(from), axis.position(to)], position: axis.position(to) });
  }

  setWindow(window: [number, number] | null): void {
    const axis = this.axis();
    if (!window) {
      this.store.set({ window: null });
      return;
    }
    const least = axis.mode === "time" ? 1000 : 4;
    const whole = axis.end - axis.begin;
    const span = Math.min(whole, Math.max(least, window[1] - window[0]));
    const from = Math.max(axis.begin, Math.min(axis.end - span, (window[0] + window[1] - span) / 2));
    this.store.set({ window: span >= whole ? null : [from, from + span] });
  }

  /** Shows positions [first, last] with some room on both sides. */
  showRange(first: number, last: number): void {
    const axis = this.axis();
    const [from, to] = [axis.of(first), axis.of(last)];
    const room = Math.max((to - from) * 0.06, axis.mode === "time" ? 1000 : 2);
    this.setWindow([from - room, to + room]);
  }

  zoomToStep(position: number): void {
    const step = this.model.stepOf(position);
    if (step) this.showRange(step.first_event, step.first_event + step.event_count);
  }

  moveBySteps(by: number): void {
    const { steps } = this.model;
    if (steps.length === 0) return;
    const event = this.store.get().position - 1;
    let index = steps.findIndex((step) => event < step.first_event + step.event_count);
    if (index < 0) index = steps.length - 1;
    const step = steps[Math.max(0, Math.min(steps.length - 1, index + by))];
    this.choose(step.peak_event + 1);
  }
}
