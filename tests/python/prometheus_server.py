"""A real Prometheus for tests: it scrapes targets every second, has the deployed rules, and answers queries."""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from fake_gpus import wait_until
from program import ROOT, started

RULES = ROOT / "deploy/prometheus/vram-alerts.yml"
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - {{job_name: vram, honor_labels: true, authorization: {{credentials: "{token}"}}, static_configs: [{{targets: {targets}}}]}}
"""


@contextlib.contextmanager
def started_on_a_port(words: list[str], log: pathlib.Path, is_ready: Callable[[int], bool]) -> Iterator[int]:
    """A server's command with its ``--web.listen-address``, ready to answer; ended with the block.

    Such servers cannot choose a port. Where another process has taken the one that was free, the server ends at
    once, and the next port is tried.
    """
    for _ in range(5):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port: int = listener.getsockname()[1]
        address = f"--web.listen-address=127.0.0.1:{port}"
        with log.open("w") as output:
            options: dict[str, Any] = {"stdout": output, "stderr": output, "stdin": subprocess.DEVNULL}
            with started([*words, address], **options) as process:
                if _comes_up(process, functools.partial(is_ready, port)):
                    yield port
                    return
    raise AssertionError(f"{words[0]} did not start:\n{log.read_text()}")


def _comes_up(process: subprocess.Popen[Any], is_ready: Callable[[], bool]) -> bool:
    wait_until(lambda: process.poll() is not None or is_ready())
    return process.poll() is None


class Prometheus:
    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; an error is raised with its words."""
        words = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self._address}{path}?{words}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expr: str) -> list[Any]:
        result: list[Any] = self.get("/api/v1/query", query=expr)["result"]
        return result

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._address}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextlib.contextmanager
def prometheus(folder: pathlib.Path, *targets: str, token: str = "none") -> Iterator[Prometheus]:
    """Scrape /metrics of each ADDR:PORT, with a token for servers that require one; ends with the block."""
    program = shutil.which("prometheus")
    assert program, "Debian's package prometheus is needed"
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(rules=RULES, targets=json.dumps(targets), token=token))
    words = [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    words.append("--log.level=error")
    with started_on_a_port(words, folder / "log", lambda port: Prometheus(port).is_ready()) as port:
        yield Prometheus(port)
