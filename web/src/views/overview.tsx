// The overview: what the recording is, its peak, the findings by bytes, and who held memory at the peak.
import { useState } from "preact/hooks";
import type { App } from "../app/app";
import { evidenceOf } from "../app/evidence";
import type { DeviceReport, Finding } from "../data/page";
import { bytes, count, duration, percent } from "../format";
import { t } from "../texts";

export function Overview({ app }: { app: App }) {
  const { report } = app.model;
  return (
    <section class="overview" aria-label={t("Overview")}>
      <Figures report={report} />
      <div class="columns">
        <div>
          <h2>{t("Findings")}</h2>
          {report.findings.length === 0 && <p class="calm">{t("Nothing to report.")}</p>}
          <ol class="findings">
            {report.findings.map((finding, index) => (
              <FindingRow key={index} app={app} finding={finding} most={report.findings[0].bytes} isFirst={index === 0} />
            ))}
          </ol>
        </div>
        <div>
          <h2>{t("Holders at the peak")}</h2>
          <Holders app={app} report={report} />
          <Facts app={app} report={report} />
        </div>
      </div>
    </section>
  );
}

function Figures({ report }: { report: DeviceReport }) {
  const { peak } = report;
  const figures: [string, string, string][] = [
    [t("peak requested"), bytes(peak.requested_bytes), peak.step === null ? "" : t("in step {0}", peak.step)],
    [t("peak reserved"), bytes(peak.reserved_bytes), peak.utilization === null ? "" : t("{0} of it requested", percent(peak.utilization))],
    [t("unused at that moment"), bytes(peak.reserved_bytes - reservedUse(report)), t("{0} in holes", bytes(report.waste.stranded_bytes))],
    [t("duration"), duration(report.duration_ns), t("{0} events", count(report.events))],
    [t("steps"), count(report.steps.count), report.steps.warmup > 0 ? t("{0} to warm up", report.steps.warmup) : ""],
    [t("out of memory"), count(report.oom_count), report.oom_count === 1 ? t("request failed") : t("requests failed")],
  ];
  return (
    <dl class="figures">
      {figures.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
          <dd class="more">{more}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Reserved bytes in use at the maximum of reserved memory. */
function reservedUse(report: DeviceReport): number {
  const { waste } = report;
  const unused =
    waste.pending_bytes + waste.rounding_bytes + waste.releasable_bytes + waste.stranded_bytes + waste.private_pool_bytes;
  return report.peak.reserved_bytes - unused;
}

function FindingRow({ app, finding, most, isFirst }: { app: App; finding: Finding; most: number; isFirst: boolean }) {
  const evidence = evidenceOf(app, finding);
  const [isOpen, setOpen] = useState(isFirst);
  return (
    <li class={`finding is-${finding.kind} ${isOpen ? "is-open" : ""}`}>
      <button type="button" class="finding-main" disabled={!evidence} onClick={() => evidence && app.store.set(evidence)}>
        <span class="finding-bytes">{bytes(finding.bytes)}</span>
        <bdi class="finding-title">{finding.title}</bdi>
        <bdi class="finding-detail">{finding.detail}</bdi>
        {finding.advice && <bdi class="finding-advice">{finding.advice}</bdi>}
      </button>
      <button type="button" class="finding-more" aria-expanded={isOpen} aria-label={t("All of the finding")} onClick={() => setOpen(!isOpen)}>
        {isOpen ? "−" : "+"}
      </button>
      <span class="finding-bar" style={{ width: `${most > 0 ? (finding.bytes / most) * 100 : 0}%` }} />
    </li>
  );
}

function Holders({ app, report }: { app: App; report: DeviceReport }) {
  const total = report.peak.requested_bytes;
  const names = app.groups(0);
  return (
    <ol class="holders">
      {report.holders.slice(0, 12).map((holder, index) => (
        <li key={index} data-bytes={holder.requested_bytes}>
          <button
            type="button"
            onClick={() => {
              const group = names.indexOf(holder.name);
              app.store.set({ view: "timeline", dimension: 0, highlight: group < 0 ? null : group, position: report.peak.event + 1 });
            }}
          >
            <bdi class="name">{holder.name}</bdi>
            <span class="bytes">{bytes(holder.requested_bytes)}</span>
            <span class="count">{holder.count === 1 ? t("1 block") : t("{0} blocks", count(holder.count))}</span>
            <span class="share" style={{ width: `${total > 0 ? (holder.requested_bytes / total) * 100 : 0}%` }} />
          </button>
        </li>
      ))}
    </ol>
  );
}

function Facts({ app, report }: { app: App; report: DeviceReport }) {
  const of = app.recording.report;
  const facts: [string, string][] = [
    [t("recording"), `${of.format}, ${bytes(of.file_bytes)}`],
    [t("confidence"), report.confidence.phrase],
    ...of.notes.map((note): [string, string] => [t("note"), note.text]),
    ...Object.entries(of.settings).filter(([, value]) => value !== "").slice(0, 3),
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value], index) => (
        <div key={index}>
          <dt>
            <bdi>{name}</bdi>
          </dt>
          <dd>
            <bdi>{value}</bdi>
          </dd>
        </div>
      ))}
    </dl>
  );
}
