// Alerts: what is wrong now and was lately, and the rules.
import { useState } from "preact/hooks";
import { useStore } from "../app/store";
import { bytes, percent } from "../format";
import { t } from "../texts";
import type { Alert, Rule } from "./api";
import type { Board } from "./board";
import { agoText, spanText } from "./clock";
import { Severity, stateText } from "./severity";
import { SilenceForm, SilenceList } from "./silences";

export function AlertsView({ board }: { board: Board }) {
  const { alerts, rules, silences, status } = useStore(board.store);
  const now = (status?.time_unix_ns ?? 0) / 1e9;
  return (
    <section class="overview alerts-view" aria-label={t("Alerts")}>
      {alerts.length === 0 && <p class="all-well">{t("No alert holds, and none was resolved lately.")}</p>}
      <ol class="alerts">
        {alerts.map((alert) => (
          <AlertRow key={alert.id} board={board} alert={alert} now={now} />
        ))}
      </ol>
      <SilenceList board={board} silences={silences} />
      <Rules rules={rules} />
    </section>
  );
}

function AlertRow({ board, alert, now }: { board: Board; alert: Alert; now: number }) {
  const [isAsking, setAsking] = useState(false);
  const since = (alert.ended_unix_ns ?? alert.started_unix_ns ?? alert.since_unix_ns) / 1e9;
  return (
    <li class={`alert is-${alert.state} is-${alert.severity} ${alert.silence === null ? "" : "is-silenced"}`} data-alert={alert.id}>
      <div class="alert-head">
        <Severity of={alert.severity} hasName />
        <b class="state">{stateText(alert.state)}</b>
        <bdi class="rule">{alert.rule}</bdi>
        <span class="calm">{agoText(Math.max(0, now - since))}</span>
        {alert.silence !== null && <span class="place">{t("silenced")}</span>}
        {alert.silence === null && !isAsking && (
          <button type="button" class="action" onClick={() => setAsking(true)}>
            {t("silence …")}
          </button>
        )}
      </div>
      <bdi class="alert-summary">{alert.summary}</bdi>
      <p class="alert-advice">{alert.advice}</p>
      {isAsking && <SilenceForm board={board} alert={alert} close={() => setAsking(false)} />}
    </li>
  );
}

function thresholdText(rule: Rule): string {
  if (rule.threshold === null) return "–";
  const sign = rule.holds_below ? "≤" : "≥";
  switch (rule.unit) {
    case "ratio":
      return `${sign} ${percent(rule.threshold)}`;
    case "bytes":
      return `${sign} ${bytes(rule.threshold)}`;
    case "seconds":
      return `${sign} ${spanText(rule.threshold)}`;
    case "celsius":
      return `${sign} ${rule.threshold} °C`;
    default:
      return `${sign} ${rule.threshold}`;
  }
}

function Rules({ rules }: { rules: Rule[] }) {
  return (
    <details class="rules">
      <summary>{t("Rules: {0} active", rules.filter((rule) => rule.is_enabled).length)}</summary>
      <div class="table-scroll" tabIndex={0} role="region" aria-label={t("Rules")}>
        <table>
          <thead>
            <tr>
              <th scope="col">{t("rule")}</th>
              <th scope="col">{t("severity")}</th>
              <th scope="col">{t("what it evaluates")}</th>
              <th scope="col" class="is-number">
                {t("threshold")}
              </th>
              <th scope="col" class="is-number">
                {t("for")}
              </th>
            </tr>
          </thead>
          <tbody>
            {rules.map((rule) => (
              <tr key={rule.name} class={rule.is_enabled ? "" : "is-off"}>
                <td>
                  <bdi class="name">{rule.name}</bdi>
                  {!rule.is_enabled && <span class="place">{t("off")}</span>}
                </td>
                <td>
                  <Severity of={rule.severity} hasName />
                </td>
                <td>{rule.meaning}</td>
                <td class="is-number">{thresholdText(rule)}</td>
                <td class="is-number">{rule.for_ns > 0 ? spanText(rule.for_ns / 1e9) : t("at once")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
