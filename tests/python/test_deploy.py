"""deploy/: promtool and a real Prometheus accept rules, dashboards and configurations.

VRAM_BINARY names the program under test. Prometheus scrapes it and runs every query of the dashboards and the rules.
"""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from fake_gpus import Machine, wait_until
from metrics_page import EVERYTHING, GOLDEN, OPENMETRICS, families, not_on_this_machine, served
from poster import Poster, skip_without_library
from program import ROOT, vram
from prometheus_server import Prometheus, prometheus
from serving import Serve

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus/vram-alerts.yml"
TESTS = DEPLOY / "prometheus/vram-alerts.test.yml"
BOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
PROMETHEUS_OWN = {"up", "ALERTS"}
NAME = r"\b(?!(?:and|or|unless|bool|offset)\b)[a-zA-Z_:][a-zA-Z0-9_:]*\b(?!\s*\()"


def all_rules() -> dict[str, dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text())
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    return {rule["alert"]: rule for rule in rules}


def panels(board: pathlib.Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(board.read_text())["panels"]
    return found


def questions() -> list[tuple[str, str]]:
    """Each panel's PromQL, with the variables as Grafana fills them in for all."""
    found = []
    for board in BOARDS:
        for panel in panels(board):
            for target in panel["targets"]:
                expr = target["expr"].replace("$__rate_interval", "1m")
                expr = re.sub(r"\$(instance|uuid)\b", ".*", expr)
                assert "$" not in expr
                found.append((f"{board.stem}: {panel['title']} {target['refId']}", expr))
    return found


def metrics_in(expr: str) -> set[str]:
    """The names that a question asks for: what is no label, no text and no function."""
    bare = re.sub(r'"[^"]*"', "", expr)
    bare = re.sub(r"\b(by|on|group_left|ignoring|without)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\boffset\s+\w+", "", bare)
    return set(re.findall(NAME, bare))


def promtool(*words: object) -> str:
    done = subprocess.run(
        ["promtool", *map(str, words)], capture_output=True, text=True, check=False, timeout=120, cwd=TESTS.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_configuration_and_the_rules() -> None:
    promtool("check", "config", DEPLOY / "prometheus/prometheus.yml")
    promtool("check", "rules", RULES)
    promtool("test", "rules", TESTS)


def test_every_rule_is_tested_for_firing_and_for_silence() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for case in yaml.safe_load(TESTS.read_text())["tests"]:
        for check in case["alert_rule_test"]:
            (fires if check["exp_alerts"] else silent).add(check["alertname"])
    assert fires == silent == set(all_rules())
    assert len(fires) >= 15


@pytest.mark.parametrize("name", all_rules())
def test_a_rule_says_what_to_do(name: str) -> None:
    rule = all_rules()[name]
    assert name.startswith("Vram")
    assert re.fullmatch(r"\d+[smh]", rule["for"])
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert "{{ $labels.instance }}" in rule["annotations"]["summary"]
    assert len(rule["annotations"]["description"]) > 60


def test_every_metric_that_is_asked_for_is_published() -> None:
    published = set(families((GOLDEN / "full.prom").read_text())) | PROMETHEUS_OWN
    asked = [(name, rule["expr"]) for name, rule in all_rules().items()] + questions()
    for name, expr in asked:
        assert metrics_in(expr) <= published, name
        assert metrics_in(expr), name


def test_every_published_metric_is_on_a_page_of_the_tests(target: Serve) -> None:
    """So that no question below goes to a metric that only the expected pages have."""
    page = set(families(page_from(target)))
    other = set(re.findall(r"^(\w+)[{ ]", not_on_this_machine(), re.MULTILINE))
    ours = {name for name in page if not name.startswith("DCGM_FI_")}
    assert ours | other == set(families((GOLDEN / "full.prom").read_text()))
    assert not ours & other


def test_names_are_found_in_questions() -> None:
    assert metrics_in('sum by (a) (rate(b{c="d"}[5m])) / on (e) group_left (f) g offset 1h > bool 2') == {"b", "g"}


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_a_dashboard_is_complete(board: pathlib.Path) -> None:
    document = json.loads(board.read_text())
    assert document["uid"] == board.stem
    assert document["schemaVersion"] >= 39
    assert document["templating"]["list"][0]["type"] == "datasource"
    places: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & places
        assert at["x"] + at["w"] <= 24
        places |= cells
    assert len({panel["id"] for panel in document["panels"]}) == len(document["panels"])


def test_the_dashboards_are_what_make_writes(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, str(DEPLOY / "grafana/make.py"), str(tmp_path)], check=True, timeout=60)
    assert len(BOARDS) == 4
    for board in BOARDS:
        assert (tmp_path / board.name).read_text() == board.read_text(), "run deploy/grafana/make.py"


SECRET = "the-token-of-the-scrapes-0123456789"


def page_from(serve: Serve) -> str:
    return serve.get("/metrics", Authorization=f"Bearer {SECRET}").body.decode()


def live_through(machine: Machine, serve: Serve, scenario: str) -> None:
    """A fault that the driver reports; then the driver is unloaded and loaded again."""
    wait_until(lambda: "DCGM_FI_DEV_XID_ERRORS{" in page_from(serve))  # from then on it gets fault events
    machine.become(scenario.replace("uuid GPU-0\n", "uuid GPU-0\nxid 79\n"))
    wait_until(lambda: 'vram_gpu_xid_errors_total{uuid="GPU-0",xid="79"} 1' in page_from(serve))
    machine.become("driver unloaded\n" + scenario)
    wait_until(lambda: 'vram_exporter_source_failing{source="nvml"} 1' in page_from(serve))
    machine.become(scenario)
    wait_until(lambda: 'vram_gpu_memory_used_bytes{uuid="GPU-0"}' in page_from(serve))
    wait_until(lambda: "vram_gpu_memory_bandwidth_ratio{" in page_from(serve))  # of two samples


@pytest.fixture(name="target", scope="module")
def fixture_target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """The whole server, of a machine with all figures and a real process with a status page."""
    skip_without_library()
    folder = tmp_path_factory.mktemp("target")
    poster = Poster("train.py", "forward")
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(SECRET)
    options = ["--token-file", token, "--history", folder / "history.db", "--rules", DEPLOY / "rules.toml"]
    options += ["--process-series", "2", "--dcgm-names", "--period", "0.5s"]
    try:
        scenario = EVERYTHING.format(pid=poster.pid)
        machine = Machine(folder, scenario)
        with Serve(machine, folder, *map(str, options)).with_a_look() as serve:
            live_through(machine, serve, scenario)
            yield serve
    finally:
        poster.close()


@pytest.fixture(name="server", scope="module")
def fixture_server(target: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    ours = f"127.0.0.1:{target.port}"
    with served(not_on_this_machine) as other, prometheus(folder, ours, other, token=SECRET) as server:
        # Rates and slopes want several scrapes, alerts an evaluation.
        wait_until(lambda: bool(server.query("count_over_time(vram_gpu_up[1m]) >= 4")))
        wait_until(lambda: bool(server.query('ALERTS{alertname="VramGpuLost"}')))
        yield server


def test_the_scrape_is_whole(server: Prometheus) -> None:
    assert [each["health"] for each in server.get("/api/v1/targets")["activeTargets"]] == ["up", "up"]
    assert server.query("scrape_samples_scraped == scrape_samples_post_metric_relabeling")


@pytest.mark.parametrize(("where", "expr"), questions(), ids=[where for where, _ in questions()])
def test_every_panel_has_data(where: str, expr: str, server: Prometheus) -> None:
    wait_until(lambda: bool(server.query(expr)))
    for series in server.query(expr):
        assert series["value"][1] not in {"NaN", "+Inf", "-Inf"}, where


def test_every_rule_can_be_evaluated(server: Prometheus) -> None:
    found = [rule for group in server.get("/api/v1/rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in found} == set(all_rules())
    for rule in found:
        assert (rule["health"], rule.get("lastError", "")) == ("ok", ""), rule["name"]
        server.query(rule["query"])
    pending = {rule["name"] for rule in found if rule["state"] != "inactive"}
    assert {"VramGpuLost", "VramRowRemapPending", "VramRecoveryActionNeeded"} <= pending


def test_prometheus_reads_openmetrics(tmp_path: pathlib.Path) -> None:
    page = (GOLDEN / "dcgm.openmetrics").read_text()
    with served(lambda: page, OPENMETRICS) as address, prometheus(tmp_path, address) as server:
        wait_until(lambda: bool(server.query('up{job="vram"}')))
        (target,) = server.get("/api/v1/targets")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        (count,) = server.query("scrape_samples_scraped")
        assert int(count["value"][1]) == len(re.findall("^[^#]", page, re.MULTILINE))
        (about,) = server.get("/api/v1/metadata", metric="vram_gpu_memory_used_bytes").values()
        assert (about[0]["type"], about[0]["unit"]) == ("gauge", "bytes")


# What dashboard 12239 asks for. Its panel of tensor cores wants the profiler, which is not asked.
@pytest.mark.parametrize(
    "metric",
    [
        "DEV_GPU_TEMP",
        "DEV_POWER_USAGE",
        "DEV_SM_CLOCK",
        "DEV_GPU_UTIL",
        "PROF_GR_ENGINE_ACTIVE",
        "DEV_FB_USED",
        "DEV_FB_FREE",
    ],
)
def test_dashboards_of_dcgm_exporter_find_their_series(metric: str, server: Prometheus) -> None:
    for host in ("Hostname", "hostname"):
        expr = f'max(DCGM_FI_{metric}{{{host}=~".+", gpu=~".+", UUID!="", modelName!=""}}) by ({host}, gpu)'
        assert server.query(expr)


def daemonset() -> dict[str, Any]:
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes/daemonset.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["DaemonSet"]
    pod: dict[str, Any] = documents[0]["spec"]["template"]["spec"]
    return pod


def test_the_pods_of_the_daemonset() -> None:
    pod = daemonset()
    assert pod["hostPID"] is True
    (container,) = pod["containers"]
    port = container["ports"][0]
    assert f"--listen=0.0.0.0:{port['containerPort']}" in container["args"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["name"]}
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == volumes
    files = [word.split("=", 1)[1] for word in container["args"] if "=/" in word]
    assert all(any(file.startswith(mount + "/") for mount in mounts.values()) for file in files)
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    monitor = yaml.safe_load((DEPLOY / "kubernetes/podmonitor.yaml").read_text())
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["honorLabels"]) == (port["name"], True)
    token = next(volume["secret"] for volume in pod["volumes"] if "secret" in volume)
    assert endpoint["authorization"]["credentials"]["name"] == token["secretName"]


def test_the_options_that_deploy_uses_exist() -> None:
    unit = (DEPLOY / "systemd/vram-serve.service").read_text()
    words = [*daemonset()["containers"][0]["args"]]
    words += [word for line in re.findall(r"^ExecStart=(.*)", unit, re.MULTILINE) for word in line.split()]
    options = {word.split("=")[0] for word in words if word.startswith("--")}
    assert options
    known = set(re.findall(r"^ +(--[\w-]+)", vram("serve", "--help").stdout, re.MULTILINE))
    assert options <= known
