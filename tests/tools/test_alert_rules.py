"""tools/alert_rules.py makes each of its files from one definition."""

from pathlib import Path

import pytest

import alert_rules
from alert_rules import PAGES, Rules, own_rules, prometheus_rules, prometheus_tests, table

DEFINITION = """
# A comment at the beginning.

[rules.xid-critical]
measure = "xid"  # faults
above = 1
window = "10min"
xids = [48, 79, 95]
for = "2min"
severity = "critical"
summary = "{device}: {detail}"

[rules.xid-critical.docs]
fires = "Xid {xids} in the last {window}"
why = "the device is broken"
zh_fires = "最近 {window} 有 Xid {xids}"
zh_why = "设备坏了"

[[rules.xid-critical.prometheus]]
alert = "VramXidCritical"
group = "health"
note = "A remark."
expr = '''
a{xid=~"$xids"}
and b{xid!~"$all_xids"} > $above'''
summary = "GPU {{ $labels.uuid }} had Xid {{ $labels.xid }} {{ $value | humanizeDuration }} ago"
description = "Its \\"device\\"."

[[rules.xid-critical.prometheus.fires]]
series = [['a{uuid="GPU-0", xid="79"}', "0 1"], ["b", "1x10"]]
at = "5m"
labels = { uuid = "GPU-0", xid = "79" }
value = "2m 0s"

[[rules.xid-critical.prometheus.silent]]
why = "another's fault"
interval = "5m"
series = [["b", "1x10"]]
at = "10m"

[rules.xid-warning]
measure = "xid"  # faults
xids = [63]
for = "0s"
severity = "warning"

[rules.xid-warning.docs]
fires = "Xid {xids}"
zh_fires = "Xid {xids}"

[[prometheus]]
alert = "VramDown"
group = "collection"
severity = "warning"
expr = "up == 0"
for = "5m"
summary = "no answer"
description = "None."

[[prometheus.fires]]
series = [["up", "0x9"]]
at = "6m"

[[prometheus.silent]]
why = "it is up"
series = [["up", "1x9"]]
at = "6m"
"""


@pytest.fixture(name="rules")
def fixture_rules() -> Rules:
    return Rules(DEFINITION)


def test_the_programs_own_rules_are_copied(rules: Rules) -> None:
    text = own_rules(rules)
    assert text.startswith(alert_rules.OWN_HEAD)
    sections = DEFINITION.split("\n\n")
    assert text.removeprefix(alert_rules.OWN_HEAD) == f"\n{sections[1]}\n\n{sections[6]}\n"


def test_a_rule_for_prometheus_has_what_its_rule_has(rules: Rules) -> None:
    assert prometheus_rules(rules).removeprefix(alert_rules.PROMETHEUS_HEAD).split("\n\n")[0] == (
        """\
  - name: vram-collection
    rules:
      - alert: VramDown
        expr: up == 0
        for: 5m
        labels: {severity: warning}
        annotations:
          summary: "{{ $labels.instance }}: no answer"
          description: "None.\""""
    )
    assert """\
      - alert: VramXidCritical
        # A remark.
        expr: >-
          a{xid=~"48|79|95"}
          and b{xid!~"48|63|79|95"} > 1
        for: 2m
        labels: {severity: critical}
        annotations:
""" in prometheus_rules(rules)


def test_a_case_has_the_texts_that_prometheus_fills_in(rules: Rules) -> None:
    text = prometheus_tests(rules)
    assert (
        """\
  - name: 'VramXidCritical fires'
    interval: 1m
    input_series:
      - series: 'a{instance="node17:9877", job="vram", uuid="GPU-0", xid="79"}'
        values: '0 1'
      - series: 'b{instance="node17:9877", job="vram"}'
        values: '1x10'
    alert_rule_test:
      - alertname: VramXidCritical
        eval_time: 5m
        exp_alerts:
          - exp_labels: {severity: "critical", instance: "node17:9877", job: "vram", uuid: "GPU-0", xid: "79"}
            exp_annotations:
              summary: "node17:9877: GPU GPU-0 had Xid 79 2m 0s ago"
              description: "Its \\"device\\"."
"""
        in text
    )
    assert "  - name: 'VramXidCritical is silent: another''s fault'\n    interval: 5m\n" in text
    assert text.count("exp_alerts: []") == 2


def test_the_table_has_the_settings(rules: Rules) -> None:
    english, chinese = (table(rules, page).splitlines()[2:] for page in PAGES)
    assert english == [
        "| `xid-critical` | Xid 48, 79 or 95 in the last 10 min | 2 min | critical | the device is broken |",
        "| `xid-warning` | Xid 63 | – | warning | |",
    ]
    assert chinese == [
        "| `xid-critical` | 最近 10 min 有 Xid 48、79 或 95 | 2 min | critical | 设备坏了 |",
        "| `xid-warning` | Xid 63 | – | warning | |",
    ]


def test_a_stale_file_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src/alerts/rules").mkdir(parents=True)
    (tmp_path / "src/alerts/rules/rules.toml").write_text(DEFINITION)
    for name in ("deploy/rules.toml", "deploy/prometheus/vram-alerts.yml", "deploy/prometheus/vram-alerts.test.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    (tmp_path / "docs/zh").mkdir(parents=True)
    for page in PAGES:
        (tmp_path / page.name).write_text("Before.\n<!-- alert rules -->\nold\n<!-- end of alert rules -->\n")
    monkeypatch.setattr("sys.argv", ["alert_rules.py", "--check"])
    assert alert_rules.main(tmp_path) == 1
    assert "5 files stale" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["alert_rules.py"])
    assert alert_rules.main(tmp_path) == 0
    assert "| `xid-warning` |" in (tmp_path / "docs/alerts.md").read_text()
    monkeypatch.setattr("sys.argv", ["alert_rules.py", "--check"])
    assert alert_rules.main(tmp_path) == 0
