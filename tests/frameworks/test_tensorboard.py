"""The tab of TensorBoard, by its real WSGI application and its real command. The program that writes pages is a stand-in,
except where the page itself matters.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

WHY = "is not installed; tools/requirements-frameworks.txt has the versions"
program: Any = pytest.importorskip("tensorboard.program", reason=f"TensorBoard {WHY}")
core: Any = pytest.importorskip("tensorboard.plugins.core.core_plugin")
application: Any = pytest.importorskip("tensorboard.backend.application")
werkzeug: Any = pytest.importorskip("werkzeug.test")
plugin: Any = pytest.importorskip("tensorboard_vram._plugin")

from tensorboard_vram import _folder, _pages  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "/data/plugin/vram"


@pytest.fixture(name="logs")
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log directory with two recordings and other files; a secret next to it."""
    monkeypatch.setenv("VRAM_PROGRAM", str(ROOT / "tests" / "data" / "page_program.py"))
    monkeypatch.setenv("PAGE_PROGRAM_LOG", str(tmp_path / "runs"))
    logs = tmp_path / "logs"
    (logs / "run 1").mkdir(parents=True)
    for number, name in enumerate(("run 1/a.vtrace", "<b>.pickle.xz", "events.out.tfevents.1", "notes.txt")):
        (logs / name).write_text("recording")
        os.utime(logs / name, (1000 + number, 1000 + number))
    (tmp_path / "secret.vtrace").write_text("secret")
    return logs


def browser_of(logs: Path | str) -> Any:
    """A client of TensorBoard's application with the plug-in."""
    board = program.TensorBoard(plugins=[core.CorePluginLoader(), plugin.VramPlugin])
    board.configure(logdir=str(logs), load_fast="false")
    return werkzeug.Client(_app(board))


def _app(board: Any) -> Any:
    ingester = board._make_data_ingester()
    return application.TensorBoardWSGIApp(
        board.flags,
        board.plugin_loaders,
        ingester.data_provider,
        board.assets_zip_provider,
        ingester.deprecated_multiplexer,
    )


def listed(browser: Any) -> list[str]:
    return [each["name"] for each in browser.get(f"{PREFIX}/recordings").get_json()["recordings"]]


def page(browser: Any, name: str) -> Any:
    return browser.get(f"{PREFIX}/page", query_string={"recording": name})


def test_the_tab_lists_the_recordings_and_shows_one(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    browser = browser_of(logs)
    tab = browser.get("/data/plugins_listing").get_json()["vram"]
    assert (tab["enabled"], tab["tab_name"]) == (True, "vram")
    assert tab["loading_mechanism"] == {"type": "IFRAME", "module_path": f"{PREFIX}/index.js"}
    assert "./index.js" in browser.get("/data/plugin_entry.html?name=vram").text
    assert browser.get(f"{PREFIX}/index.js").content_type == "application/javascript; charset=utf-8"
    assert listed(browser) == ["<b>.pickle.xz", "run 1/a.vtrace"]  # the latest first
    shown = page(browser, "run 1/a.vtrace")
    assert (shown.status_code, "<title>a.vtrace</title>" in shown.text) == (200, True)
    policy = re.search('Content-Security-Policy" content="([^"]*)"', shown.text)
    assert policy is not None
    assert shown.headers["Content-Security-Policy"] == policy[1]
    # TensorBoard warns of headers that it considers insecure.
    assert [record.message for record in caplog.records if "error" in record.message] == []


def test_the_real_page_passes_tensorboards_checks(
    logs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    built = Path(os.environ.get("VRAM_BINARY", ROOT / "build" / "release" / "src" / "vram"))
    if not built.is_file():
        pytest.skip(f"{built}: not built")
    monkeypatch.setenv("VRAM_PROGRAM", str(built))
    (logs / "leak.pickle.xz").symlink_to("copy.pickle.xz")
    shutil.copy(ROOT / "demo" / "leak.stacks.pickle.xz", logs / "copy.pickle.xz")
    shown = page(browser_of(logs), "leak.pickle.xz")
    assert shown.status_code == 200
    assert "vnd.vram.block" in shown.text
    assert "script-src 'sha256-" in shown.headers["Content-Security-Policy"]
    assert [record.message for record in caplog.records if "error" in record.message] == []


def test_no_path_leads_out_of_the_log_directory(logs: Path) -> None:
    secret = logs.parent / "secret.vtrace"
    (logs / "link.vtrace").symlink_to(secret)
    (logs / "folder").symlink_to(logs.parent)
    (logs / "loop.vtrace").symlink_to("loop.vtrace")
    (logs / "inside.vtrace").symlink_to("run 1/a.vtrace")
    (logs / "directory.vtrace").mkdir()
    os.mkfifo(logs / "pipe.vtrace")
    browser = browser_of(logs)
    assert sorted(listed(browser)) == ["<b>.pickle.xz", "inside.vtrace", "run 1/a.vtrace"]
    outside = ["../secret.vtrace", str(secret), "run 1/../../secret.vtrace", "link.vtrace", "folder/secret.vtrace"]
    others = [
        "loop.vtrace",
        "directory.vtrace",
        "pipe.vtrace",
        "notes.txt",
        "none.vtrace",
        "a\0.vtrace",
        "",
        "/",
        "x" * 5000 + ".vtrace",
    ]
    for name in outside + others:
        answer = page(browser, name)
        assert (answer.status_code, "secret</title>" in answer.text) == (404, False), name
    assert "<b>no" not in page(browser, "<b>no").text
    assert not (logs.parent / "runs").exists()
    assert browser.post(f"{PREFIX}/page").status_code == 405


def test_a_page_is_made_once_for_each_state_of_its_file(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = browser_of(logs)
    runs = logs.parent / "runs"
    names = ["run 1/a.vtrace", "<b>.pickle.xz"]
    for name in [*names, *names]:
        page(browser, name)
    assert runs.read_text().count("\n") == 2
    os.utime(logs / names[0], (5000, 5000))
    page(browser, names[0])
    assert runs.read_text().count("\n") == 3
    monkeypatch.setattr(_pages, "MAX_CACHE_BYTES", 500)  # one page
    for _ in range(2):
        for name in names:
            assert page(browser, name).status_code == 200
    assert runs.read_text().count("\n") == 6  # the first of them was there


def test_what_cannot_be_shown_is_said(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (logs / "bad.vtrace").write_text("fail")
    (logs / "large.vtrace").write_text("large")
    monkeypatch.setattr(_pages, "MAX_PAGE_BYTES", 1000)
    browser = browser_of(logs)
    bad = page(browser, "bad.vtrace")
    assert bad.status_code == 500
    assert "bad.vtrace: it is &lt;no&gt; recording" in bad.text
    assert bad.headers["Content-Security-Policy"] == "default-src 'none'"
    assert "the page takes 1 MiB, and the limit is 0.98 KiB" in page(browser, "large.vtrace").text


def test_a_folder_without_recordings_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for logdir in (str(tmp_path), str(tmp_path / "none"), "gs://bucket/logs"):
        folder = _folder.LogFolder(logdir)
        assert (folder.recordings(), folder.has_recordings()) == (([], False), False)
    assert _folder.LogFolder(None).find("a.vtrace") is None
    for number in range(5):
        (tmp_path / f"{number}.vtrace").touch()
    monkeypatch.setattr(_folder, "_MAX_RECORDINGS", 3)
    found, is_limited = _folder.LogFolder(str(tmp_path)).recordings()
    assert (len(found), is_limited) == (3, True)
    assert browser_of(tmp_path / "none").get("/data/plugins_listing").get_json()["vram"]["enabled"] is False


@pytest.mark.parametrize("load_fast", ["true", "false"])
def test_the_command_finds_the_plug_in(load_fast: str, logs: Path, tmp_path: Path) -> None:
    """By the entry point of pyproject.toml, as an installed package has it."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["tensorboard_plugins"]
    metadata = tmp_path / "site" / "vram-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vram\nVersion: 0\n")
    lines = [f"{name} = {target}\n" for name, target in points.items()]
    (metadata / "entry_points.txt").write_text("[tensorboard_plugins]\n" + "".join(lines))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT / 'python'}"}
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(logs),
        "--port",
        str(port),
        "--load_fast",
        load_fast,
    ]
    with (tmp_path / "log").open("w") as log:
        board = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            status, body = _answer(port, "/data/plugins_listing")
            assert json.loads(body)["vram"]["enabled"] is True
            status, body = _answer(port, f"{PREFIX}/page?recording=run%201%2Fa.vtrace")
            assert (status, b"<title>a.vtrace</title>" in body) == (200, True)
        finally:
            board.terminate()
            board.wait(timeout=60)
    assert "In 3.0, this warning will become an error" not in (tmp_path / "log").read_text()


def _answer(port: int, path: str) -> tuple[int, bytes]:
    """Return the answer of a server, once it runs."""
    end = time.monotonic() + 120
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except ConnectionRefusedError:
            assert time.monotonic() < end, "TensorBoard has not started"
            time.sleep(0.2)
        finally:
            connection.close()
