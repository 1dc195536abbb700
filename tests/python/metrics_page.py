"""A server for the metrics page of a machine with all figures known, for tests that scrape /metrics."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from collections.abc import Callable, Iterator

from fake_gpus import Machine
from program import ROOT

GOLDEN = ROOT / "tests/data/metrics"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
# Two GPUs, one of them in parts, and a third that fell off the bus; each process's number is filled in.
EVERYTHING = """
version 550.54.15
device 0
name NVIDIA H200
uuid GPU-0
pci 0 0x19 0
total 1000M
used 700M
reserved 50M
utilization 37 12
celsius 45
clocks 1980 2619
milliwatts 300000
power-limit 700000
throttle 0x4
pcie 1000 2000
nvlink 10 20
memory-celsius 50
recovery 1
bar1 2000M 10M
ecc 1 0 5 2
rows 3 1 on off
retired 2 1 on
compute-mode 3
persistence on
process compute {pid} 500M max max 40
process compute 3000000002 30M
device 1
name NVIDIA H200
uuid GPU-1
pci 0 0x2a 0
total 1000M
used 400M
reserved 50M
gpm 37.5 1000 2000 30 40
mig on
part 1 0 500M 380M 3g.71gb
part 1 1 500M 380M 3g.71gb
process compute 3000000001 380M 1 0
process mps 3000000001 380M 1 0
device 2
name NVIDIA H200
uuid GPU-2
pci 0 0x3b 0
lost
"""


def families(page: str) -> dict[str, str]:
    """A page's pieces by the name of their metric."""
    pieces = re.split(r"^(?=# HELP )", page, flags=re.MULTILINE)
    return {piece.split()[2]: piece for piece in pieces if piece}


def page_of(machine: Machine, *options: str) -> str:
    done = machine.status("--prometheus", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def not_on_this_machine() -> str:
    """What no test can have here: an AMD GPU, a pod; and a source that fails without the GPUs being gone."""
    return """
vram_exporter_source_failing{source="nvml"} 1
vram_gpu_host_memory_total_bytes{uuid="GPU-9"} 64e9
vram_gpu_page_retirement_failed{uuid="GPU-9"} 1
vram_gpu_host_memory_used_bytes{uuid="GPU-9"} 1e9
vram_process_host_memory_used_bytes{uuid="GPU-9",pid="7"} 1e9
vram_process_busy_seconds_total{uuid="GPU-9",pid="7"} 1.5
vram_pod_memory_used_bytes{uuid="GPU-0",namespace="ml",pod="trainer-0",pod_uid="7c1f"} 5e8
"""


@contextlib.contextmanager
def served(page: Callable[[], str], content_type: str = TEXT) -> Iterator[str]:
    """Yield ADDR:PORT of a server of the page (path /metrics), which is generated for each scrape."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=60)
