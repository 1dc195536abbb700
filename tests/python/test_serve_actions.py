"""Changes through the API of `vram serve`: silences, requests to real processes, and recordings in a folder."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from asked_program import MIB, SEGMENTS, STAND_IN, running
from fake_gpus import PATIENCE_S, Machine, wait_until
from program import IS_SANITIZED, ROOT
from serving import TWO, Answer, Serve

SECRET = "a-secret-of-the-tests-0123456789"
DEMO = ROOT / "demo" / "leak.stacks.pickle.xz"

# Steps for as long as the test wants, and keeps the last ones for a recording.
TRAINING = f"""{STAND_IN}
import ctypes
from vram._library import library
from vram._prototypes import EVENT_ALLOC, Event
board = vram.Board()
recorder = vram.flight_recorder("FOLDER", stacks=None)
print("ready", flush=True)
step = 0
while True:
    step += 1
    vram.step()
    library().vram_record_event(ctypes.byref(Event(kind=EVENT_ALLOC, address=step << 20, size_bytes=1024)))
    time.sleep(0.005)
"""

without_library = pytest.mark.skipif(IS_SANITIZED, reason="builds with sanitizers have no libvram.so")


@pytest.fixture
def token(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "token"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def serve(tmp_path: pathlib.Path, token: pathlib.Path) -> Iterator[Serve]:
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    options = ["--token-file", str(token), "--recordings", str(recordings), "--history", str(tmp_path / "history.db")]
    with Serve(Machine(tmp_path, TWO), tmp_path, *options, VRAM_BOARD=str(tmp_path / "board")) as started:
        wait_until(lambda: started.get("/readyz").status == 200)
        yield started
        assert started.end() == 0


def get(serve: Serve, path: str) -> Any:
    answer = serve.get(path, Authorization=f"Bearer {SECRET}")
    assert answer.status == 200, answer.body
    return answer.json()


def post(serve: Serve, path: str, body: object, **headers: str) -> Answer:
    known = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", serve.port, timeout=PATIENCE_S)
    try:
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request("POST", path, body=json.dumps(body), headers={**known, **given})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def job(serve: Serve, started: Answer) -> Any:
    assert started.status == 202, started.body
    number = started.json()["number"]

    def found() -> Any:
        return next(each for each in get(serve, "/api/v1/jobs")["jobs"] if each["number"] == number)

    wait_until(lambda: found()["state"] != "running")
    return found()


def test_changes_are_for_clients_with_the_token_on_their_own_behalf(serve: Serve) -> None:
    body = {"rule": "temperature", "duration": "2h"}
    assert post(serve, "/api/v1/silences", body, Authorization="Bearer wrong-secret-of-the-tests").status == 401
    assert post(serve, "/api/v1/silences", body, Content_Type="text/plain").status == 415
    assert post(serve, "/api/v1/silences", body, Sec_Fetch_Site="cross-site").status == 403
    assert post(serve, "/api/v1/silences", body, Origin="https://evil.example").status == 403
    assert get(serve, "/api/v1/silences")["silences"] == []
    assert post(serve, "/api/v1/silences", body, Origin=f"http://127.0.0.1:{serve.port}").status == 200


def test_without_a_token_nothing_can_be_changed(tmp_path: pathlib.Path) -> None:
    with Serve(Machine(tmp_path, TWO), tmp_path).with_a_look() as serve:
        refused = post(serve, "/api/v1/trim", {"all": True})
        assert refused.status == 403
        assert "--token-file FILE" in refused.json()["error"]["message"]
        assert serve.get("/api/v1/recordings").status == 404


def test_a_silence_survives_a_restart(tmp_path: pathlib.Path, token: pathlib.Path) -> None:
    options = ["--token-file", str(token), "--history", str(tmp_path / "history.db")]
    machine = Machine(tmp_path, TWO)
    with Serve(machine, tmp_path, *options).with_a_look() as serve:
        made = post(serve, "/api/v1/silences", {"rule": "temperature", "duration": "2h", "comment": "fans"}).json()
        serve.kill()
    with Serve(machine, tmp_path, *options).with_a_look() as serve:
        assert get(serve, "/api/v1/silences")["silences"] == [made["silence"]]
        assert post(serve, "/api/v1/silences/end", {"number": made["silence"]["number"]}).status == 200
        assert get(serve, "/api/v1/silences")["silences"] == []


@without_library
def test_a_process_releases_its_cache_and_records_itself(serve: Serve, tmp_path: pathlib.Path) -> None:
    with running(tmp_path / "board", TRAINING.replace("FOLDER", str(tmp_path / "flight"))) as child:

        def cached() -> Any:
            return [
                each["cached_bytes"] for each in get(serve, "/api/v1/free")["processes"] if each["pid"] == child.pid
            ]

        wait_until(lambda: cached() == [80 * MIB])
        trimmed = job(serve, post(serve, "/api/v1/trim", {"pids": [child.pid]}))
        assert trimmed["state"] == "done", trimmed
        assert trimmed["result"]["freed_bytes"] == 80 * MIB
        recorded = job(serve, post(serve, "/api/v1/record", {"pid": child.pid, "steps": 3}))
        assert recorded["state"] == "done", recorded
        name = recorded["result"]["name"]
        assert os.listdir(tmp_path / "recordings") == [name]
    assert post(serve, "/api/v1/trim", {"pids": [child.pid]}).status == 404
    failed = job(serve, post(serve, "/api/v1/record", {"pid": child.pid}))
    assert failed["state"] == "failed"
    wait_until(lambda: get(serve, "/api/v1/recordings")["recordings"][0]["state"] != "reading")
    assert get(serve, "/api/v1/recordings")["recordings"][0]["summary"]["events"] > 0


@without_library
def test_the_segments_of_a_process_are_those_that_its_allocator_reports(serve: Serve, tmp_path: pathlib.Path) -> None:
    program = STAND_IN + SEGMENTS + TRAINING.removeprefix(STAND_IN).replace("FOLDER", str(tmp_path / "flight"))
    counted = """
for name in ("allocated", "reserved"):
    size = "total_size" if name == "reserved" else "allocated_size"
    setattr(Cuda, name, {0: sum(each[size] for each in listed), 1: 0})
print("ready", flush=True)
"""
    with running(tmp_path / "board", program.replace('print("ready", flush=True)\n', counted)) as child:

        def listed() -> Any:
            answer = post(serve, "/api/v1/segments", {"pid": child.pid})
            assert answer.status == 200, answer.body
            return answer.json()

        wait_until(lambda: listed()["list"] is not None)
        found = listed()["list"]
        wait_until(lambda: any(each["pid"] == child.pid for each in get(serve, "/api/v1/free")["processes"]))
        (holder,) = [each for each in get(serve, "/api/v1/free")["processes"] if each["pid"] == child.pid]
        reported = holder["devices"][0]
        assert found["reserved_bytes"] == reported["reserved_bytes"] > 0
        assert sum(each["size_bytes"] for each in found["segments"]) == reported["reserved_bytes"]
        assert reported["allocated_bytes"] == sum(
            size
            for each in found["segments"]
            for size, state in zip(each["sizes"], each["states"], strict=True)
            if state == 1
        )
        assert found["block_count"] == sum(len(each["sizes"]) for each in found["segments"])
        assert not list((tmp_path / "board").glob("segments-*"))
    wait_until(lambda: listed()["error"] is not None)
    assert listed()["list"] == found
    stranger = post(serve, "/api/v1/segments", {"pid": 1})
    assert stranger.json()["list"] is None
    for body in ({}, {"pid": 0}, {"pid": "1"}, {"pid": 1, "all": True}):
        assert post(serve, "/api/v1/segments", body).status == 400


@pytest.mark.skipif(IS_SANITIZED, reason="sanitizers need more address space than a report may have")
def test_recordings_have_findings_and_a_page(serve: Serve, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "recordings"
    shutil.copy(DEMO, folder / "run <b>.pickle.xz")
    (folder / "bad.vtrace").write_text("nonsense")
    (folder / "link.vtrace").symlink_to(tmp_path / "token")

    def listed() -> dict[str, Any]:
        return {each["name"]: each for each in get(serve, "/api/v1/recordings")["recordings"]}

    wait_until(lambda: {each["state"] for each in listed().values()} == {"read", "failed"})
    assert set(listed()) == {"bad.vtrace", "run <b>.pickle.xz"}
    assert listed()["bad.vtrace"]["state"] == "failed"
    assert listed()["run <b>.pickle.xz"]["summary"]["findings"][0]["kind"] == "leak"
    address = "/api/v1/recordings/page?name=run%20%3Cb%3E.pickle.xz"
    wait_until(lambda: get(serve, address)["state"] == "ready")
    page = serve.get(get(serve, address)["path"])
    assert page.status == 200
    assert b"<title>" in page.body
    assert b"run <b>" not in page.body
    assert "sandbox" in page.headers["Content-Security-Policy"]
    for name in ("link.vtrace", "../token", "%2e%2e%2ftoken", "none.vtrace"):
        assert serve.get(f"/api/v1/recordings/page?name={name}", Authorization=f"Bearer {SECRET}").status == 404
    assert serve.get(address).status == 401
    assert serve.get("/recordings/0").status == 404
