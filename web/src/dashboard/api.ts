// The documents of the server's API (docs/json.md), as far as the dashboard reads them, and how it requests them. All addresses are
// relative to the page, so it works below any path of a proxy. The token is sent with each request, and no cookie ever.

export interface Memory {
  total_bytes: number | null;
  used_bytes: number | null;
  free_bytes: number | null;
  reserved_bytes: number | null;
}

export interface Device {
  index: number;
  vendor: string;
  name: string | null;
  uuid: string | null;
  pci_id: string | null;
  driver: string | null;
  power_limit_milliwatts: number | null;
  is_asleep: boolean;
  error: string | null;
  memory: Memory | null;
  busy_percent: number | null;
  memory_busy_percent: number | null;
  temperature_celsius: number | null;
  power_milliwatts: number | null;
  core_mhz: number | null;
  throttle_reasons: string[];
  unattributed_bytes: number | null;
  mig_instances: { gpu_instance: number; profile: string | null; memory: Memory | null }[];
}

export interface Allocator {
  allocated_bytes: number | null;
  reserved_bytes: number | null;
  cached_bytes: number | null;
  peak_bytes: number | null;
  num_alloc_retries: number | null;
  num_ooms: number | null;
}

export interface Use {
  device: number;
  used_bytes: number | null;
  busy_percent: number | null;
  allocator: Allocator | null;
}

export interface Process {
  pid: number;
  user: string | null;
  command: string | null;
  container: { runtime: string | null; id: string } | null;
  pod: { name: string | null; namespace: string | null } | null;
  slurm_job: string | null;
  step: number | null;
  scope: string | null;
  uses: Use[];
}

export interface Status {
  time_unix_ns: number | null;
  host: string | null;
  devices: Device[];
  processes: Process[];
  notes: string[];
}

export interface Health {
  status: "ok" | "stale" | "starting";
  why: string | null;
  age_ns: number | null;
  period_ns: number;
}

export interface Alert {
  id: string;
  rule: string;
  state: "pending" | "firing" | "resolved";
  severity: "info" | "warning" | "critical";
  device: number | null;
  pid: number | null;
  since_unix_ns: number;
  started_unix_ns: number | null;
  ended_unix_ns: number | null;
  summary: string;
  advice: string;
  silence: number | null; // the number of the one that applies
}

export interface Silence {
  number: number;
  alert: string; // an alert's id; empty: all of the rule
  rule: string;
  comment: string;
  from_unix_ns: number;
  until_unix_ns: number;
}

/** A process that holds memory, as /api/v1/free lists it. */
export interface Holder {
  pid: number;
  user: string | null;
  command: string | null;
  held_bytes: number | null;
  cached_bytes: number | null;
  step: number | null;
  quiet_ns: number | null;
  can_be_asked: boolean;
  is_idle: boolean;
  devices: { device: number | null; number: number; allocated_bytes: number | null; reserved_bytes: number | null; cached_bytes: number | null }[];
}

export interface Free {
  freed_bytes: number;
  processes: Holder[];
  answers: { pid: number; outcome: string; freed_bytes: number | null; why: string | null }[];
}

export interface Job {
  number: number;
  kind: "trim" | "record";
  state: "running" | "done" | "failed";
  started_unix_ns: number;
  ended_unix_ns: number | null;
  request: { pid?: number; pids?: number[] };
  result: (Free & { name?: string; size_bytes?: number }) | null;
  error: string | null;
}

export interface SegmentList {
  taken_unix_ns: number;
  segment_count: number;
  block_count: number;
  reserved_bytes: number;
  segments: {
    number: number; // of the GPU, as the process counts
    address: number;
    size_bytes: number;
    stream: number;
    is_small: boolean;
    is_expandable: boolean;
    is_private: boolean;
    sizes: number[]; // of its blocks, by address
    requested: number[];
    states: number[];
  }[];
}

export interface Segments {
  pid: number;
  is_asked: boolean;
  error: string | null;
  list: SegmentList | null;
}

export interface Recording {
  name: string;
  size_bytes: number;
  modified_unix_ns: number;
  state: "unread" | "reading" | "read" | "failed";
  error: string | null;
  summary: {
    events: number;
    oom_count: number;
    peak_requested_bytes: number;
    peak_reserved_bytes: number;
    findings: { kind: string; bytes: number; title: string }[];
  } | null;
}

export interface RecordingPage {
  state: "preparing" | "ready" | "failed";
  path: string | null;
  error: string | null;
}

export interface Rule {
  name: string;
  is_enabled: boolean;
  severity: Alert["severity"];
  meaning: string;
  unit: string;
  holds_below: boolean;
  threshold: number | null;
  for_ns: number;
}

export interface Point {
  time_unix_ns: number;
  average: number;
  minimum: number;
  maximum: number;
  count: number;
}

export interface PastDevice {
  key: string;
  name: string | null;
  index: number;
  total_bytes: number | null;
}

export interface History {
  unit: string;
  series: { device: PastDevice; step_ns: number; points: Point[] }[];
}

export interface PastProcesses {
  series: {
    process: { pid: number; start_ticks: number | null; user: string | null; command: string | null };
    device: PastDevice;
    step_ns: number;
    points: Point[];
  }[];
}

/** An answer that is no success, with the server's reason; status 0: there was none. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const TIMEOUT_MS = 20_000;

export class Api {
  private readonly base: string;
  private readonly key: string;

  constructor(path: string) {
    this.base = path.endsWith("/") ? path : `${path}/`;
    this.key = `vram token ${this.base}`;
  }

  get hasToken(): boolean {
    return this.token() !== null;
  }
  /** Kept for this tab, until it is closed. */
  setToken(token: string | null): void {
    if (token === null) sessionStorage.removeItem(this.key);
    else sessionStorage.setItem(this.key, token);
  }

  /** The address of a path of the server, for links. */
  address(path: string): string {
    return this.base + path;
  }

  async get<T>(path: string, query: Record<string, string> = {}): Promise<T> {
    const words = new URLSearchParams(query).toString();
    return this.request<T>(words ? `${path}?${words}` : path, { method: "GET" });
  }

  async post<T>(path: string, body: object): Promise<T> {
    return this.request<T>(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  }

  private token(): string | null {
    return sessionStorage.getItem(this.key);
  }

  private async request<T>(path: string, init: RequestInit): Promise<T> {
    const token = this.token();
    const headers = { ...init.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    let response: Response;
    try {
      response = await fetch(this.base + path, { ...init, headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
    } catch (error) {
      throw new ApiError(0, error instanceof Error ? error.message : String(error));
    }
    const text = await response.text();
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch {
      throw new ApiError(response.status, `${response.status} ${response.statusText}`);
    }
    // /healthz has a document in any case.
    if (response.ok || path === "healthz") return document as T;
    const { error } = document as { error?: { message?: string } };
    throw new ApiError(response.status, error?.message ?? `${response.status} ${response.statusText}`);
  }
}
