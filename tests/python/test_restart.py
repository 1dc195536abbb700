"""Alerts across restarts: `vram serve` is killed at many moments of an alert's life, and receivers miss nothing.

VRAM_BINARY names the program under test.
"""

import pathlib
import time
from typing import Any

import pytest
from alert_receivers import Posted, alertmanager, webhook
from fake_gpus import Machine, wait_until
from serving import TWO, Serve

FULL = TWO.replace("used 300M", "used 945M")  # of 950 MiB that the driver leaves: 99.5 %
RULES = """
[rules.memory-full]
for = "{for_}"
clear_for = "{clear_for}"

[rules.memory-almost-full]
enabled = false

[rules.xid-critical]
window = "1min"
"""


class Killed:
    """The program with a history, to be killed and started again."""

    def __init__(self, folder: pathlib.Path, *receivers: str, for_: str = "0s", clear_for: str = "0s") -> None:
        self.folder = folder
        self.machine = Machine(folder, TWO)
        rules = folder / "rules.toml"
        rules.write_text(RULES.format(for_=for_, clear_for=clear_for))
        self.options = ["--rules", str(rules), "--period", "0.1", "--history", str(folder / "history.db"), *receivers]

    def run(self, *more: str) -> Serve:
        return Serve(self.machine, self.folder, *self.options, *more)

    def live_for(self, seconds: float) -> None:
        """Until a kill -9."""
        with self.run():
            time.sleep(seconds)


def ids(posted: Posted, state: str) -> set[tuple[str, str]]:
    """Return the alerts in notifications, by name and start."""
    return {(alert["id"], alert["started_unix_ns"]) for alert in posted.alerts("memory-full", state)}


def full_in(serve: Serve) -> list[Any]:
    """The alerts of the rule, whatever their state."""
    return [alert for alert in serve.json("/api/v1/alerts")["alerts"] if alert["rule"] == "memory-full"]


def test_an_alert_that_ends_while_nobody_looks_is_told_to_be_over(tmp_path: pathlib.Path) -> None:
    with webhook() as hook, alertmanager(tmp_path) as manager:
        program = Killed(tmp_path, "--webhook", f"http://{hook.url}/", "--alertmanager", manager.url)
        with program.run():
            program.machine.become(FULL)
            wait_until(lambda: ids(hook, "firing") != set() and manager.alerts("memory-full") != [])
        program.machine.become(TWO)
        with program.run():
            wait_until(lambda: ids(hook, "resolved") == ids(hook, "firing"))
            wait_until(lambda: manager.alerts("memory-full") == [])


def test_an_alert_goes_on_over_a_restart_and_is_the_same(tmp_path: pathlib.Path) -> None:
    with webhook() as hook:
        program = Killed(tmp_path, "--webhook", f"http://{hook.url}/")
        with program.run().with_a_look() as serve:
            program.machine.become(FULL)
            wait_until(lambda: ids(hook, "firing") != set() and serve.events("firing") != [])
            time.sleep(1)  # what was delivered is written down
            (before,) = full_in(serve)
        with program.run().with_a_look() as serve:
            (after,) = full_in(serve)
            assert (after["id"], after["started_unix_ns"]) == (before["id"], before["started_unix_ns"])
            assert serve.events("firing") == [], "it is no new one"
            assert serve.end() == 0
        with program.run().with_a_look() as serve:
            time.sleep(0.5)
            assert serve.events("firing") == []
            assert len(hook.alerts("memory-full", "firing")) <= 2, "after a regular end nothing is sent again"


# Before it is seen, while it is judged, written, delivered, and long after.
MOMENTS = [0.0, 0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0]


def live_through(program: Killed, hook: Posted, begins_after: float, ends_after: float) -> None:
    """One alert: killed at a time after it began, again before the notification, and the same at its end."""
    began = len(ids(hook, "firing"))
    with program.run().with_a_look():
        program.machine.become(FULL)
        time.sleep(begins_after)
    program.live_for(ends_after)
    with program.run():
        wait_until(lambda: len(ids(hook, "firing")) > began)
        program.machine.become(TWO)
        time.sleep(ends_after)
    program.live_for(begins_after)
    with program.run():
        wait_until(lambda: ids(hook, "resolved") == ids(hook, "firing"))


@pytest.mark.parametrize("hold", ["0s", "200ms"])
def test_whenever_it_is_killed_each_beginning_and_each_end_is_told(hold: str, tmp_path: pathlib.Path) -> None:
    with webhook() as hook:
        program = Killed(tmp_path, "--webhook", f"http://{hook.url}/", for_=hold, clear_for=hold)
        for begins_after, ends_after in zip(MOMENTS, reversed(MOMENTS), strict=True):
            live_through(program, hook, begins_after, ends_after)
        with program.run().with_a_look() as serve:
            assert all(alert["state"] == "resolved" for alert in full_in(serve))
        assert len(ids(hook, "firing")) == len(MOMENTS)


def test_a_receiver_that_was_away_is_told_after_a_restart(tmp_path: pathlib.Path) -> None:
    """And other receivers are not notified twice."""
    with webhook() as there:
        with webhook() as other:
            away = other.url  # a port that is free once the block ends
        receivers = ["--webhook", f"http://{there.url}/", "--webhook", f"http://{away}/"]
        program = Killed(tmp_path, *receivers)
        with program.run().with_a_look() as serve:
            program.machine.become(FULL)
            wait_until(lambda: ids(there, "firing") != set())
            program.machine.become(TWO)
            wait_until(lambda: ids(there, "resolved") != set())
            time.sleep(1)  # what was delivered is written down
            assert serve.events("notify") != []
        received = len(there.documents)
        with webhook(address=away) as back, program.run():
            wait_until(lambda: ids(back, "resolved") == ids(there, "firing"))
            assert ids(back, "firing") == ids(there, "firing")
            assert len(there.documents) == received


def test_a_pending_alert_keeps_its_clock(tmp_path: pathlib.Path) -> None:
    """In lives shorter than what the rule waits for."""
    with webhook() as hook:
        program = Killed(tmp_path, "--webhook", f"http://{hook.url}/", for_="4s")
        program.machine.become(FULL)
        for _ in range(6):
            program.live_for(1.5)
        wait_until(lambda: ids(hook, "firing") != set())


def test_a_driver_that_hangs_at_the_start_is_told_with_the_hosts_name(tmp_path: pathlib.Path) -> None:
    with alertmanager(tmp_path) as manager:
        program = Killed(tmp_path, "--alertmanager", manager.url)
        rules = tmp_path / "rules.toml"
        rules.write_text('[rules.sample-overdue]\nabove = "1s"\nclear = "0.5s"\n')
        program.machine.become("hang nvmlInit_v2 600000\n" + TWO)
        with program.run() as serve:
            wait_until(lambda: manager.alerts("sample-overdue") != [])
            (alert,) = manager.alerts("sample-overdue")
            assert (
                alert["labels"]["instance"]
                == serve.get("/api").body.decode().split("<title>vram on ")[-1].split("<")[0]
            )
            page = serve.get("/metrics")
            assert page.status == 200
            assert "vram_exporter_sample_overdue_seconds " in page.body.decode()
