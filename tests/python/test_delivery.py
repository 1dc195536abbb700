"""Alerts from the driver event to the receiver: `vram serve`, a real Alertmanager and a webhook.

VRAM_BINARY names the program under test.
"""

import base64
import pathlib
import signal
import socket
import time

import pytest
from alert_receivers import alertmanager, proxy, webhook
from certificates import Authority
from fake_gpus import Machine, wait_until
from program import vram
from serving import TWO, Serve

FULL = TWO.replace("used 300M", "used 945M")  # of 950 MiB that the driver leaves: 99.5 %
RULES = """
[rules.memory-full]
for = "0s"
clear_for = "0s"
labels = { team = "ml" }

[rules.xid-critical]
window = "1min"
"""
PASSWORD = "hunter2-of-the-tests"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path, TWO)


def secret_file(folder: pathlib.Path, name: str, line: str) -> str:
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(line + "\n")
    return f"@{path}"


def options(folder: pathlib.Path) -> list[str]:
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    return ["--rules", str(rules), "--period", "0.2"]


def test_memory_that_is_full_is_told_and_its_end_too(machine: Machine, tmp_path: pathlib.Path) -> None:
    with webhook() as hook, alertmanager(tmp_path) as manager:
        receivers = ["--webhook", f"http://{hook.url}/alerts", "--alertmanager", manager.url]
        with Serve(machine, tmp_path, *options(tmp_path), *receivers).with_a_look() as serve:
            machine.become(FULL)
            wait_until(lambda: manager.alerts("memory-full") != [])
            (alert,) = manager.alerts("memory-full")
            host = serve.json("/api/v1/status")["host"]
            wanted = {"alertname": "memory-full", "severity": "critical", "gpu": "0", "uuid": "GPU-0", "team": "ml"}
            assert alert["labels"] == {**wanted, "instance": host}
            assert alert["status"]["state"] == "active"
            assert alert["startsAt"] < alert["endsAt"]
            assert "127.0.0.1" not in alert.get("generatorURL", ""), "which is another machine to whoever reads it"
            assert "GPU 0 (First)" in alert["annotations"]["summary"]
            assert alert["annotations"]["advice"]
            wait_until(lambda: hook.alerts("memory-full", "firing") != [])
            (posted,) = hook.alerts("memory-full", "firing")
            assert (posted["labels"], posted["device"], posted["pid"]) == (wanted, 0, None)
            assert (hook.documents[0]["schema"], hook.documents[0]["host"]) == ("vram.alerts/1", host)

            machine.become(TWO)
            wait_until(lambda: manager.alerts("memory-full") == [])
            wait_until(lambda: hook.alerts("memory-full", "resolved") != [])
            (over,) = hook.alerts("memory-full", "resolved")
            assert (over["id"], over["labels"], over["ending"]) == (posted["id"], wanted, "clear")
            assert len(hook.alerts("memory-full", "firing")) == 1, "notified once"
            assert serve.events("firing")[0]["rule.name"] == "memory-full"
            assert serve.events("resolved")[0]["rule.name"] == "memory-full"
            assert serve.events("notify") == []


def test_a_fault_of_the_driver_is_told(machine: Machine, tmp_path: pathlib.Path) -> None:
    with webhook() as hook, alertmanager(tmp_path) as manager:
        receivers = ["--webhook", f"http://{hook.url}/", "--alertmanager", manager.url]
        with Serve(machine, tmp_path, *options(tmp_path), *receivers) as serve:
            wait_until(lambda: serve.get("/readyz").status == 200)
            wait_until(lambda: serve.json("/api/v1/devices/0")["device"]["xids"] == [])
            machine.become(TWO.replace("uuid GPU-0\n", "uuid GPU-0\nxid 79\n"))
            wait_until(lambda: manager.alerts("xid-critical") != [])
            (alert,) = manager.alerts("xid-critical")
            assert (alert["labels"]["xid"], alert["labels"]["uuid"]) == ("79", "GPU-0")
            wait_until(lambda: hook.alerts("xid-critical", "firing") != [])
            (posted,) = hook.alerts("xid-critical", "firing")
            assert (posted["value"], posted["labels"]["severity"]) == (1, "critical")


def test_a_receivers_password_is_seen_by_it_alone(machine: Machine, tmp_path: pathlib.Path) -> None:
    with webhook() as hook:
        good = secret_file(tmp_path, "good", f"http://ann:{PASSWORD}@{hook.url}/alerts?key={PASSWORD}")
        unreachable = secret_file(
            tmp_path, "unreachable", f"http://ann:{PASSWORD}@127.0.0.1:1/{PASSWORD}?key={PASSWORD}"
        )
        receivers = ["--webhook", good, "--webhook", unreachable, "--alertmanager", unreachable]
        with Serve(machine, tmp_path, *options(tmp_path), *receivers).with_a_look() as serve:
            machine.become(FULL)
            wait_until(lambda: hook.alerts("memory-full", "firing") != [])
            expected = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()
            assert hook.authorizations == [f"Basic {expected}"]
            wait_until(lambda: len(serve.events("notify")) >= 2)  # no server listens at the others
            assert all("127.0.0.1:1" in line["message"] for line in serve.events("notify"))
            assert PASSWORD.encode() not in pathlib.Path(f"/proc/{serve.process.pid}/cmdline").read_bytes()
            assert PASSWORD not in serve.get("/api/v1/alerts").body.decode()
            assert serve.end() == 0
        assert PASSWORD not in serve.log_file.read_text()
        assert expected not in serve.log_file.read_text()


def test_a_webhook_over_https(machine: Machine, tmp_path: pathlib.Path) -> None:
    """With the authority in SSL_CERT_FILE; what another one signed is not trusted, redirects are not followed."""
    authority = Authority(tmp_path)
    known, unknown = authority.sign("known"), Authority(tmp_path, "stranger").sign("unknown")
    with (
        webhook(known) as hook,
        webhook(unknown) as stranger,
        webhook() as other,
        webhook(known, redirect=f"http://{other.url}/") as redirecting,
    ):
        urls = [f"https://ann:{PASSWORD}@{each.url}/services/{PASSWORD}" for each in (hook, stranger, redirecting)]
        named = [secret_file(tmp_path, str(number), url) for number, url in enumerate(urls)]
        receivers = [word for each in named for word in ("--webhook", each)]
        changes = {"SSL_CERT_FILE": str(authority.certificate), "NO_PROXY": "*"}
        with Serve(machine, tmp_path, *options(tmp_path), *receivers, **changes).with_a_look() as serve:
            machine.become(FULL)
            wait_until(lambda: hook.alerts("memory-full", "firing") != [])
            assert hook.authorizations == ["Basic " + base64.b64encode(f"ann:{PASSWORD}".encode()).decode()]
            wait_until(lambda: len(serve.events("notify")) >= 2)
            troubles = {stranger.url: "certificate", redirecting.url: "redirects are not followed"}
            for url, words in troubles.items():
                assert any(
                    f"https://{url}: " in line["message"] and words in line["message"]
                    for line in serve.events("notify")
                )
            assert (stranger.documents, other.documents) == ([], [])
            assert serve.end() == 0
        assert PASSWORD not in serve.log_file.read_text()


def test_https_goes_through_the_proxy_that_curl_would_take(machine: Machine, tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path)
    with webhook(authority.sign("known")) as hook, proxy() as (url, asked):
        changes = {"CURL_CA_BUNDLE": str(authority.certificate), "https_proxy": url}
        words = [*options(tmp_path), "--webhook", f"https://{hook.url}/"]
        with Serve(machine, tmp_path, *words, **changes).with_a_look():
            machine.become(FULL)
            wait_until(lambda: hook.alerts("memory-full", "firing") != [])
            assert set(asked) == {hook.url}


def test_a_receiver_over_https_that_hangs_does_not_hold_up_the_end(machine: Machine, tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
        words = [*options(tmp_path), "--webhook", url]
        with Serve(machine, tmp_path, *words, NO_PROXY="*").with_a_look() as serve:
            machine.become(FULL)
            connection, _ = silent.accept()
            begin = time.monotonic()
            assert serve.end() == 0
            assert time.monotonic() - begin < 5
            connection.close()


@pytest.mark.parametrize("option", ["--webhook", "--alertmanager"])
def test_a_file_that_others_may_read_or_that_has_no_url_is_refused(option: str, tmp_path: pathlib.Path) -> None:
    for line, mode, words in (
        (f"http://ann:{PASSWORD}@127.0.0.1:1/", 0o644, "chmod 600"),
        (f"{PASSWORD} {PASSWORD}", 0o600, "has no URL"),
        (f"ftp://{PASSWORD}", 0o600, "expected a URL such as http://"),
    ):
        named = secret_file(tmp_path, "url", line)
        (tmp_path / "url").chmod(mode)
        done = vram("serve", "--listen", "127.0.0.1:0", "--history", "off", option, named)
        assert done.returncode == 2, done.stderr
        assert words in done.stderr
        assert PASSWORD not in done.stderr
    missing = vram("serve", option, f"@{tmp_path / 'none'}")
    assert (missing.returncode, f"{option}: cannot open" in missing.stderr) == (2, True)


def test_receivers_from_files_are_read_again(machine: Machine, tmp_path: pathlib.Path) -> None:
    """On SIGHUP: a new address and password count from then on, and with an error the old ones stay."""
    unreachable = "http://127.0.0.1:1/"
    with webhook() as hook, alertmanager(tmp_path) as manager:
        named = [secret_file(tmp_path, name, unreachable) for name in ("hook", "manager")]
        receivers = ["--webhook", unreachable, "--webhook", named[0], "--alertmanager", named[1]]
        with Serve(machine, tmp_path, *options(tmp_path), *receivers).with_a_look() as serve:
            machine.become(FULL)
            wait_until(lambda: len(serve.events("notify")) == 3)  # no server listens
            secret_file(tmp_path, "hook", f"http://ann:{PASSWORD}@{hook.url}/alerts")
            secret_file(tmp_path, "manager", manager.url)
            serve.signal(signal.SIGHUP)
            wait_until(lambda: manager.alerts("memory-full") != [])
            wait_until(lambda: hook.alerts("memory-full", "firing") != [])  # what was not delivered before
            assert {line["message"] for line in serve.events("reloaded")} == {
                f"--webhook {named[0]} was read again",
                f"--alertmanager {named[1]} was read again",
                "the rules were read again",
            }

            secret_file(tmp_path, "hook", f"{PASSWORD} {PASSWORD}")
            (tmp_path / "manager").chmod(0o644)
            serve.signal(signal.SIGHUP)
            wait_until(lambda: len(serve.events("reload-failed")) == 2)
            failed = [line["message"] for line in serve.events("reload-failed")]
            assert failed[0].startswith(f"--webhook {named[0]}: ")
            assert "has no URL" in failed[0]
            assert failed[1].startswith(f"--alertmanager {named[1]}: ")
            assert "chmod 600" in failed[1]
            assert all(message.endswith("; the old URL stays") for message in failed)
            machine.become(TWO)
            wait_until(lambda: hook.alerts("memory-full", "resolved") != [])
            wait_until(lambda: manager.alerts("memory-full") == [])
            assert serve.end() == 0
        assert PASSWORD not in serve.log_file.read_text()


def test_a_look_that_hangs_is_told(machine: Machine, tmp_path: pathlib.Path) -> None:
    """The rules are judged while the sampler waits for the driver."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[rules.sample-overdue]\nabove = "1s"\n')
    with webhook() as hook:
        words = ["--rules", str(rules), "--period", "0.2", "--webhook", f"http://{hook.url}/"]
        with Serve(machine, tmp_path, *words).with_a_look():
            machine.become("hang nvmlDeviceGetMemoryInfo_v2 30000\n" + TWO)
            wait_until(lambda: hook.alerts("sample-overdue", "firing") != [])
