"""`vram serve` for tests: on a port that the kernel chooses, with the test's GPUs, and always ended."""

import http.client
import json
import pathlib
import signal
import socket
import subprocess
from types import TracebackType
from typing import Any

from fake_gpus import PATIENCE_S, Machine, wait_until
from program import BINARY, environment

TWO = (
    "device 0\nname First\nuuid GPU-0\npci 0 0x19 0\ntotal 1000M\nused 300M\nreserved 50M\n"
    "process compute 3000000001 200M\nprocess compute 3000000002 60M\n"
    "device 1\nname Second\nuuid GPU-1\ntotal 500M\nused 20M\nprocess compute 3000000002 20M\n"
)


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self) -> Any:
        return json.loads(self.body)


class Serve:
    """The program while it runs; its log, as JSON lines, goes to a file."""

    def __init__(self, machine: Machine, folder: pathlib.Path, *options: str, **changes: str) -> None:
        self.log_file = folder / "log"
        words = [BINARY, "serve", "--gpu", "nvml", "--log-format", "json"]
        if "--listen" not in options:
            words += ["--listen", "127.0.0.1:0"]
        if "--history" not in options and "XDG_STATE_HOME" not in changes:
            words += ["--history", "off"]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*words, *options],
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment(**machine.environment, **changes),
            )
        self.port = 0
        self._waits_for_look = False

    def __enter__(self) -> "Serve":
        try:
            wait_until(lambda: self.process.poll() is not None or self.events("started") != [])
            assert self.process.poll() is None, self.log_file.read_text()
            self.port = int(self.events("started")[0]["url.full"].rsplit(":", 1)[1])
            if self._waits_for_look:
                wait_until(lambda: self.get("/readyz").status == 200)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=60)

    def lines(self) -> list[Any]:
        text = self.log_file.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def events(self, action: str) -> list[Any]:
        return [line for line in self.lines() if line["event.action"] == action]

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status == 200, answer.body
        return answer.json()

    def with_a_look(self) -> "Serve":
        """Enters the block after the first sample of the GPUs."""
        self._waits_for_look = True
        return self

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        self.signal(signal.SIGTERM)
        code = self.process.wait(timeout=PATIENCE_S)
        if code != 0:
            print(self.log_file.read_text())  # a sanitizer's report, too
        return code

    def resident_bytes(self) -> int:
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")
