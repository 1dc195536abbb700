// Recording: everything a page knows of a recording; blocks are read when a view first needs them. DeviceModel: one device of it.
import { Axis, type AxisMode } from "./axis";
import { type BlockSource, json } from "./blocks";
import { Columns, plainAll, rising, signed, wandering } from "./columns";
import { Detail } from "./detail";
import { Levels } from "./levels";
import { type Overview, readOverview } from "./overview";
import type { DeviceHead, DeviceReport, Frame, RecordingHead, Replays, Report, Step } from "./page";

export interface Scope {
  name: string;
  depth: number;
  first: number; // positions inside
  end: number;
  beginNs: number;
  endNs: number;
}

/** The texts and stacks of a page (src/pages/texts.hpp). */
export class Texts {
  private readonly functions: Float64Array;
  private readonly files: Float64Array;
  private readonly lines: Float64Array;
  private readonly starts: Float64Array;
  private readonly frames: Float64Array;

  constructor(
    readonly texts: string[],
    stacks: Uint8Array,
  ) {
    const columns = new Columns(stacks);
    this.functions = plainAll(columns.next());
    this.files = plainAll(columns.next());
    this.lines = plainAll(columns.next());
    const lengths = plainAll(columns.next());
    this.frames = plainAll(columns.next());
    this.starts = new Float64Array(lengths.length + 1);
    for (let i = 0; i < lengths.length; ++i) this.starts[i + 1] = this.starts[i] + lengths[i];
  }

  /** The frame numbers of a stack, innermost first. */
  frameIds(stack: number): Float64Array {
    return this.frames.subarray(this.starts[stack], this.starts[stack + 1]);
  }
  frame(id: number): Frame {
    return { function: this.texts[this.functions[id]], file: this.texts[this.files[id]], line: this.lines[id] || null };
  }
  stack(stack: number): Frame[] {
    return Array.from(this.frameIds(stack), (id) => this.frame(id));
  }
}

export class DeviceModel {
  readonly levels: Levels;
  detail: Detail | null = null;
  scopes: Scope[] = []; // by begin
  scopeRows = 0; // how deep they nest
  private times: Float64Array;
  private timeSize: number;

  constructor(
    readonly index: number,
    readonly head: DeviceHead,
    readonly overview: Overview,
    readonly report: DeviceReport,
  ) {
    this.levels = new Levels(
      overview,
      head.dimensions.map((dimension) => dimension.groups.length),
    );
    this.times = overview.times;
    this.timeSize = overview.bins.size;
  }

  get positions(): number {
    return this.head.events + 1;
  }
  /** Where most was requested. */
  get peak(): number {
    return this.report.peak.event + 1;
  }
  get steps(): Step[] {
    return this.report.steps.items;
  }

  axis(mode: AxisMode): Axis {
    const real = this.head.clock === "time";
    const end = this.report.duration_ns;
    return new Axis(real ? mode : "event", this.times, this.timeSize, this.positions, real ? end : this.positions - 1);
  }

  stepOf(position: number): Step | undefined {
    const event = position - 1;
    return this.steps.find((step) => event >= step.first_event && event < step.first_event + step.event_count);
  }

  /** The innermost scope around the event before a position. */
  scopeAt(position: number): Scope | undefined {
    let found: Scope | undefined;
    for (const scope of this.scopes) {
      if (scope.first > position - 1) break;
      if (scope.end > position - 1 && (!found || scope.depth >= found.depth)) found = scope;
    }
    return found;
  }

  async load(source: BlockSource, prefix: string, texts: Texts): Promise<void> {
    this.scopes = readScopes(await source.bytes(`${prefix}.scopes`), texts.texts);
    this.scopeRows = this.scopes.reduce((rows, scope) => Math.max(rows, scope.depth + 1), 0);
    const segments = await source.bytes(`${prefix}.segments`);
    const lifetimes = await source.bytes(`${prefix}.lifetimes`);
    const kinds = await source.bytes(`${prefix}.kinds`);
    this.detail = new Detail(this.head, lifetimes, kinds, segments);
    this.levels.attach(this.detail);
    if (this.head.clock === "time") this.readTimes(await source.bytes(`${prefix}.times`));
  }

  private readTimes(bytes: Uint8Array): void {
    const times = new Float64Array(this.positions);
    rising(new Columns(bytes).next(), times.subarray(1));
    for (let i = 1; i < times.length; ++i) times[i] *= this.head.time_unit_ns;
    times[0] = times.length > 1 ? times[1] : 0;
    this.times = times;
    this.timeSize = 1;
  }
}

function readScopes(bytes: Uint8Array, texts: string[]): Scope[] {
  const columns = new Columns(bytes);
  const names = plainAll(columns.next());
  const depths = plainAll(columns.next());
  const firsts = wandering(columns.next(), new Float64Array(names.length));
  const counts = plainAll(columns.next());
  const begins = wandering(columns.next(), new Float64Array(names.length));
  const durations = signed(columns.next(), new Float64Array(names.length));
  return Array.from(names, (name, i) => ({
    name: texts[name],
    depth: depths[i],
    first: firsts[i],
    end: firsts[i] + counts[i],
    beginNs: begins[i],
    endNs: begins[i] + durations[i],
  }));
}

export class Recording {
  texts: Texts | null = null;
  private readonly models = new Map<number, DeviceModel>();

  private constructor(
    private readonly source: BlockSource,
    private readonly prefix: string,
    readonly head: RecordingHead,
    readonly report: Report,
  ) {}

  static async open(source: BlockSource, index: number, head: RecordingHead): Promise<Recording> {
    const prefix = `r${index}.`;
    return new Recording(source, prefix, head, await json<Report>(source, `${prefix}report`));
  }

  /** What the first picture of a device needs. */
  async device(index: number): Promise<DeviceModel> {
    let model = this.models.get(index);
    if (!model) {
      const head = this.head.devices[index];
      const overview = readOverview(await this.source.bytes(`${this.prefix}device${index}.overview`), head);
      model = new DeviceModel(index, head, overview, this.report.devices[index]);
      this.models.set(index, model);
    }
    return model;
  }

  /** What other allocators would have reserved; null if no replays were made. */
  replays(device: number): Promise<Replays | null> {
    return json<Replays | null>(this.source, `${this.prefix}device${device}.replays`);
  }

  /** The rest of it. */
  async loadDetail(model: DeviceModel): Promise<void> {
    if (model.detail) return;
    this.texts ??= new Texts(await json<string[]>(this.source, `${this.prefix}texts`), await this.source.bytes(`${this.prefix}stacks`));
    await model.load(this.source, `${this.prefix}device${model.index}`, this.texts);
  }
}
