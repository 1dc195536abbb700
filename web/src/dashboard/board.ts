// Board: what the views share: the server, the state, and what is computed from both.
import { blended, colourOf, theme } from "../charts/palette";
import { SHOWN_GROUPS } from "../data/overview";
import { t } from "../texts";
import type { Api, Device, PastDevice, Process, Use } from "./api";
import type { Live } from "./live";
import { type Column, type DashboardStore, boundsOf, type Span } from "./state";

export interface Part {
  id: string;
  name: string;
  bytes: number;
  colour: string;
  pid: number | null;
}

// Holders that are no processes; t() translates them when they are shown.
const NO_PROCESS = t("no known process");
const DRIVER = t("the driver itself");

const MIN_SPAN_S = 5;
const MAX_SPAN_S = 366 * 86_400;

export class Board {
  shownSeries: PastDevice[] = []; // of the history's chart
  private readonly slots = new Map<number, number>(); // of colours, by pid

  constructor(
    readonly api: Api,
    readonly store: DashboardStore,
    readonly live: Live,
  ) {}

  pause(): void {
    this.store.set({ isPaused: !this.store.get().isPaused });
    if (!this.store.get().isPaused) this.live.now();
  }

  /** Requests a change, and shows what came of it. */
  async change<T>(path: string, body: object, done: (answer: T) => string): Promise<void> {
    try {
      const answer = await this.api.post<T>(path, body);
      this.store.set({ notice: { text: done(answer), isTrouble: false } });
    } catch (error) {
      this.store.set({ notice: { text: error instanceof Error ? error.message : String(error), isTrouble: true } });
    }
    this.live.now();
  }

  /** A process keeps its colour while the page is open. */
  colourOfProcess(pid: number): string {
    let slot = this.slots.get(pid);
    if (slot === undefined) {
      slot = this.slots.size % (SHOWN_GROUPS - 1);
      this.slots.set(pid, slot);
    }
    return colourOf(slot, theme());
  }

  colourOfDevice(index: number): string {
    return colourOf(index % (SHOWN_GROUPS - 1), theme());
  }

  /** The memory of a device by its holders, largest first; together they are what is not free. */
  partsOf(device: Device): Part[] {
    const { status } = this.store.get();
    const parts: Part[] = [];
    for (const process of status?.processes ?? []) {
      const bytes = usedOn(process, device.index);
      if (bytes > 0) parts.push({ id: `pid ${process.pid}`, name: programOf(process), bytes, colour: this.colourOfProcess(process.pid), pid: process.pid });
    }
    parts.sort((a, b) => b.bytes - a.bytes);
    const colours = theme();
    const add = (id: string, bytes: number | null | undefined, colour: string) => {
      if (bytes && bytes > 0) parts.push({ id, name: id, bytes, colour, pid: null });
    };
    add(NO_PROCESS, device.unattributed_bytes, colours.rest);
    add(DRIVER, device.memory?.reserved_bytes, blended(colours.muted, colours.surface, 0.35));
    return parts;
  }

  /** The processes that the table shows, in its order. */
  processes(): Process[] {
    const { status, device, query, sort } = this.store.get();
    const wanted = query.toLowerCase();
    const found = (status?.processes ?? []).filter((process) => {
      if (device !== null && !process.uses.some((use) => use.device === device)) return false;
      return wanted === "" || [process.pid, process.user, process.command, process.pod?.name, process.slurm_job].join(" ").toLowerCase().includes(wanted);
    });
    return found.sort((a, b) => (sort.isDescending ? -1 : 1) * compared(a, b, sort.by, device) || a.pid - b.pid);
  }

  setSpan(span: Span): void {
    this.store.set({ span, selection: null });
  }
  /** A window of the chart; none ends after the present. */
  setWindow([from, to]: [number, number]): void {
    const now = Date.now() / 1000;
    const length = Math.min(MAX_SPAN_S, Math.max(MIN_SPAN_S, to - from));
    const end = Math.min(now, (from + to + length) / 2);
    const isLive = "last" in this.store.get().span && end >= now - length * 0.001;
    this.store.set({ span: isLive ? { last: length } : { from: end - length, to: end } });
  }
  window(): [number, number] {
    return boundsOf(this.store.get().span, Date.now() / 1000);
  }
  zoom(factor: number): void {
    const [from, to] = this.window();
    const middle = "last" in this.store.get().span ? to : (from + to) / 2;
    this.setWindow([middle - (middle - from) * factor, middle + (to - middle) * factor]);
  }
  move(share: number): void {
    const [from, to] = this.window();
    const by = (to - from) * share;
    this.setWindow([from + by, to + by]);
  }
}

export const usesOn = (process: Process, device: number | null): Use[] => process.uses.filter((use) => device === null || use.device === device);

export function usedOn(process: Process, device: number | null): number {
  return usesOn(process, device).reduce((sum, use) => sum + (use.used_bytes ?? 0), 0);
}
export const isKnown = (process: Process, device: number | null): boolean => usesOn(process, device).some((use) => use.used_bytes !== null);

const busyOn = (process: Process, device: number | null): number => usesOn(process, device).reduce((sum, use) => sum + (use.busy_percent ?? -1), 0);

/** The program's name: of "/usr/bin/python train.py" the part behind the last slash of the first word, and what follows. */
export function programOf(process: { pid: number; command: string | null }): string {
  if (!process.command) return `pid ${process.pid}`;
  const [first, ...rest] = process.command.split(" ");
  return [first.slice(first.lastIndexOf("/") + 1), ...rest].join(" ");
}

function compared(a: Process, b: Process, by: Column, device: number | null): number {
  switch (by) {
    case "memory":
      return usedOn(a, device) - usedOn(b, device);
    case "busy":
      return busyOn(a, device) - busyOn(b, device);
    case "device":
      return (a.uses[0]?.device ?? 0) - (b.uses[0]?.device ?? 0);
    case "pid":
      return a.pid - b.pid;
    case "user":
      return (a.user ?? "").localeCompare(b.user ?? "");
    case "command":
      return programOf(a).localeCompare(programOf(b));
  }
}
