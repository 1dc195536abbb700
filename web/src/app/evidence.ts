// Where the evidence of a finding is: the view, the moment and the group that show it.
import type { Finding, Growth } from "../data/page";
import type { App } from "./app";
import type { State } from "./store";

const WASTE = new Set(["fragmentation", "releasable", "pending", "rounding", "streams", "mixed_lifetimes"]);

export function evidenceOf(app: App, finding: Finding): Partial<State> | null {
  const { report, peak } = app.model;
  const group = groupOf(app, finding);
  if (finding.kind === "oom") {
    const position = report.ooms.length > 0 ? report.ooms[0].event + 1 : peak;
    return { view: "map", position, range: null };
  }
  if (finding.kind === "leak" || finding.kind === "growth") return growthEvidence(app, finding, group);
  if (WASTE.has(finding.kind)) return { view: "map", position: report.at_reserved_peak.event + 1, range: null };
  if (finding.kind === "recording") return null;
  return { view: "timeline", position: peak, range: null, dimension: 0, highlight: group };
}

/** The steps over which it grew. */
function growthEvidence(app: App, finding: Finding, group: number | null): Partial<State> {
  const { steps } = app.model;
  const growth = app.model.report.growth.find((each: Growth) => mentions(finding, each.site));
  const first = steps[growth?.since_step ?? 0];
  const last = steps[steps.length - 1];
  const range: [number, number] | null = first && last ? [first.first_event, last.first_event + last.event_count] : null;
  const named = growth ? app.groups(0).indexOf(growth.site) : -1;
  return {
    view: "timeline",
    dimension: 0,
    highlight: named >= 0 ? named : group,
    window: null,
    range,
    position: range ? Math.min(range[1], app.model.positions - 1) : app.model.positions - 1,
  };
}

const mentions = (finding: Finding, name: string): boolean =>
  name !== "" && (finding.line === name || finding.title.includes(name) || finding.detail.includes(name));

/** The line of code that a finding is about, as a group. */
function groupOf(app: App, finding: Finding): number | null {
  const names = app.groups(0);
  const exact = finding.line ? names.indexOf(finding.line) : -1;
  if (exact >= 0) return exact;
  const named = names.findIndex((name) => name.length > 3 && mentions(finding, name));
  return named >= 0 ? named : null;
}
