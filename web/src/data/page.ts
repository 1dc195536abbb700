// The types of a page's data: the head (vram.page/1, src/pages/page.cpp) and the parts of vram.report/1 (docs/json.md) that views
// read.

export interface Dimension {
  id: string;
  groups: string[]; // the largest first
}

export interface DeviceHead {
  name: string;
  clock: "time" | "event_index";
  events: number;
  lifetimes: number;
  bin_positions: number;
  part_positions: number; // what is read at a time
  time_unit_ns: number;
  memory_bytes: number | null;
  dimensions: Dimension[];
}

export interface RecordingHead {
  title: string;
  main_device: number;
  devices: DeviceHead[];
}

export interface Head {
  schema: string;
  kind: "report" | "diff" | "ranks";
  title: string;
  recordings: RecordingHead[];
  documents: string[]; // further blocks of JSON: "diff", "ranks", "plan"
}

export interface Frame {
  function: string;
  file: string;
  line: number | null;
}

export interface Holder {
  by: string;
  name: string;
  requested_bytes: number;
  block_bytes: number;
  count: number;
  largest_bytes: number;
  oldest_ns: number;
  before_recording: boolean;
  stack: Frame[];
}

export interface Moment {
  time_ns: number;
  event: number;
  step: number | null;
  requested_bytes: number;
  allocated_bytes: number;
  active_bytes: number;
  reserved_bytes: number;
}

export interface Finding {
  kind: string;
  bytes: number;
  title: string;
  detail: string;
  advice: string;
  line: string | null;
  peak_saved_bytes: number | null;
  reserved_saved_bytes: number | null;
}

export interface Step {
  index: number;
  name: string;
  first_event: number;
  event_count: number;
  begin_ns: number;
  end_ns: number;
  peak_requested_bytes: number;
  peak_reserved_bytes: number;
  peak_event: number;
  end_requested_bytes: number;
}

export interface Growth {
  kind: string;
  site: string;
  stack: Frame[];
  per_step_bytes: number;
  since_step: number;
  steps_to_full: number | null;
  live_bytes: number;
  live_count: number;
}

export interface Oom {
  time_ns: number;
  event: number;
  step: number | null;
  requested_bytes: number;
  device_free_bytes: number;
  limit_bytes: number | null;
  largest_hole_bytes: number;
}

export interface WhatIfReplay {
  allocator: string;
  is_recorded: boolean;
  is_recommended: boolean;
  basis: string;
  completed: boolean;
  peak_reserved_bytes: number;
  retries: number;
  driver_time_ns: number;
}

export interface Waste {
  pending_bytes: number;
  rounding_bytes: number;
  releasable_bytes: number;
  stranded_bytes: number;
  private_pool_bytes: number;
  hole_count: number;
  largest_hole_bytes: number;
}

export interface DeviceReport {
  device: number;
  kind: string;
  events: number;
  allocations: number;
  frees: number;
  device_allocs: number;
  device_frees: number;
  duration_ns: number;
  begin_unix_ns: number | null;
  confidence: { word: string; phrase: string; detail: string };
  peak: {
    requested_bytes: number;
    allocated_bytes: number;
    active_bytes: number;
    reserved_bytes: number;
    utilization: number | null;
    time_ns: number;
    event: number;
    step: number | null;
    reserved_time_ns: number;
    reserved_event: number;
  };
  at_reserved_peak: Moment;
  holders: Holder[];
  waste: Waste & { reserved_bytes: number };
  steps: { source: string; count: number; warmup: number; items: Step[] };
  leak_verdict: string;
  growth: Growth[];
  oom_count: number;
  ooms: Oom[];
  what_if: { capacity_bytes: number | null; replays: WhatIfReplay[] } | null;
  findings: Finding[];
  rest: { time_ns: number; used_bytes: number } | null;
}

export interface Report {
  schema: string;
  path: string;
  format: string;
  file_bytes: number;
  has_stacks: boolean;
  truncated_at_byte: number | null;
  settings: Record<string, string>;
  notes: { text: string; count: number }[];
  devices: DeviceReport[];
}

/** What other allocators would have reserved (src/pages/replays.hpp). */
export interface Replays {
  capacity_bytes: number | null;
  replays: {
    allocator: string;
    is_recorded: boolean;
    basis: string;
    completed: boolean;
    peak_reserved_bytes: number;
    retries: number;
    driver_time_ns: number;
    oom_time_ns: number | null;
    times_ns: number[];
    reserved_bytes: number[];
  }[];
}

/** vram.diff/1 */
export interface Diff {
  a: string;
  b: string;
  devices: {
    kind: string;
    device: number;
    growth_bytes: number;
    sites: { kind: string; name: string; growth_bytes: number; a_bytes: number; b_bytes: number; a_count: number; b_count: number }[];
  }[];
}

interface RankDifference {
  name: string;
  worst_bytes: number;
  median_bytes: number;
}

/** vram.ranks/1 */
export interface Ranks {
  world_size: number | null;
  ranks: {
    rank: number;
    host: string | null;
    path: string;
    peak_requested_bytes: number;
    peak_reserved_bytes: number;
    headroom_bytes: number | null;
    step_count: number;
    oom_count: number;
  }[];
  worst: {
    rank: number;
    by: string;
    median_rank: number;
    category: RankDifference | null;
    site: RankDifference | null;
    step: RankDifference | null;
  } | null;
  steps: { name: string; worst_rank: number; peak_bytes: (number | null)[] }[];
}

/** vram.plan_sweep/1 */
export interface Sweep {
  stages: string[];
  plans: {
    budget_bytes: number;
    solver: string;
    time_ns: number;
    peak_bytes: number;
    ideal_ns: number;
    ideal_peak_bytes: number;
    forward_runs: number[];
  }[];
  recorded: { device: string; pass_peak_bytes: number; rest_peak_bytes: number; notes: string[] } | null;
}
