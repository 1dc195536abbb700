// The plan: for each budget, which stages of the step run their forward again, and what that costs in time (vram.plan_sweep/1).
import { useEffect, useState } from "preact/hooks";
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { json } from "../data/blocks";
import type { Sweep } from "../data/page";
import { bytes, duration, percent } from "../format";
import { t } from "../texts";

export function PlanView({ app }: { app: App }) {
  useStore(app.store);
  const [sweep, setSweep] = useState<Sweep | null>(null);
  const [chosen, setChosen] = useState(0);
  useEffect(() => {
    void json<Sweep>(app.source, "plan").then(setSweep);
  }, [app]);
  if (!sweep) return <section class="empty">{t("reading …")}</section>;
  const plan = sweep.plans[chosen];
  const most = Math.max(...sweep.plans.map(({ peak_bytes }) => peak_bytes), 1);
  const slowest = Math.max(...sweep.plans.map(({ time_ns }) => time_ns), 1);
  return (
    <section class="plan-view" aria-label={t("Checkpoint plan")}>
      <div class="scroll">
        <h2>{t("Budgets")}</h2>
        <table class="plans">
          <thead>
            <tr>
              <th scope="col">{t("budget")}</th>
              <th scope="col">{t("peak")}</th>
              <th scope="col">{t("time of the step")}</th>
              <th scope="col">{t("more than without recomputing")}</th>
              <th scope="col">{t("stages that run again")}</th>
            </tr>
          </thead>
          <tbody>
            {sweep.plans.map((each, index) => (
              <tr key={index} class={index === chosen ? "is-chosen" : ""} data-budget={each.budget_bytes} data-peak={each.peak_bytes} data-time={each.time_ns}>
                <td>
                  <button type="button" aria-pressed={index === chosen} onClick={() => setChosen(index)}>
                    {bytes(each.budget_bytes)}
                  </button>
                </td>
                <td>
                  <Bar share={each.peak_bytes / most} text={bytes(each.peak_bytes)} />
                </td>
                <td>
                  <Bar share={each.time_ns / slowest} text={duration(each.time_ns)} />
                </td>
                <td>{each.ideal_ns > 0 ? percent(each.time_ns / each.ideal_ns - 1) : ""}</td>
                <td>{each.forward_runs.filter((runs) => runs > 1).length}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {sweep.recorded && <Recorded recorded={sweep.recorded} />}
        <p class="more">
          {t("Without recomputing the step needs {0}. What lies outside of forward and backward is the same in every plan.", bytes(plan.ideal_peak_bytes))}
        </p>
      </div>
      <aside class="side wide">
        <h2>{t("Stages with {0}", bytes(plan.budget_bytes))}</h2>
        <ol class="stages">
          {sweep.stages.map((name, index) => (
            <li key={index} data-runs={plan.forward_runs[index]}>
              <bdi class="name">{name}</bdi>
              <span class={plan.forward_runs[index] > 1 ? "is-again" : ""}>
                {plan.forward_runs[index] > 1 ? t("forward runs {0} times", plan.forward_runs[index]) : t("kept")}
              </span>
            </li>
          ))}
        </ol>
      </aside>
    </section>
  );
}

/** What the recorded step needed, which the plans start from. */
function Recorded({ recorded }: { recorded: NonNullable<Sweep["recorded"]> }) {
  const facts: [string, string][] = [
    [t("device"), recorded.device],
    [t("peak of forward and backward"), bytes(recorded.pass_peak_bytes)],
    [t("peak of the rest of the step"), bytes(recorded.rest_peak_bytes)],
    ...recorded.notes.map((note): [string, string] => [t("note"), note]),
  ];
  return (
    <>
      <h2 class="next">{t("The recorded step")}</h2>
      <dl class="facts is-first">
        {facts.map(([name, value], index) => (
          <div key={index}>
            <dt>{name}</dt>
            <dd>
              <bdi>{value}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function Bar({ share, text }: { share: number; text: string }) {
  return (
    <span class="bar-cell">
      <span class="bar" style={{ width: `${share * 100}%` }} />
      <span>{text}</span>
    </span>
  );
}
