// A severity as a sign and a word: colour alone tells nothing to those who do not see it.
import { t } from "../texts";
import type { Alert } from "./api";

const SIGNS: Record<Alert["severity"], string> = { critical: "▲", warning: "●", info: "■" };
const NAMES: Record<Alert["severity"], string> = { critical: t("critical"), warning: t("warning"), info: t("info") };

export function Severity({ of, hasName = false }: { of: Alert["severity"]; hasName?: boolean }) {
  return (
    <span class={`severity is-${of}`}>
      <span aria-hidden="true">{SIGNS[of]}</span>
      {hasName ? <> {t(NAMES[of])}</> : <span class="visually-hidden">{t(NAMES[of])}</span>}
    </span>
  );
}

const STATES: Record<Alert["state"], string> = { firing: t("firing"), pending: t("pending"), resolved: t("resolved") };
export const stateText = (state: Alert["state"]): string => t(STATES[state]);
