// The table of processes, with what their allocators report.
import { bytes, count } from "../format";
import { t } from "../texts";
import type { Process } from "./api";
import { type Board, isKnown, programOf, usedOn, usesOn } from "./board";
import type { Column } from "./state";

const COLUMNS: { id: Column | null; name: string; isNumber?: boolean; isMinor?: boolean }[] = [
  { id: "device", name: t("GPU"), isNumber: true },
  { id: "pid", name: t("pid"), isNumber: true, isMinor: true },
  { id: "user", name: t("user") },
  { id: "command", name: t("program") },
  { id: "memory", name: t("memory"), isNumber: true },
  { id: null, name: t("tensors"), isNumber: true, isMinor: true },
  { id: null, name: t("cached"), isNumber: true, isMinor: true },
  { id: "busy", name: t("busy"), isNumber: true, isMinor: true },
  { id: null, name: t("step"), isNumber: true, isMinor: true },
];
const MOST_ROWS = 500;

export function ProcessTable({ board }: { board: Board }) {
  const { status, device, query } = board.store.get();
  const rows = board.processes();
  const most = Math.max(1, ...rows.map((process) => usedOn(process, device)));
  return (
    <>
      <div class="table-head">
        <h2>{t("Processes")}</h2>
        {device !== null && (
          <button type="button" class="chip" onClick={() => board.store.set({ device: null })}>
            GPU {device} ×
          </button>
        )}
        <span class="calm" data-count={rows.length}>
          {rows.length === status?.processes.length ? count(rows.length) : t("{0} of {1}", rows.length, status?.processes.length ?? 0)}
        </span>
        <input
          type="search"
          id="search"
          placeholder={t("search: program, user, pid")}
          aria-label={t("Search processes")}
          value={query}
          onInput={(event) => board.store.set({ query: event.currentTarget.value })}
        />
      </div>
      <div class="table-scroll" tabIndex={0} role="region" aria-label={t("Processes")}>
        <table class="processes">
          <thead>
            <tr>
              {COLUMNS.map((column) => (
                <Heading key={column.name} board={board} column={column} />
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MOST_ROWS).map((process) => (
              <Row key={process.pid} board={board} process={process} most={most} />
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p class="calm">{t("No process uses a GPU.")}</p>}
      {rows.length > MOST_ROWS && <p class="calm">{t("{0} more", rows.length - MOST_ROWS)}</p>}
    </>
  );
}

function Heading({ board, column }: { board: Board; column: (typeof COLUMNS)[number] }) {
  const { sort } = board.store.get();
  const { id } = column;
  const className = `${column.isNumber ? "is-number" : ""} ${column.isMinor ? "is-minor" : ""}`;
  if (id === null)
    return (
      <th scope="col" class={className}>
        {t(column.name)}
      </th>
    );
  const isSorted = sort.by === id;
  const isDescending = isSorted ? !sort.isDescending : id === "memory" || id === "busy";
  return (
    <th scope="col" class={className} aria-sort={isSorted ? (sort.isDescending ? "descending" : "ascending") : undefined}>
      <button type="button" onClick={() => board.store.set({ sort: { by: id, isDescending } })}>
        {t(column.name)} <span aria-hidden="true">{isSorted ? (sort.isDescending ? "▾" : "▴") : ""}</span>
      </button>
    </th>
  );
}

type Figure = "allocated_bytes" | "cached_bytes";

/** Over the devices shown; null: unknown. */
function allocatorSum(process: Process, device: number | null, figure: Figure): number | null {
  const known = usesOn(process, device).flatMap((use) => use.allocator?.[figure] ?? []);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
}

const textOf = (value: number | null): string => (value === null ? "–" : bytes(value));

function Row({ board, process, most }: { board: Board; process: Process; most: number }) {
  const { device } = board.store.get();
  const used = usedOn(process, device);
  const busy = usesOn(process, device).flatMap((use) => use.busy_percent ?? []);
  const places = [process.pod?.name, process.slurm_job && t("Slurm job {0}", process.slurm_job), process.container && (process.container.runtime ?? t("container"))];
  return (
    <tr data-pid={process.pid} data-bytes={used}>
      <td class="is-number">{process.uses.map((use) => use.device).join(", ")}</td>
      <td class="is-number is-minor">{process.pid}</td>
      <td>
        <bdi>{process.user ?? "–"}</bdi>
      </td>
      <td class="program">
        <span class="swatch" style={{ background: board.colourOfProcess(process.pid) }} />
        <bdi class="name" title={process.command ?? undefined}>
          {programOf(process).slice(0, 300)}
        </bdi>
        {[...places, process.scope].filter(Boolean).map((place) => (
          <bdi key={place} class="place">
            {String(place).slice(0, 60)}
          </bdi>
        ))}
      </td>
      <td class="is-number memory">
        <span class="share" style={{ width: `${(used / most) * 100}%` }} />
        <b>{isKnown(process, device) ? bytes(used) : "–"}</b>
      </td>
      <td class="is-number is-minor">{textOf(allocatorSum(process, device, "allocated_bytes"))}</td>
      <td class="is-number is-minor">{textOf(allocatorSum(process, device, "cached_bytes"))}</td>
      <td class="is-number is-minor">{busy.length === 0 ? "–" : `${busy.reduce((sum, value) => sum + value, 0)} %`}</td>
      <td class="is-number is-minor">{process.step === null ? "–" : count(process.step)}</td>
    </tr>
  );
}
