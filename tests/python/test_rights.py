"""`vram serve` with the rights that deploy/ gives it: the thread that looks keeps them, those that listen have none.

VRAM_BINARY names the program under test. Needs root, or any capability to lose.
"""

import os
import pathlib
import pwd
import shutil
import subprocess

import pytest
from fake_gpus import Machine, wait_until
from program import BINARY, IS_SANITIZED, environment
from serving import TWO, Serve


def field(status: pathlib.Path, name: str) -> str:
    (line,) = [line for line in status.read_text().splitlines() if line.startswith(name + ":")]
    return line.split()[1]


def capabilities(process: int) -> dict[int, set[str]]:
    """Of each thread: effective, permitted, inheritable and ambient ones."""
    tasks = pathlib.Path(f"/proc/{process}/task").iterdir()
    return {
        int(task.name): {field(task / "status", name) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")}
        for task in tasks
    }


NONE = {"0000000000000000"}
HAS_CAPABILITIES = int(field(pathlib.Path("/proc/self/status"), "CapEff"), 16) != 0


@pytest.mark.skipif(not HAS_CAPABILITIES, reason="this user has no capability to lose")
@pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer has threads of its own")
def test_threads_that_listen_have_no_capabilities(tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, TWO + f"process compute {os.getpid()} 1M\n")  # of a user who has a name
    receivers = ["--webhook", "http://127.0.0.1:1/", "--history", str(tmp_path / "history.db")]
    with Serve(machine, tmp_path, *receivers).with_a_look() as serve:
        assert serve.get("/metrics").status == 200
        users = {process["user"] for process in serve.json("/api/v1/status")["processes"]}
        assert pwd.getpwuid(os.geteuid()).pw_name in users
        of_threads = capabilities(serve.process.pid)
        assert of_threads[serve.process.pid] == NONE
        privileged = [thread for thread, rights in of_threads.items() if rights != NONE]
        assert len(privileged) == 1, "the one that looks"
        assert len(of_threads) >= 6  # the main one, two of the server, the history's, the receivers', the names'
        assert serve.events("rights") == []
        assert serve.end() == 0


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="this machine has no setpriv")
@pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer traces its own process")
def test_calls_that_would_make_more_of_its_rights_are_refused(tmp_path: pathlib.Path) -> None:
    """As systemd and Kubernetes start it: unable to gain privileges."""
    machine = Machine(tmp_path, TWO)
    log = tmp_path / "log"
    words = [
        "setpriv",
        "--no-new-privs",
        BINARY,
        "serve",
        "--gpu",
        "nvml",
        "--listen",
        "127.0.0.1:0",
        "--history",
        "off",
    ]
    with log.open("wb") as errors:
        process = subprocess.Popen(words, stderr=errors, env=environment(**machine.environment))
    try:
        wait_until(lambda: "serves at" in log.read_text())
        for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
            assert field(task / "status", "Seccomp") == "2", "a filter, also where it looks"
    finally:
        process.kill()
        process.wait(timeout=60)


def test_who_may_gain_privileges_is_not_bound(tmp_path: pathlib.Path) -> None:
    """NVML starts nvidia-modprobe where device files are missing, which is root's."""
    own = pathlib.Path("/proc/self/status")
    if field(own, "NoNewPrivs") == "1":
        pytest.skip("these tests can gain no privileges themselves")
    with Serve(Machine(tmp_path, TWO), tmp_path) as serve:
        assert field(pathlib.Path(f"/proc/{serve.process.pid}/status"), "Seccomp") == field(own, "Seccomp")
