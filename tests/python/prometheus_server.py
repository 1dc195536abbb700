"""A real Prometheus for tests: scrapes targets each second, with the deployed rules, and answers questions."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from fake_gpus import wait_until
from program import ROOT

RULES = ROOT / "deploy/prometheus/vram-alerts.yml"
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - {{job_name: vram, honor_labels: true, authorization: {{credentials: "{token}"}}, static_configs: [{{targets: {targets}}}]}}
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


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
    """Scraping /metrics of each ADDR:PORT, with a token for who asks for one; ended with the block."""
    program = shutil.which("prometheus")
    assert program, "Debian's package prometheus is needed"
    config, port = folder / "prometheus.yml", free_port()
    config.write_text(CONFIG.format(rules=RULES, targets=json.dumps(targets), token=token))
    words = [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    words += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            server = Prometheus(port)
            wait_until(server.is_ready)
            yield server
        finally:
            process.kill()
            process.wait()
