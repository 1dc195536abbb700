#!/usr/bin/env python3
"""Writes what follows from the alert rules in src/alerts/rules/rules.toml; --check compares it.

These are the rules as people start from them and as the program has them inside (deploy/rules.toml), the rules for Prometheus
with their tests (deploy/prometheus/), and the tables in docs/alerts.md and docs/zh/alerts.md between the lines
`<!-- alert rules -->` and `<!-- end of alert rules -->`. rules.toml itself says what its keys mean.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from products import update
from source_files import ROOT

SOURCE = "src/alerts/rules/rules.toml"
# Of each series in a test, and of the alert that comes of it.
INSTANCE = {"instance": "node17:9877", "job": "vram"}
GROUPS = ("collection", "health", "memory")
TABLE = re.compile(r"(?<=^<!-- alert rules -->\n).*?(?=^<!-- end of alert rules -->$)", re.M | re.S)
OWN_HEAD = """\
# The built-in alert rules of vram serve with all their settings; docs/alerts.md explains each. A rule file needs only the
# settings that it changes:
#
#   [rules.temperature]        a built-in rule; other settings keep their values
#   above = 80
#   [rules.sampling-slow]
#   enabled = false
#   [rules.team-gpu-full]      a rule of your own; requires `measure`, other settings are those of the first built-in rule with it
#   measure = "memory_used"
#   above = "80%"
#
# vram serve --rules FILE reads the file. An unknown key is an error.
"""
PROMETHEUS_HEAD = """\
# Alert rules for the metrics of `vram serve` (docs/metrics.md). Thresholds are starting points: adjust them to your machines. Each
# rule has a test that it fires and one that it stays silent in vram-alerts.test.yml. Faults and severities are those of vram serve's
# built-in rules (rules.toml), because both are written from one definition.
groups:
"""
TEST_HEAD = """\
# promtool test rules vram-alerts.test.yml: each rule has a case in which it fires and one in which it stays silent.
rule_files: [vram-alerts.yml]
evaluation_interval: 1m
tests:
"""

Table = dict[str, Any]


class Rules:
    def __init__(self, text: str) -> None:
        self.text = text
        document = tomllib.loads(text)
        self.own: dict[str, Table] = document["rules"]
        # Rules for Prometheus with the rule that they belong to; those that have none are one themselves.
        self.prometheus: list[tuple[Table, Table]] = [
            (each, rule) for rule in self.own.values() for each in rule.get("prometheus", ())
        ] + [(each, each) for each in document.get("prometheus", ())]

    def expression(self, alert: Table, rule: Table) -> str:
        named = {xid for each in self.own.values() for xid in each.get("xids", ())}
        values = {
            "$all_xids": "|".join(map(str, sorted(named))),
            "$xids": "|".join(map(str, rule.get("xids", ()))),
            "$reasons": "|".join(rule.get("reasons", ())),
            "$above": str(rule.get("above", "")),
        }
        return re.sub(r"\$(?:all_xids|xids|reasons|above)\b", lambda name: values[name[0]], alert["expr"])


def own_rules(rules: Rules) -> str:
    """The sections of the program's own rules, as the definition has them."""
    sections = re.findall(r"^\[rules\.[\w-]+\]\n(?:(?!\[).+\n)+", rules.text, re.M)
    return "\n".join([OWN_HEAD, *sections])


def prometheus_rules(rules: Rules) -> str:
    groups = (_group(name, [one for one in rules.prometheus if one[0]["group"] == name], rules) for name in GROUPS)
    return PROMETHEUS_HEAD + "\n".join(groups)


def _group(name: str, alerts: list[tuple[Table, Table]], rules: Rules) -> str:
    return f"  - name: vram-{name}\n    rules:\n" + "\n".join(_alert(alert, rule, rules) for alert, rule in alerts)


def _alert(alert: Table, rule: Table, rules: Rules) -> str:
    lines = rules.expression(alert, rule).rstrip("\n").split("\n")
    expression = lines[0] if len(lines) == 1 else "\n          ".join([">-", *lines])
    note = f"        # {alert['note']}\n" if "note" in alert else ""
    return f"""\
      - alert: {alert["alert"]}
{note}        expr: {expression}
        for: {_duration(alert, rule)}
        labels: {{severity: {rule["severity"]}}}
        annotations:
          summary: {_quoted(_summary(alert))}
          description: {_quoted(alert["description"])}
"""


def _duration(alert: Table, rule: Table) -> str:
    """How long it holds before it fires: as the rule, if the alert does not say."""
    return str(alert["for"] if "for" in alert else rule["for"].replace("min", "m"))


def prometheus_tests(rules: Rules) -> str:
    cases = (
        _case(alert, rule, case, kind == "fires")
        for alert, rule in rules.prometheus
        for kind in ("fires", "silent")
        for case in alert[kind]
    )
    return TEST_HEAD + "".join(f"\n{case}" for case in cases)


def _case(alert: Table, rule: Table, case: Table, fires: bool) -> str:
    name = f"{alert['alert']} fires" if fires else f"{alert['alert']} is silent: {case['why']}"
    series = "".join(
        f"      - series: {_plain(_with_instance(which))}\n        values: {_plain(values)}\n"
        for which, values in case["series"]
    )
    return f"""\
  - name: {_plain(name)}
    interval: {case.get("interval", "1m")}
    input_series:
{series}    alert_rule_test:
      - alertname: {alert["alert"]}
        eval_time: {case["at"]}
{_expected(alert, rule, case) if fires else "        exp_alerts: []"}
"""


def _expected(alert: Table, rule: Table, case: Table) -> str:
    labels = {"severity": rule["severity"], **INSTANCE, **case.get("labels", {})}
    return f"""\
        exp_alerts:
          - exp_labels: {{{", ".join(f"{name}: {_quoted(value)}" for name, value in labels.items())}}}
            exp_annotations:
              summary: {_quoted(_filled(_summary(alert), labels, case))}
              description: {_quoted(_filled(alert["description"], labels, case))}"""


def _summary(alert: Table) -> str:
    return "{{ $labels.instance }}: " + str(alert["summary"])


def _filled(text: str, labels: dict[str, str], case: Table) -> str:
    """An annotation as Prometheus fills it in; the case has the value as Prometheus writes it."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda name: labels[name[1]], text)
    return re.sub(r"\{\{ \$value.*?\}\}", lambda _: str(case["value"]), text)


def _with_instance(series: str) -> str:
    name, _, labels = series.removesuffix("}").partition("{")
    instance = ", ".join(f'{label}="{value}"' for label, value in INSTANCE.items())
    return f"{name}{{{instance}, {labels}}}" if labels else f"{name}{{{instance}}}"


def _plain(text: str) -> str:
    """In the quotes of YAML in which only these themselves are special."""
    return "'" + text.replace("'", "''") + "'"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True)
class Page:
    """A page with the table of the rules, in its language."""

    name: str
    head: str
    prefix: str  # of the keys of its texts in `docs`
    alternatives: tuple[str, str]  # between the items of a list, and before the last one


PAGES = (
    Page("docs/alerts.md", "| rule | fires when | for | severity | reason |", "", (", ", " or ")),
    Page("docs/zh/alerts.md", "| 规则 | 何时触发 | 持续 | 严重程度 | 原因 |", "zh_", ("、", " 或 ")),
)


def table(rules: Rules, page: Page) -> str:
    """The rules of a page."""
    lines = [page.head, "|---|---|---|---|---|"]
    for name, rule in rules.own.items():
        settings = {key: _setting(value, page) for key, value in rule.items()}
        fires = rule["docs"][f"{page.prefix}fires"].format(**settings)
        duration = "–" if rule["for"] == "0s" else settings["for"]
        reason = rule["docs"].get(f"{page.prefix}why")
        why = f" {reason}" if reason else ""
        lines.append(f"| `{name}` | {fires} | {duration} | {rule['severity']} |{why} |")
    return "\n".join(lines) + "\n"


def _setting(value: Any, page: Page) -> str:
    """A setting for people: "4GiB" is 4 GiB, [1, 2, 3] is 1, 2 or 3."""
    if isinstance(value, list):
        words = [f'"{each}"' if isinstance(each, str) else str(each) for each in value]
        comma, last = page.alternatives
        return last.join([*([comma.join(words[:-1])] if words[1:] else []), words[-1]])
    return re.sub(r"^(\d+)(\D+)$", r"\1 \2", str(value))


def products(rules: Rules, root: Path) -> Iterator[tuple[str, str]]:
    """Each file that follows from the rules, and its text."""
    yield "deploy/rules.toml", own_rules(rules)
    yield "deploy/prometheus/vram-alerts.yml", prometheus_rules(rules)
    yield "deploy/prometheus/vram-alerts.test.yml", prometheus_tests(rules)
    for page in PAGES:
        document = (root / page.name).read_text(encoding="utf-8")
        yield page.name, TABLE.sub(table(rules, page).replace("\\", r"\\"), document)


def main(root: Path = ROOT) -> int:
    rules = Rules((root / SOURCE).read_text(encoding="utf-8"))
    about = f"{len(rules.own)} rules, {len(rules.prometheus)} for Prometheus; "
    return update(root, products(rules, root), SOURCE, "tools/alert_rules.py", about)


if __name__ == "__main__":
    sys.exit(main())
