// Asks the server for its last sample again and again, at the pace of its samples, while the page is visible. A server that does not
// answer is asked more and more rarely.
import { type Api, ApiError, type Alert, type Health, type History, type Rule, type Silence, type Status } from "./api";
import { type DashboardStore, RECENT_S, withPast, withSample } from "./state";

const MIN_PERIOD_MS = 1_000;
const MAX_PAUSE_MS = 30_000;
const ALERTS_EVERY = 3; // samples

export class Live {
  private timer = 0;
  private rounds = 0;
  private failures = 0;
  private isAsking = false;
  private hasRecent = false;

  constructor(
    private readonly api: Api,
    private readonly store: DashboardStore,
  ) {}

  start(): void {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.now();
    });
    this.now();
  }

  /** Asks at once, for the alerts, too. */
  now(): void {
    this.rounds = 0;
    this.next();
  }

  private next(): void {
    clearTimeout(this.timer);
    void this.ask();
  }

  private async ask(): Promise<void> {
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      await this.round();
      this.failures = 0;
    } catch (error) {
      this.failed(error);
    }
    this.isAsking = false;
    const { health, isPaused } = this.store.get();
    const period = Math.max(MIN_PERIOD_MS, (health?.period_ns ?? 1e9) / 1e6);
    const pause = Math.min(MAX_PAUSE_MS, period * 2 ** Math.min(this.failures, 5));
    if (!document.hidden && !isPaused) this.timer = setTimeout(() => this.next(), pause);
  }

  /** The last minutes before this page was opened, if a history is kept. */
  private async readRecent(): Promise<void> {
    this.hasRecent = true;
    const query = { metric: "used_bytes", from: `-${RECENT_S}s`, step: "2s" };
    const found = await this.api.get<History>("api/v1/history", query).catch(() => null);
    if (found) this.store.set({ recent: withPast(this.store.get().recent, found) });
  }

  private async round(): Promise<void> {
    const wantsAlerts = this.rounds++ % ALERTS_EVERY === 0;
    const [health, status] = await Promise.all([this.api.get<Health>("healthz"), this.api.get<Status>("api/v1/status")]);
    const { recent, rules } = this.store.get();
    this.store.set({ link: "ok", trouble: "", health, status, recent: withSample(recent, status) });
    if (!this.hasRecent) void this.readRecent();
    if (!wantsAlerts) return;
    const [{ alerts }, { silences }] = await Promise.all([
      this.api.get<{ alerts: Alert[] }>("api/v1/alerts"),
      this.api.get<{ silences: Silence[] }>("api/v1/silences"),
    ]);
    this.store.set({ alerts, silences });
    if (rules.length === 0) this.store.set({ rules: (await this.api.get<{ rules: Rule[] }>("api/v1/rules")).rules });
  }

  private failed(error: unknown): void {
    this.rounds = 0;
    if (error instanceof ApiError && error.status === 401) {
      // Asking again with the same token would only fill the server's log.
      this.failures = 5;
      this.store.set({ link: "wants-token", trouble: this.api.hasToken ? error.message : "" });
      return;
    }
    ++this.failures;
    this.store.set({ link: "lost", trouble: error instanceof Error ? error.message : String(error) });
  }
}
