// Devices: a card for each GPU with its memory by process, and the table of processes.
import { Canvas, type Pen } from "../charts/canvas";
import { blended, theme } from "../charts/palette";
import { useStore } from "../app/store";
import { bytes, count, percent } from "../format";
import { t } from "../texts";
import type { Alert, Device } from "./api";
import type { Board, Part } from "./board";
import { agoText } from "./clock";
import { ProcessTable } from "./processes";
import { Severity } from "./severity";
import type { Recent } from "./state";

export function DevicesView({ board }: { board: Board }) {
  const { status, alerts } = useStore(board.store);
  if (!status) return <section class="empty">{t("waiting for the first sample …")}</section>;
  return (
    <section class="overview devices-view" aria-label={t("GPUs")}>
      {status.notes.map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
      {status.devices.length === 0 && <p class="calm">{t("No GPU was found on this machine.")}</p>}
      <ul class="cards">
        {status.devices.map((device) => (
          <DeviceCard key={device.index} board={board} device={device} alerts={alerts.filter((alert) => alert.device === device.index && alert.state === "firing" && alert.silence === null)} />
        ))}
      </ul>
      <ProcessTable board={board} />
    </section>
  );
}

function DeviceCard({ board, device, alerts }: { board: Board; device: Device; alerts: Alert[] }) {
  const { device: chosen, recent } = board.store.get();
  const isChosen = chosen === device.index;
  return (
    <li class={`card ${isChosen ? "is-chosen" : ""}`} data-device={device.index}>
      <div class="card-head">
        <button
          type="button"
          class="card-name"
          aria-pressed={isChosen}
          title={t("show only the processes of this GPU")}
          onClick={() => board.store.set({ device: isChosen ? null : device.index })}
        >
          <b>GPU {device.index}</b> <bdi>{device.name ?? t("unknown")}</bdi>
        </button>
        {alerts.map((alert) => (
          <button key={alert.id} type="button" class="card-alert" title={alert.summary} onClick={() => board.store.set({ view: "alerts" })}>
            <Severity of={alert.severity} /> {alert.rule}
          </button>
        ))}
      </div>
      {device.error && <p class="note">{device.error}</p>}
      {device.is_asleep ? <p class="calm">{t("asleep; vram does not wake it")}</p> : <DeviceFigures board={board} device={device} recent={recent.get(device.index)} />}
    </li>
  );
}

function DeviceFigures({ board, device, recent }: { board: Board; device: Device; recent: Recent | undefined }) {
  const { memory } = device;
  const total = memory?.total_bytes ?? null;
  const used = memory?.used_bytes ?? null;
  const parts = board.partsOf(device);
  return (
    <>
      <div class="card-memory">
        <span>
          <b class="big" data-figure="used" data-bytes={used ?? ""}>
            {used === null ? t("unknown") : bytes(used)}
          </b>{" "}
          {total !== null && t("of {0} used", bytes(total))}
        </span>
        {total !== null && used !== null && <b>{percent(used / total)}</b>}
      </div>
      {total !== null && <MemoryBar parts={parts} total={total} label={t("Memory of GPU {0} by process", device.index)} />}
      <ul class="parts">
        {parts.slice(0, 6).map((part) => (
          <li key={part.id} data-part={part.id} data-bytes={part.bytes}>
            <span class="swatch" style={{ background: part.colour }} />
            <bdi class="name">{part.pid === null ? t(part.name) : part.name}</bdi>
            <span>{bytes(part.bytes)}</span>
          </li>
        ))}
        {parts.length > 6 && <li class="calm">{t("{0} more", parts.length - 6)}</li>}
        {memory?.free_bytes !== null && memory?.free_bytes !== undefined && (
          <li data-part="free" data-bytes={memory.free_bytes}>
            <span class="swatch is-free" />
            <span class="name">{t("free")}</span>
            <span>{bytes(memory.free_bytes)}</span>
          </li>
        )}
      </ul>
      <Sparkline recent={recent} total={total} device={device.index} />
      <Facts device={device} />
    </>
  );
}

function MemoryBar({ parts, total, label }: { parts: Part[]; total: number; label: string }) {
  return (
    <div class="memory-bar" role="img" aria-label={label}>
      {parts.map((part) => (
        <span key={part.id} style={{ width: `${(part.bytes / total) * 100}%`, background: part.colour }} title={`${part.name}: ${bytes(part.bytes)}`} />
      ))}
    </div>
  );
}

/** Used memory of the last minutes, as far as this page has seen it. */
function Sparkline({ recent, total, device }: { recent: Recent | undefined; total: number | null; device: number }) {
  if (!recent || recent.times.length < 2) return <div class="spark" />;
  const { times, used } = recent;
  const draw = ({ context, width, height }: Pen) => {
    const colours = theme();
    const most = Math.max(1, ...used, total !== null && Math.max(...used) > total * 0.4 ? total : 0);
    const [from, to] = [times[0], times[times.length - 1]];
    const x = (time: number) => ((time - from) / Math.max(1, to - from)) * width;
    const y = (value: number) => height - 1 - (value / most) * (height - 3);
    context.beginPath();
    used.forEach((value, i) => context.lineTo(x(times[i]), y(value)));
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.4;
    context.stroke();
    context.lineTo(width, height);
    context.lineTo(0, height);
    context.fillStyle = blended(colours.accent, colours.surface, 0.15);
    context.fill();
  };
  return (
    <div class="spark">
      <Canvas label={t("Used memory of GPU {0} in the last minutes", device)} draw={draw} />
      <span class="spark-from">{agoText(times[times.length - 1] - times[0])}</span>
    </div>
  );
}

function Facts({ device }: { device: Device }) {
  const { power_milliwatts: power, power_limit_milliwatts: limit } = device;
  const watts = (value: number) => `${count(value / 1000)} W`;
  const facts: [string, string | null][] = [
    [t("GPU utilization"), device.busy_percent === null ? null : `${device.busy_percent} %`],
    [t("temperature"), device.temperature_celsius === null ? null : `${device.temperature_celsius} °C`],
    [t("power"), power === null ? null : limit === null ? watts(power) : t("{0} of {1}", watts(power), watts(limit))],
    [t("core clock"), device.core_mhz === null ? null : `${count(device.core_mhz)} MHz`],
    [t("clocks throttled for"), device.throttle_reasons?.length ? device.throttle_reasons.join(", ") : null],
  ];
  const known = facts.filter(([, value]) => value !== null);
  if (known.length === 0) return null;
  return (
    <dl class="card-facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
