// The metrics of the history, with the forms of their values.
import { bytes, count } from "../format";
import { t } from "../texts";

export interface Metric {
  id: string;
  name: string; // t() translates it when it is shown
  text(value: number): string;
  scale: "bytes" | "number";
}

const whole = (unit: string) => (value: number) => `${value < 10 && value % 1 !== 0 ? value.toFixed(1) : count(value)} ${unit}`;
const watts = (value: number) => whole("W")(value / 1000);
const rate = (value: number) => `${bytes(value)}/s`;

export const METRICS: Metric[] = [
  { id: "used_bytes", name: t("used memory"), text: bytes, scale: "bytes" },
  { id: "free_bytes", name: t("free memory"), text: bytes, scale: "bytes" },
  { id: "unattributed_bytes", name: t("memory of no known process"), text: bytes, scale: "bytes" },
  { id: "reserved_bytes", name: t("reserved by the driver"), text: bytes, scale: "bytes" },
  { id: "busy_percent", name: t("GPU utilization"), text: whole("%"), scale: "number" },
  { id: "memory_busy_percent", name: t("memory utilization"), text: whole("%"), scale: "number" },
  { id: "temperature_celsius", name: t("temperature"), text: whole("°C"), scale: "number" },
  { id: "power_milliwatts", name: t("power"), text: watts, scale: "number" },
  { id: "core_mhz", name: t("core clock"), text: whole("MHz"), scale: "number" },
  { id: "memory_mhz", name: t("memory clock"), text: whole("MHz"), scale: "number" },
  { id: "process_count", name: t("number of processes"), text: (value) => count(value), scale: "number" },
  { id: "host_used_bytes", name: t("host memory that the GPU uses"), text: bytes, scale: "bytes" },
  { id: "pcie_sent_bytes_per_second", name: t("sent over PCIe"), text: rate, scale: "bytes" },
  { id: "pcie_received_bytes_per_second", name: t("received over PCIe"), text: rate, scale: "bytes" },
];

export const metricOf = (id: string): Metric => METRICS.find((metric) => metric.id === id) ?? METRICS[0];

/** Average, minimum and maximum over several steps. */
export interface Summary {
  average: number;
  minimum: number;
  maximum: number;
}

interface Counted {
  time_unix_ns: number;
  average: number;
  minimum: number;
  maximum: number;
  count: number;
}

/** Of the steps that begin in [from, to) (seconds); null: there are none. */
export function summaryOf(points: Counted[], from: number, to: number): Summary | null {
  let [sum, samples, minimum, maximum] = [0, 0, Infinity, -Infinity];
  for (const point of points) {
    const time = point.time_unix_ns / 1e9;
    if (time < from || time >= to) continue;
    sum += point.average * point.count;
    samples += point.count;
    minimum = Math.min(minimum, point.minimum);
    maximum = Math.max(maximum, point.maximum);
  }
  return samples === 0 ? null : { average: sum / samples, minimum, maximum };
}
