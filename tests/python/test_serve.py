"""`vram serve`: its answers, its access control, and its log. VRAM_BINARY names the program under test."""

import gzip
import json
import os
import pathlib
import signal
import socket
import subprocess
from typing import Any

import pytest
from fake_gpus import MIB, Machine, wait_until
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from program import vram
from serving import TWO, Serve

SECRET = "a-secret-of-the-tests-0123456789"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path, TWO)


def closed(schema: Any) -> Any:
    """The same schemas, but with no room for fields that they do not name."""
    if isinstance(schema, dict):
        inner = {name: closed(value) for name, value in schema.items()}
        return {"additionalProperties": False, **inner} if "properties" in inner else inner
    return [closed(value) for value in schema] if isinstance(schema, list) else schema


def schema_of(document: Any, path: str, status: str = "200") -> Any:
    answer = document["paths"][path]["get"]["responses"][status]
    named = answer["content"]["application/json"]["schema"]
    return {**named, "components": closed(document["components"])}


def test_answers_are_what_the_description_says(machine: Machine, tmp_path: pathlib.Path) -> None:
    options = ["--history", str(tmp_path / "history.db"), "--recordings", str(tmp_path)]
    with Serve(machine, tmp_path, *options).with_a_look() as serve:
        document = serve.json("/api/v1/openapi.json")
        validate(document)
        unlike = ("/metrics", "/api/v1/recordings/page")  # no JSON; has a required parameter
        plain = [
            path for path, item in document["paths"].items() if "{" not in path and "get" in item and path not in unlike
        ]
        wait_until(lambda: serve.json("/api/v1/history?metric=used_bytes")["series"] != [])
        wait_until(lambda: serve.json("/api/v1/history/processes")["series"] != [])
        asked = {path: path for path in plain} | {
            "/api/v1/devices/{key}": "/api/v1/devices/GPU-0",
            "/api/v1/history": "/api/v1/history?metric=used_bytes&from=-5min",
        }
        for path, request in asked.items():
            if path != "/api/v1/openapi.json":
                Draft202012Validator(schema_of(document, path)).validate(serve.json(request))
        refused = schema_of(document, "/api/v1/processes", "400")
        Draft202012Validator(refused).validate(serve.get("/api/v1/processes?sort=size").json())


def test_the_past_is_what_the_machine_was_like(machine: Machine, tmp_path: pathlib.Path) -> None:
    options = ["--history", str(tmp_path / "history.db"), "--period", "0.1"]
    with Serve(machine, tmp_path, *options).with_a_look() as serve:
        used = "/api/v1/history?metric=used_bytes&device=GPU-0&step=1min"
        held = "/api/v1/history/processes?device=GPU-0"
        wait_until(lambda: serve.json(used)["series"] != [] and serve.json(held)["series"] != [])
        points = serve.json(used)["series"][0]["points"]
        assert {each["minimum"] for each in points} == {each["maximum"] for each in points} == {300 * MIB}
        machine.become(TWO.replace("used 300M", "used 400M").replace("3000000001 200M", "3000000001 250M"))
        wait_until(lambda: serve.json(used)["series"][0]["points"][-1]["maximum"] == 400 * MIB)
        series = serve.json(held)["series"]
        assert [each["process"]["pid"] for each in series] == [3000000001, 3000000002], "the highest first"
        assert max(each["maximum"] for each in series[0]["points"]) == 250 * MIB
        assert {each["average"] for each in series[1]["points"]} == {60 * MIB}
        (most,) = serve.json(held + "&most=1")["series"]
        assert (most["process"]["pid"], most["device"]["key"]) == (3000000001, "GPU-0")
        elsewhere = serve.json("/api/v1/history/processes?device=GPU-1")["series"]
        assert [each["process"]["pid"] for each in elsewhere] == [3000000002]
        assert serve.end() == 0
    with Serve(machine, tmp_path, "--history", str(tmp_path / "history.db")).with_a_look() as again:
        assert max(each["maximum"] for each in again.json(used)["series"][0]["points"]) == 400 * MIB
        assert again.json(held)["series"][0]["process"]["pid"] == 3000000001


def test_the_api_says_what_the_machine_is_like(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path).with_a_look() as serve:
        status = serve.json("/api/v1/status")
        assert [each["memory"]["used_bytes"] for each in status["devices"]] == [300 * MIB, 20 * MIB]
        assert serve.json("/api/v1/devices/1")["device"]["name"] == "Second"
        assert serve.json("/api/v1/devices/0000:19:00.0")["device"]["uuid"] == "GPU-0"
        on_first = serve.json("/api/v1/processes?device=GPU-0")["processes"]
        assert [each["pid"] for each in on_first] == [3000000001, 3000000002]
        assert serve.get("/api/v1/devices/2").status == 404
        age = serve.get("/api/v1/status").headers["X-Vram-Age-Seconds"]
        assert float(age) >= 0


def test_the_picture_follows_the_machine(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path, "--period", "0.1").with_a_look() as serve:
        machine.become(TWO.replace("used 300M", "used 301M"))
        wait_until(lambda: serve.json("/api/v1/devices/0")["device"]["memory"]["used_bytes"] == 301 * MIB)


def test_metrics_are_served_in_both_formats(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path, "--dcgm-names", "--process-series", "1").with_a_look() as serve:
        plain = serve.get("/metrics")
        assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = plain.body.decode()
        assert f'vram_gpu_memory_used_bytes{{uuid="GPU-0"}} {300 * MIB}\n' in text
        assert "DCGM_FI_DEV_FB_USED{" in text
        assert 'pid="3000000001"' in text
        assert 'pid="3000000002"' not in text
        assert 'vram_build_info{version="' in text
        wanted = "application/openmetrics-text;version=1.0.0"
        modern = serve.get("/metrics", Accept=wanted)
        assert modern.headers["Content-Type"].startswith("application/openmetrics-text")
        assert modern.body.endswith(b"# EOF\n")
        promtool = subprocess.run(
            ["promtool", "check", "metrics"], input=plain.body, capture_output=True, check=False, timeout=120
        )
        assert promtool.returncode == 0 or b"DCGM" in promtool.stderr, promtool.stderr


def test_an_answer_is_packed_for_who_asks(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path, "--period", "1h").with_a_look() as serve:
        plain = serve.get("/api/v1/status")
        packed = serve.get("/api/v1/status", Accept_Encoding="gzip")
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body
        head = serve.get("/api/v1/status", "HEAD")
        assert (head.body, head.headers["Content-Length"]) == (b"", str(len(plain.body)))


def test_other_hosts_names_are_refused(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path).with_a_look() as serve:
        for host in ("localhost", "127.0.0.1:1", "[::1]"):
            assert serve.get("/healthz", Host=host).status == 200
        refused = serve.get("/healthz", Host="rebound.example")
        assert refused.status == 421
        assert "DNS rebinding" in refused.json()["error"]["message"]
        assert "Access-Control-Allow-Origin" not in serve.get("/healthz", Origin="http://x.example").headers
        assert serve.events("client-refused")


def test_without_a_token_the_host_is_checked_for_everybody(machine: Machine, tmp_path: pathlib.Path) -> None:
    options = ["--listen", "0.0.0.0:0", "--no-token", "--host-name", "gpu01.example"]
    with Serve(machine, tmp_path, *options).with_a_look() as serve:
        own = socket.gethostname()
        for host in ("127.0.0.1", "10.2.3.4:9877", own, own.split(".")[0] + ":80", "GPU01.example"):
            assert serve.get("/metrics", Host=host).status == 200, host
        for host in ("rebound.example", f"{own}.rebound.example", "gpu01"):
            assert serve.get("/metrics", Host=host).status == 421, host


def token_file(folder: pathlib.Path, mode: int = 0o600) -> pathlib.Path:
    path = folder / "token"
    path.write_text(SECRET + "\n")
    path.chmod(mode)
    return path


def test_a_token_is_asked_for_and_never_shown(machine: Machine, tmp_path: pathlib.Path) -> None:
    path = token_file(tmp_path)
    with Serve(machine, tmp_path, "--listen", "0.0.0.0:0", "--token-file", str(path)).with_a_look() as serve:
        page = serve.get("/")
        assert page.status == 200, "the page asks for the token"
        assert b"GPU-0" not in page.body
        assert b"GPU-1" not in page.body
        for target in ("/metrics", "/api/v1/status", "/api", "/nowhere"):
            assert serve.get(target).status == 401
            assert serve.get(target, Authorization=f"Bearer {SECRET}x").status == 401
        assert serve.get("/healthz").status in (200, 503)
        assert serve.get("/metrics", Authorization=f"Bearer {SECRET}").status == 200
        assert serve.events("no-token") == []
        command = pathlib.Path(f"/proc/{serve.process.pid}/cmdline").read_bytes()
        assert SECRET.encode() not in command

        path.write_text("another-secret-of-the-tests-9876\n")
        serve.signal(signal.SIGHUP)
        wait_until(lambda: len(serve.events("reloaded")) == 2)  # the token, the rules
        assert serve.get("/metrics", Authorization=f"Bearer {SECRET}").status == 401
        path.write_text("short\n")
        serve.signal(signal.SIGHUP)
        wait_until(lambda: serve.events("reload-failed") != [])
        assert serve.get("/metrics", Authorization="Bearer another-secret-of-the-tests-9876").status == 200
        assert serve.end() == 0
        assert "secret-of-the-tests" not in serve.log_file.read_text()


def test_other_addresses_need_a_token_or_a_word(machine: Machine, tmp_path: pathlib.Path) -> None:
    done = vram("serve", "--listen", "0.0.0.0:0")
    assert done.returncode == 2
    assert "--token-file FILE" in done.stderr
    for mode in (0o640, 0o604):
        done = vram("serve", "--listen", "0.0.0.0:0", "--token-file", token_file(tmp_path, mode))
        assert (done.returncode, "chmod 600" in done.stderr, SECRET in done.stderr) == (2, True, False)
    with Serve(machine, tmp_path, "--listen", "0.0.0.0:0", "--no-token") as serve:
        (warning,) = serve.events("no-token")
        assert warning["log.level"] == "warn"


def test_a_port_that_is_taken_is_named(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = vram("serve", "--gpu", "nvml", "--history", "off", "--listen", address, **machine.environment)
    assert done.returncode == 3
    assert f"{address} is taken" in done.stderr
    assert "--listen" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--listen", "gpu01:80"),
        ("--period", "0.01"),
        ("--period", "soon"),
        ("--log-format", "xml"),
        ("--retention", "1s"),
        ("--process-series", "many"),
        ("--no-token", "--token-file", "x"),
        ("--gpu", "abacus"),
        ("--webhook", "ftp://nowhere"),
        ("--rules", "/nowhere/rules.toml"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...]) -> None:
    done = vram("serve", "--listen", "127.0.0.1:0", "--history", "off", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("vram: error: ")


def test_history_is_kept_over_a_restart(machine: Machine, tmp_path: pathlib.Path) -> None:
    options = ("--period", "0.1", "--history", str(tmp_path / "history.db"))
    with Serve(machine, tmp_path, *options).with_a_look() as serve:
        wait_until(lambda: serve.json("/healthz")["samples"] > 3)
        assert serve.end() == 0
    machine.become("driver unloaded\n")
    with Serve(machine, tmp_path, *options) as serve:
        (first, second) = serve.json("/api/v1/history?metric=used_bytes&from=-1h&step=1s")["series"]
        assert [first["device"]["key"], second["device"]["key"]] == ["GPU-0", "GPU-1"]
        assert {point["average"] for point in first["points"]} == {300 * MIB}
        (alone,) = serve.json("/api/v1/history?metric=used_bytes&device=GPU-1")["series"]
        assert {point["maximum"] for point in alone["points"]} == {20 * MIB}
        for wrong in ("", "?metric=x", "?metric=used_bytes&from=now", "?metric=used_bytes&from=0&step=1s"):
            assert serve.get("/api/v1/history" + wrong).status == 400
        assert serve.get("/api/v1/history?metric=used_bytes&device=GPU-9").status == 404


def test_without_a_history_it_says_how_to_have_one(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path) as serve:
        refused = serve.get("/api/v1/history?metric=used_bytes")
        assert (refused.status, "--history" in refused.json()["error"]["message"]) == (404, True)
    done = vram("serve", "--listen", "127.0.0.1:0", "--history", "/proc/no/such/file")
    assert (done.returncode, "--history: " in done.stderr) == (3, True)


def test_alerts_are_told_and_shown(machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.become(TWO.replace("name First\n", "name First\nrows 0 1 off on\n"))  # a remapping that has failed
    with Serve(machine, tmp_path, "--period", "0.1").with_a_look() as serve:
        wait_until(lambda: any(each["state"] == "firing" for each in serve.json("/api/v1/alerts")["alerts"]))
        names = {each["name"] for each in serve.json("/api/v1/rules")["rules"]}
        firing = [each for each in serve.json("/api/v1/alerts")["alerts"] if each["state"] == "firing"]
        assert {each["rule"] for each in firing} <= names
        wait_until(lambda: serve.events("firing") != [])
        assert serve.events("firing")[0]["rule.name"] in names


def test_the_log_is_one_of_elastic(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path, "--period", "0.1").with_a_look() as serve:
        machine.become("driver unloaded\n")
        wait_until(lambda: serve.events("source-note") != [])
        machine.become(TWO)
        wait_until(lambda: serve.events("sources-well") != [])
        assert serve.end() == 0
        lines = serve.lines()
    assert (lines[0]["event.action"], lines[-1]["event.action"]) == ("started", "stopped")
    for line in lines:
        assert {"@timestamp", "log.level", "message", "ecs.version", "host.name", "event.action"} <= line.keys()
        assert line["log.level"] in ("info", "warn", "error")


def test_systemd_is_told(machine: Machine, tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = os.fspath(tmp_path / "notify")
        manager.bind(path)
        manager.settimeout(60)
        with Serve(machine, tmp_path, NOTIFY_SOCKET=path, WATCHDOG_USEC="30000") as serve:
            assert manager.recv(100) == b"READY=1"
            assert manager.recv(100) == b"WATCHDOG=1"
            assert serve.end() == 0
            message = b"WATCHDOG=1"
            while message == b"WATCHDOG=1":
                message = manager.recv(100)
            assert message == b"STOPPING=1"


def test_the_page_for_people_lists_what_there_is(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path) as serve:
        page = serve.get("/api")
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert b"script" not in page.body
        for path in json.loads(serve.get("/api/v1/openapi.json").body)["paths"]:
            assert path.encode() in page.body
