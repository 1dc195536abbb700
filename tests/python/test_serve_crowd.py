"""`vram serve` against a hostile local user: thousands of slow clients, and clients that read no answers.

VRAM_BINARY names the program under test.
"""

import contextlib
import gzip
import json
import pathlib
import resource
import socket
import time
from collections.abc import Iterator

import pytest
from fake_gpus import MIB, Machine, wait_until
from filled_history import fill
from program import IS_SANITIZED
from serving import Serve

GPUS = [f"GPU-1b5fa1a2-0000-4000-8000-{number:012}" for number in range(8)]
MINUTES = 4980
COURSES = f"/api/v1/history?metric=used_bytes&from=-{MINUTES}min&step=1min"
HOLDERS = f"/api/v1/history/processes?from=-{MINUTES}min&step=1min"
LIMIT = 32 * MIB


def scenario() -> str:
    lines = []
    for number, uuid in enumerate(GPUS):
        lines.append(f"device {number}\nname NVIDIA H200\nuuid {uuid}\ntotal 143771M\nused 92000M\nreserved 600M")
        lines += [f"process compute {3_000_000_000 + 8 * number + each} 900M" for each in range(8)]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """More than three days of 8 GPUs with 16 processes each, by minutes."""
    folder = tmp_path_factory.mktemp("history")
    path = folder / "history.db"
    machine = Machine(folder, "")
    with Serve(machine, folder, "--history", str(path)) as serve:
        assert serve.end() == 0
    fill(path, GPUS, MINUTES, processes=16)
    return path


@pytest.fixture
def descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def unread(serve: Serve, path: str, *headers: str) -> socket.socket:
    """A connection whose answer is not read, with a small window."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", serve.port))
    connection.sendall("\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode())
    return connection


def peak_bytes(serve: Serve) -> int:
    status = pathlib.Path(f"/proc/{serve.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.mark.skipif(IS_SANITIZED, reason="of the program as it is shipped")
@pytest.mark.usefixtures("descriptors")
def test_memory_and_patience_under_attack(history: pathlib.Path, tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, scenario())
    with (
        Serve(machine, tmp_path, "--history", str(history)).with_a_look() as serve,
        contextlib.ExitStack() as connections,
    ):
        quiet = serve.resident_bytes()
        for number in range(2600):
            slow = connections.enter_context(serve.connect())
            with contextlib.suppress(ConnectionError):  # beyond the limit they are closed
                slow.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: local" if number % 2 else b"G")
        time.sleep(1.1)  # after a second of silence they may be put out
        crowded = serve.resident_bytes()
        for number in range(30):
            headers = ["Accept-Encoding: gzip"] if number % 3 == 0 else []
            connections.enter_context(unread(serve, HOLDERS if number % 3 == 1 else COURSES, *headers))
        waits = []
        begin = time.monotonic()
        while time.monotonic() - begin < 5:
            asked = time.perf_counter()
            assert serve.get("/healthz").status == 200
            waits.append((time.perf_counter() - asked) * 1000)
            time.sleep(0.01)
        peak = peak_bytes(serve)
        waits.sort()
        figures = {
            "quiet_mib": round(quiet / MIB, 1),
            "crowded_mib": round(crowded / MIB, 1),
            "peak_mib": round(peak / MIB, 1),
            "healthz_p50_ms": round(waits[len(waits) // 2], 2),
            "healthz_p99_ms": round(waits[len(waits) * 99 // 100], 2),
            "healthz_longest_ms": round(waits[-1], 2),
        }
        print(json.dumps(figures))
        assert peak < LIMIT, figures
        assert figures["healthz_p50_ms"] < 100, figures
        # A client that reads gets the complete answer meanwhile.
        points = [len(series["points"]) for series in serve.json(COURSES)["series"]]
        assert len(points) == len(GPUS)
        assert min(points) > MINUTES - 60, points
        assert peak_bytes(serve) < LIMIT


@pytest.mark.skipif(IS_SANITIZED, reason="of the program as it is shipped")
@pytest.mark.usefixtures("descriptors")
def test_requests_that_do_not_end_take_little_memory(tmp_path: pathlib.Path) -> None:
    """As much as each connection may send: thousands of headers, and a body."""
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n"
    lines = b"a:\r\n" * 2000
    kinds = [head + lines, head + lines + b"\r\n" + b"x" * 65000, head + b"Authorization: " + b"x" * 8000]
    with Serve(Machine(tmp_path, scenario()), tmp_path).with_a_look() as serve, contextlib.ExitStack() as connections:
        for number in range(2000):
            slow = connections.enter_context(serve.connect())
            slow.sendall(kinds[number % len(kinds)])
        assert serve.get("/healthz").status == 200
        time.sleep(1)
        print(json.dumps({"peak_mib": round(peak_bytes(serve) / MIB, 1)}))
        assert peak_bytes(serve) < 40 * MIB


def test_whoever_is_refused_puts_nobody_out(history: pathlib.Path, tmp_path: pathlib.Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("a-token-of-the-tests-0123456789\n")
    options = ["--history", str(history), "--token-file", str(token)]
    with (
        Serve(Machine(tmp_path, scenario()), tmp_path, *options).with_a_look() as serve,
        contextlib.ExitStack() as connections,
    ):
        for _ in range(32):  # as many as there may be at once
            slow = unread(serve, HOLDERS, f"Authorization: Bearer {token.read_text().strip()}")
            assert connections.enter_context(slow).recv(12) == b"HTTP/1.1 200"
        time.sleep(1.1)  # after a second of silence they may be put out
        assert {serve.get(COURSES).status for _ in range(5)} == {401}
        assert not any("kept the server waiting" in line["message"] for line in serve.events("client-error"))


@pytest.mark.skipif(IS_SANITIZED, reason="of the program as it is shipped")
def test_answers_that_nobody_reads_make_room(history: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As many as there may be at once: those who read come after, and are answered."""
    with (
        Serve(Machine(tmp_path, scenario()), tmp_path, "--history", str(history)).with_a_look() as serve,
        contextlib.ExitStack() as connections,
    ):
        for _ in range(60):
            connections.enter_context(unread(serve, HOLDERS))
        wait_until(lambda: serve.get(COURSES).status == 200)  # by then some have waited for a second
        assert peak_bytes(serve) < LIMIT


def test_a_large_answer_is_the_same_packed(history: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Serve(Machine(tmp_path, scenario()), tmp_path, "--history", str(history)).with_a_look() as serve:
        span = f"from={int(time.time()) - 250_000}&to={int(time.time()) - 3600}&step=1min"
        path = f"/api/v1/history?metric=used_bytes&{span}"
        plain, packed = serve.get(path), serve.get(path, Accept_Encoding="gzip")
        assert packed.headers["Content-Encoding"] == "gzip"
        document, unpacked = plain.json(), json.loads(gzip.decompress(packed.body))
        assert document["series"] == unpacked["series"]
        assert len(packed.body) < len(plain.body) / 2


def test_arguments_of_ended_processes_are_not_shown(history: pathlib.Path, tmp_path: pathlib.Path) -> None:
    machine = Machine(tmp_path, scenario())
    path = f"{HOLDERS}&device={GPUS[0]}"
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("a-token-of-the-tests-0123456789\n")
    shown = {
        (): "python3",
        ("--command-lines", "off"): None,
        ("--command-lines", "full"): "/usr/bin/python3 train.py --key s3cret-",
        ("--token-file", str(token)): "/usr/bin/python3 train.py --key s3cret-",
    }
    for options, command in shown.items():
        with Serve(machine, tmp_path, "--history", str(history), *options) as serve:
            wait_until(lambda: serve.get("/readyz").status == 200)
            answer = serve.get(path, Authorization=f"Bearer {token.read_text().strip()}")
            for series in answer.json()["series"]:
                found = series["process"]["command"]
                pid = series["process"]["pid"]
                assert found == (f"{command}{pid}" if command and "key" in command else command), options
