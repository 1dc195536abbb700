"""`vram serve` with many clients, slow clients, invalid requests and failing drivers. VRAM_BINARY names the program under test."""

import asyncio
import contextlib
import ctypes
import os
import pathlib
import platform
import random
import signal
import socket
import time
from collections.abc import Iterator

import pytest
from fake_gpus import Machine, wait_until
from program import BINARY, IS_SANITIZED, vram
from serving import TWO, Serve

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HANGS = "nvmlDeviceGetMemoryInfo_v2"


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path, TWO)


async def scrape(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(REQUEST)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()


async def crowd(port: int, count: int) -> list[bytes]:
    """So many connections at once, all open before the first request is sent."""
    connections = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(count)))
    for _, writer in connections:
        writer.write(REQUEST)
    answers = await asyncio.gather(*(reader.read() for reader, _ in connections))
    for _, writer in connections:
        writer.close()
    return answers


def test_a_thousand_scrapes_at_once(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path, "--period", "1h").with_a_look() as serve:
        answers = asyncio.run(crowd(serve.port, 1000))
        assert {answer.split(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 200 OK"}
        assert len({answer.split(b"\r\n\r\n", 1)[1] for answer in answers}) == 1  # one page for all
        assert serve.get("/healthz").status == 200


def test_slow_clients_hold_up_nobody(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path).with_a_look() as serve:
        slow = []
        for _ in range(300):  # that send a byte and wait, and that ask for much and read nothing
            slow.append(serve.connect())
            slow[-1].sendall(b"GET /met")
        for _ in range(50):
            slow.append(serve.connect())
            slow[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            slow[-1].sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        for answer in asyncio.run(crowd(serve.port, 100)):
            assert answer.startswith(b"HTTP/1.1 200 OK")
        for connection in slow:
            connection.close()


def test_those_who_keep_it_waiting_make_room(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path).with_a_look() as serve:
        silent = [serve.connect() for _ in range(2200)]  # more than it has connections
        time.sleep(1.1)  # after a second of silence they may be put out
        assert serve.get("/healthz").status == 200
        for connection in silent:
            connection.close()


def test_connections_leave_descriptors_for_the_rest(
    machine: Machine, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tmp_path / "few"
    few.write_text(f'#!/bin/sh\nulimit -n 256\nexec {BINARY} "$@"\n')
    few.chmod(0o700)
    monkeypatch.setattr("serving.BINARY", str(few))
    with Serve(machine, tmp_path).with_a_look() as serve:
        silent = [serve.connect() for _ in range(300)]

        def is_answered() -> bool:
            with contextlib.suppress(ConnectionError):
                return bool(serve.get("/healthz").status == 200)
            return False

        # After a second of silence they may be put out, by a busy machine's server later.
        wait_until(is_answered)
        assert not any("cannot take" in line["message"] for line in serve.events("client-error"))
        for connection in silent:
            connection.close()


def nonsense(random_: random.Random) -> bytes:
    """A request, spoiled somehow; or bytes of no meaning."""
    if random_.random() < 0.2:
        return random_.randbytes(random_.randrange(1, 3000))
    lines = [
        random_.choice([b"GET", b"HEAD", b"POST", b"PRI", b"get", b"", b"G\0T", b"OPTIONS"])
        + random_.choice([b" ", b"  ", b"\t", b""])
        + random_.choice([b"/metrics", b"/%", b"*", b"/" + b"a" * 5000, b"http://", b"/\xff\xfe", b"/?%00", b""])
        + random_.choice([b" HTTP/1.1", b" HTTP/9.9", b" HTTP/1.", b"", b" http/1.1"]),
        b"Host: " + random_.choice([b"localhost", b"[::1", b"a" * 300, b"", b"\xff", b"x:y:z"]),
    ]
    for _ in range(random_.randrange(0, 6)):
        lines.append(
            random_.choice([b"Content-Length", b"Transfer-Encoding", b"Accept", b"Accept-Encoding", b"Expect", b"\0"])
            + b": "
            + random_.choice(
                [b"-1", b"9" * 30, b"chunked", b"gzip, chunked", b";;,q=", b"100-continue", b"3", b"a" * 9000]
            )
        )
    request = bytearray(random_.choice([b"\r\n", b"\n", b"\r"]).join(lines) + b"\r\n\r\n")
    request += random_.choice([b"", b"abc", b"ffffffffffffffff\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"-1\r\n"])
    for _ in range(random_.choice([0, 0, 1, 3])):
        request[random_.randrange(len(request))] = random_.randrange(256)
    return bytes(request[: random_.randrange(1, len(request) + 1)] if random_.random() < 0.2 else request)


def statuses_of(serve: Serve, request: bytes) -> bytes:
    """All that comes back; the client has said all it will ever say."""
    with serve.connect() as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
        except ConnectionError:  # it has heard enough
            return b""
    return answer


def test_nonsense_gets_a_proper_answer_or_none(machine: Machine, tmp_path: pathlib.Path) -> None:
    random_ = random.Random(6)
    with Serve(machine, tmp_path, "--period", "1h").with_a_look() as serve:
        for number in range(4000):
            request = nonsense(random_)
            answer = statuses_of(serve, request)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 "), request
            assert not answer.startswith(b"HTTP/1.1 500"), request
            if number % 500 == 0:
                assert serve.get("/healthz").status == 200
        assert serve.get("/metrics").status == 200
        assert len(serve.events("client-error")) < 200  # thousands of lines would be a fault of their own
        assert serve.end() == 0


def test_a_driver_that_hangs_holds_up_no_request(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path, "--period", "0.2").with_a_look() as serve:
        machine.become(f"hang {HANGS} 30000\n" + TWO)
        wait_until(lambda: machine.last_call() == f"{HANGS} 0")
        assert serve.get("/metrics").status == 200
        assert serve.json("/api/v1/status")["devices"][0]["name"] == "First"
        wait_until(lambda: serve.get("/healthz").status == 503)
        health = serve.get("/healthz").json()
        assert (health["status"], "a call of the driver hangs" in health["why"]) == ("stale", True)
        assert serve.get("/readyz").status == 200

        def lateness() -> float:
            page = serve.get("/metrics").body.decode()
            (line,) = [line for line in page.splitlines() if line.startswith("vram_exporter_sample_overdue_seconds ")]
            return float(line.split()[1])

        before = lateness()
        assert before > 0
        wait_until(lambda: lateness() > before)  # pages are generated while the sample is late
        assert serve.end() == 0  # although the call still hangs
        assert serve.events("stopped") != []


def test_it_ends_while_the_first_look_hangs(machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.become(f"hang {HANGS} 600000\n" + TWO)
    with Serve(machine, tmp_path) as serve:
        wait_until(lambda: machine.last_call() == f"{HANGS} 0")
        assert serve.get("/readyz").status == 503
        page = serve.get("/metrics")  # Prometheus is to know that the driver hangs
        assert page.status == 200
        assert "vram_exporter_sample_overdue_seconds " in page.body.decode()
        assert serve.end() == 0


NEW_MOUNTS = 0x20000  # CLONE_NEWNS
PRIVATE = 0x44000  # MS_REC | MS_PRIVATE
DETACH = 2  # MNT_DETACH


@contextlib.contextmanager
def dead_mount(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A mount whose server never answers, so that any access to a file below it hangs.

    Only this process and those that it starts see it.
    """
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.getcwd()

    def needs(result: int, what: str) -> None:
        if result != 0:
            pytest.skip(f"{what}: {os.strerror(ctypes.get_errno())}")

    with contextlib.ExitStack() as cleanup:
        try:
            server = os.open("/dev/fuse", os.O_RDWR)
            before = os.open("/proc/self/ns/mnt", os.O_RDONLY)
        except OSError as error:
            pytest.skip(str(error))
        cleanup.callback(os.chdir, here)
        cleanup.callback(libc.setns, before, NEW_MOUNTS)
        cleanup.callback(os.close, server)  # hanging processes get an error
        needs(libc.unshare(NEW_MOUNTS), "unshare")
        needs(libc.mount(None, b"/", None, PRIVATE, None), "mount")
        settings = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
        needs(libc.mount(b"fuse", os.fsencode(folder), b"fuse", 0, settings), "mount")
        cleanup.callback(libc.umount2, os.fsencode(folder), DETACH)
        yield folder
    os.close(before)


@pytest.mark.parametrize("option", ["--rules", "--token-file", "--webhook"])
def test_a_fifo_for_a_file_is_refused_at_once(option: str, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    named = ("@" if option == "--webhook" else "") + str(tmp_path / "fifo")
    done = vram("serve", "--listen", "127.0.0.1:0", "--history", "off", option, named)
    assert (done.returncode, "is no plain file" in done.stderr) == (2, True), done.stderr


def test_rules_on_a_dead_mount_are_an_error_after_a_while(machine: Machine, tmp_path: pathlib.Path) -> None:
    # LeakSanitizer would wait for the thread that waits for the mount.
    options = {"ASAN_OPTIONS": "detect_leaks=0"}
    with dead_mount(tmp_path / "dead") as dead:
        done = vram("serve", "--listen", "127.0.0.1:0", "--history", "off", "--rules", dead / "rules.toml", **options)
        assert (done.returncode, "no answer within" in done.stderr) == (3, True), done.stderr
    rules = tmp_path / "rules.toml"
    rules.write_text("")
    with (
        dead_mount(tmp_path / "gone") as gone,
        Serve(machine, tmp_path, "--rules", str(rules), **options).with_a_look() as serve,
    ):
        rules.unlink()
        rules.symlink_to(gone / "rules.toml")
        serve.signal(signal.SIGHUP)
        wait_until(lambda: serve.events("reload-failed") != [])
        assert serve.get("/api/v1/rules").status == 200
        assert serve.end() == 0


def test_it_ends_while_its_history_hangs(machine: Machine, tmp_path: pathlib.Path) -> None:
    with dead_mount(tmp_path / "dead") as dead:
        serve = Serve(machine, tmp_path, "--history", str(dead / "history.db"))
        try:
            time.sleep(1)  # by then it waits for the file
            assert serve.end() == 0
            assert "during its start" in serve.events("stopped")[0]["message"]
        finally:
            serve.kill()


def test_a_signal_while_it_starts_is_obeyed_later(machine: Machine, tmp_path: pathlib.Path) -> None:
    url = tmp_path / "url"
    url.touch(mode=0o600)
    url.write_text("http://127.0.0.1:9/\n")
    (tmp_path / "vram").mkdir()
    with contextlib.ExitStack() as cleanup:
        with dead_mount(tmp_path / "dead") as dead:
            (tmp_path / "vram" / "history.db").symlink_to(dead / "history.db")
            serve = Serve(machine, tmp_path, "--webhook", f"@{url}", XDG_STATE_HOME=str(tmp_path))
            cleanup.callback(serve.kill)
            time.sleep(1)  # by then it waits for the file
            serve.signal(signal.SIGHUP)
            time.sleep(0.5)
            assert serve.events("started") == []
        wait_until(lambda: serve.events("started") != [])  # the mount is gone: it has no history
        wait_until(lambda: any("--webhook" in line["message"] for line in serve.events("reloaded")))


SYSCALL, DETACH, SEIZE, INTERRUPT = 24, 17, 0x4206, 0x4207  # ptrace
TRACE_EXIT, EVENT_EXIT = 0x40, 6
WALL = 0x40000000  # waitpid, also for threads
PWRITE64 = {"x86_64": "18", "aarch64": "68"}


def writer_of_history(pid: int) -> int:
    """The thread, which names itself when it has begun."""
    found: list[int] = []

    def is_named() -> bool:
        tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
        found[:] = [int(task.name) for task in tasks if (task / "comm").read_text() == "history\n"]
        return len(found) == 1

    wait_until(is_named)
    return found[0]


@pytest.mark.parametrize("call", ["pwrite64", "exit"])
def test_it_ends_while_the_disk_of_its_history_hangs(call: str, machine: Machine, tmp_path: pathlib.Path) -> None:
    """The thread that writes is stopped in a write, as by a mount whose server is gone, or after its last: nowhere else,
    where it may hold a lock of the heap that every thread needs."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if platform.machine() not in PWRITE64:
        pytest.skip(f"the numbers of system calls are unknown on {platform.machine()}")
    with Serve(machine, tmp_path, "--history", str(tmp_path / "history.db")).with_a_look() as serve:
        thread = writer_of_history(serve.process.pid)
        if ptrace(SEIZE, thread, None, TRACE_EXIT if call == "exit" else None) != 0:
            pytest.skip(f"ptrace: {os.strerror(ctypes.get_errno())}")
        has_ended = False

        def is_held_or_has_ended() -> bool:
            nonlocal has_ended
            found, status = os.waitpid(thread, WALL | os.WNOHANG)
            if found != thread:
                return False
            # On a busy machine the server may have left its threads behind before this one was in the call.
            has_ended = not os.WIFSTOPPED(status)
            if has_ended or status >> 8 == signal.SIGTRAP | EVENT_EXIT << 8:
                return True
            syscall = pathlib.Path(f"/proc/{serve.process.pid}/task/{thread}/syscall")
            if call == "pwrite64" and syscall.read_text().split()[0] == PWRITE64[platform.machine()]:
                return True
            assert ptrace(SYSCALL, thread, None, None) == 0
            return False

        try:
            assert call == "exit" or ptrace(INTERRUPT, thread, None, None) == 0
            serve.signal(signal.SIGTERM)
            wait_until(is_held_or_has_ended)
            wait_until(lambda: has_ended or os.waitpid(thread, WALL | os.WNOHANG)[0] == thread)  # with its process
        finally:
            ptrace(DETACH, thread, None, None)  # a process whose thread is traced can't be waited for
        assert serve.process.wait(timeout=60) == 0
        assert serve.events("stopped") != []


def test_the_driver_goes_and_comes_back(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path, "--period", "0.1").with_a_look() as serve:
        machine.become("driver unloaded\n" + TWO)
        wait_until(lambda: all(each["error"] for each in serve.json("/api/v1/devices")["devices"]))
        assert serve.get("/healthz").status == 200  # it looks, and sees that nothing answers
        assert 'vram_exporter_source_failing{source="nvml"} 1' in serve.get("/metrics").body.decode()
        machine.become(TWO)
        wait_until(lambda: all(each["error"] is None for each in serve.json("/api/v1/devices")["devices"]))


def test_a_signal_makes_it_let_go_of_the_driver(machine: Machine, tmp_path: pathlib.Path) -> None:
    with Serve(machine, tmp_path).with_a_look() as serve:
        assert machine.last_call() != "nvmlShutdown"
        serve.signal(signal.SIGUSR1)
        wait_until(lambda: machine.last_call().startswith("nvmlShutdown"))
        assert serve.get("/metrics").status == 200
        assert serve.events("released") != []
        wait_until(lambda: any("let go on request" in note for note in serve.json("/api/v1/devices")["notes"]))


# The first seed lets the driver open at once; with the other it does not count its devices in the first seconds.
@pytest.mark.parametrize("seed", ["1", "5"])
def test_a_driver_that_answers_at_random_ends_nothing(seed: str, machine: Machine, tmp_path: pathlib.Path) -> None:
    machine.environment["FAKE_NVML_CHAOS"] = seed
    calls = pathlib.Path(machine.environment["FAKE_NVML_CALLS"])
    machine.become("".join(f"device {index}\nuuid GPU-{index}\ntotal 1000M\nused 300M\n" for index in range(64)))
    with Serve(machine, tmp_path, "--period", "0.1") as serve:
        # One answer of eight is an error: more than a thousand are among so many.
        wait_until(lambda: calls.exists() and calls.read_bytes().count(b"\n") > 10_000)
        for _ in range(50):
            assert serve.get("/metrics").status in (200, 503)
            for device in serve.json("/api/v1/devices")["devices"]:
                memory = device["memory"]
                for name in ("used_bytes", "free_bytes", "reserved_bytes"):
                    if memory[name] is not None and memory["total_bytes"] is not None:
                        assert memory[name] <= memory["total_bytes"]
        assert serve.end() == 0


@pytest.mark.skipif(IS_SANITIZED, reason="of the program as it is shipped")
def test_memory_does_not_grow_with_requests(machine: Machine, tmp_path: pathlib.Path) -> None:
    async def many(port: int, count: int) -> None:
        for _ in range(count // 50):
            await asyncio.gather(*(scrape(port) for _ in range(50)))

    with Serve(machine, tmp_path, "--period", "0.1").with_a_look() as serve:
        asyncio.run(many(serve.port, 1000))
        before = serve.resident_bytes()
        asyncio.run(many(serve.port, 4000))
        assert serve.resident_bytes() - before < 1 << 20
