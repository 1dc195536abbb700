// Recording: everything a page knows of a recording; blocks are read when a view first needs them. DeviceModel: one device of it.
import { Axis, type AxisMode, type Times } from "./axis";
import { type BlockSource, json } from "./blocks";
import { Columns, count, plainAll, rising, signed, wandering } from "./columns";
import { Detail, type Kinds, readKinds, readSegments, type SegmentChange } from "./detail";
import { Levels } from "./levels";
import { type Overview, readOverview } from "./overview";
import type { DeviceHead, DeviceReport, Frame, RecordingHead, Replays, Report, Step } from "./page";
import { returnsOf, type SegmentReturn } from "./segments";

// A part of 16 million events takes some 400 MB.
export const MAX_PARTS = 3;

export interface Scope {
  name: string;
  depth: number;
  first: number; // positions inside
  end: number;
  beginNs: number;
  endNs: number;
}

/** The device's used memory as the driver counted it, of all processes; from each moment to the next. */
export interface DeviceSamples {
  at: Float64Array; // nanoseconds, rising
  used: Float64Array;
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
  scopes: Scope[] = []; // by begin
  scopeRows = 0; // how deep they nest
  samples: DeviceSamples = { at: new Float64Array(0), used: new Float64Array(0) };
  returns: SegmentReturn[] = [];
  private segments: SegmentChange[] = [];
  private kinds: Kinds | null = null;
  private details: Detail[] = []; // the parts that are loaded, the latest used last
  private readonly times: Times;

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
    const coarse = overview.times.slice();
    for (let i = 1; i < coarse.length; ++i) coarse[i] = Math.max(coarse[i], coarse[i - 1]);
    this.times = { size: overview.bins.size, coarse, partSize: head.part_positions, parts: new Map() };
  }

  /** The part that has a position, if its blocks are loaded. */
  detailAt(position: number): Detail | null {
    return this.details.find((detail) => detail.has(position)) ?? null;
  }
  /** What all parts share is loaded. */
  get isLoaded(): boolean {
    return this.kinds !== null;
  }
  /** The number of the part that has a position. */
  partOf(position: number): number {
    return Math.floor(Math.max(0, Math.min(position, this.positions - 1)) / this.head.part_positions);
  }
  hasPart(part: number): boolean {
    return this.detailAt(part * this.head.part_positions) !== null;
  }
  get isOnePart(): boolean {
    return this.positions <= this.head.part_positions;
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
    return new Axis(real ? mode : "event", this.times, this.positions, real ? end : this.positions - 1);
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

  /** What all parts share. */
  async loadShared(source: BlockSource, prefix: string, texts: Texts): Promise<void> {
    if (this.isLoaded) return;
    this.scopes = readScopes(await source.bytes(`${prefix}.scopes`, "nothing"), texts.texts);
    this.scopeRows = this.scopes.reduce((rows, scope) => Math.max(rows, scope.depth + 1), 0);
    this.samples = readSamples(await source.bytes(`${prefix}.samples`, "nothing"));
    // The last sample may be later than the last event, where the axis ends.
    for (let i = 0; i < this.samples.at.length; ++i) this.samples.at[i] = Math.min(this.samples.at[i], this.report.duration_ns);
    this.segments = readSegments(await source.bytes(`${prefix}.segments`, "nothing"));
    this.returns = returnsOf(this.segments);
    this.kinds = readKinds(await source.bytes(`${prefix}.kinds`, "nothing"), this.head);
  }

  /** The blocks and the times of a part. The parts that were not used for longest are given up. */
  async loadPart(source: BlockSource, prefix: string, part: number): Promise<void> {
    const first = part * this.head.part_positions;
    const last = Math.min(first + this.head.part_positions, this.positions);
    if (!this.kinds || first >= last) return;
    let detail = this.detailAt(first);
    if (detail) this.details = this.details.filter((each) => each !== detail);
    else {
      const keep = this.isOnePart ? "nothing" : "source";
      const lifetimes = await source.bytes(`${prefix}.lifetimes${part}`, keep);
      detail = new Detail(first, last, lifetimes, this.kinds, this.segments);
      if (this.head.clock === "time") this.times.parts.set(part, readTimes(await source.bytes(`${prefix}.times${part}`, keep), last - first, this.head.time_unit_ns));
      while (this.details.length >= MAX_PARTS) this.times.parts.delete(this.partOf((this.details.shift() as Detail).first));
    }
    this.details.push(detail);
    this.levels.attach([...this.details].sort((a, b) => a.first - b.first));
  }
}

function readTimes(bytes: Uint8Array, count: number, unitNs: number): Float64Array {
  const times = rising(new Columns(bytes).next(), new Float64Array(count));
  for (let i = 0; i < count; ++i) times[i] *= unitNs;
  return times;
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

function readSamples(bytes: Uint8Array): DeviceSamples {
  const columns = new Columns(bytes);
  const times = columns.next();
  const size = count(times);
  return { at: wandering(times, new Float64Array(size)), used: wandering(columns.next(), new Float64Array(size)) };
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

  /** The rest of it, and the blocks of some parts. */
  async loadParts(model: DeviceModel, parts: number[]): Promise<void> {
    this.texts ??= new Texts(await json<string[]>(this.source, `${this.prefix}texts`), await this.source.bytes(`${this.prefix}stacks`));
    const prefix = `${this.prefix}device${model.index}`;
    await model.loadShared(this.source, prefix, this.texts);
    for (const part of parts) await model.loadPart(this.source, prefix, part);
  }
}
