"""Static pictures: vram report --svg and --png.

VRAM_BINARY names the program under test.
"""

from __future__ import annotations

import pickle
import re
import struct
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from program import BINARY, ROOT, environment, vram, vram_json

LEAK = ROOT / "demo" / "leak.stacks.pickle.xz"
OWNERS = ROOT / "tests" / "data" / "recordings_owners" / "run.vtrace"
RANK = ROOT / "tests" / "data" / "recordings" / "run.rank0.vtrace"
SVG = "{http://www.w3.org/2000/svg}"
KINDS = ["--svg", "--png"]
# The picture of docs/report.md, and what makes it.
PICTURE = ROOT / "docs" / "images" / "timeline.svg"
PICTURE_WORDS = ["--size", "900x380"]


def drawn(recording: Path, *words: object, **changes: str) -> ET.Element:
    done = vram("report", recording, "--svg", "-", *words, **changes)
    assert (done.returncode, done.stderr) == (0, "")
    return ET.fromstring(done.stdout)


def texts(picture: ET.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


@pytest.mark.parametrize(("language", "suffix"), [("en", ".svg"), ("zh_CN", ".zh.svg")])
def test_the_picture_of_the_documentation_is_current(language: str, suffix: str) -> None:
    """If it has changed on purpose: vram report demo/leak.stacks.pickle.xz --svg docs/images/timeline.svg --size 900x380 --force.

    The Chinese one, timeline.zh.svg, with LANGUAGE=zh_CN.
    """
    done = vram("report", LEAK, "--svg", "-", *PICTURE_WORDS, LANG=f"{language}.UTF-8", LANGUAGE=language)
    assert done.stdout == PICTURE.with_suffix(suffix).read_text(encoding="utf-8")


def size_of(done: bytes) -> tuple[int, int]:
    assert done[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", done[16:24])
    return width, height


@pytest.mark.parametrize(("words", "size"), [([], (1920, 840)), (["--size", "500x300", "--scale", "1"], (500, 300))])
def test_a_png_has_the_requested_size(words: list[str], size: tuple[int, int], tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    done = vram("report", OWNERS, "--png", file, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert size_of(file.read_bytes()) == size
    assert file.stat().st_size < 200_000


def test_standard_output_gets_the_picture() -> None:
    words = [BINARY, "report", str(OWNERS), "--png", "-"]
    done = subprocess.run(words, capture_output=True, check=True, env=environment(), timeout=120)
    assert size_of(done.stdout) == (1920, 840)


def test_the_legend_has_the_bytes_of_the_report() -> None:
    """The holders of the peak, as --json has them."""
    report = vram_json("report", LEAK, "--top", 0)
    shown = texts(drawn(LEAK, "--size", "1600x600"))
    holders = next(b for b in report["at_peak"]["breakdowns"] if b["by"] == "user_frame")["holders"]
    largest = holders[0]
    assert largest["name"] in shown
    after = shown[shown.index(largest["name"]) + 1]
    assert bytes_of(after) == pytest.approx(largest["requested_bytes"], rel=0.006)


def bytes_of(text: str) -> float:
    value, unit = text.split()
    return float(value) * 1024.0 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)


@pytest.mark.parametrize("by", ["site", "category", "scope", "size", "stream", "pool", "step"])
@pytest.mark.parametrize("axis", ["time", "event"])
def test_each_grouping_and_axis_is_drawn(by: str, axis: str) -> None:
    picture = drawn(RANK, "--by", by, "--axis", axis)
    shown = texts(picture)
    assert "reserved" in shown
    assert ("number of events" in shown) == (axis == "event")


def test_a_part_of_the_recording_is_drawn() -> None:
    whole = texts(drawn(LEAK))
    part = texts(drawn(LEAK, "--from", "step:3", "--to", "step:4"))
    steps = [text for text in part if re.fullmatch(r"step \d+|\d+", text) and text != "0"]
    assert "step 3" in steps
    assert "step 7" not in part
    assert whole != part


def test_colours_are_those_of_the_theme() -> None:
    light, dark = (drawn(OWNERS, "--theme", theme) for theme in ("light", "dark"))
    assert [next(iter(each.iter(f"{SVG}path"))).get("fill") for each in (light, dark)] == ["#ffffff", "#14181d"]


def test_a_flame_graph_shows_the_stacks_of_the_peak() -> None:
    picture = drawn(LEAK, "--picture", "flame")
    titles = [element.text or "" for element in picture.iter(f"{SVG}title")]
    report = vram_json("report", LEAK)
    requested = report["devices"][0]["peak"]["requested_bytes"]
    root = next(title for title in titles if title.startswith("live memory: "))
    assert bytes_of(root.partition(": ")[2]) == pytest.approx(requested, rel=0.006)
    moment = drawn(LEAK, "--picture", "flame", "--at", "step:1")
    assert "in step 1" in (moment.findtext(f"{SVG}desc") or "")


def test_a_flame_graph_needs_stacks() -> None:
    done = vram("report", ROOT / "demo" / "unet_multiscale.pickle.xz", "--picture", "flame", "--svg", "-")
    assert (done.returncode, done.stdout) == (2, "")
    assert "stacks" in done.stderr


def ending_in_oom(file: Path) -> Path:
    """A program that reaches its peak, and later asks for more than there is."""
    events = []
    for i in range(40):
        at = {"addr": i << 30, "size": 20 << 20, "stream": 0, "time_us": 1000 * i, "frames": []}
        events += [{"action": "segment_alloc", **at}, {"action": "alloc", **at}]
    events.append({"action": "oom", "device_free": 0, "size": 20 << 20, "stream": 0, "time_us": 80_000, "frames": []})
    file.write_bytes(pickle.dumps({"segments": [], "device_traces": [events]}))
    return file


@pytest.mark.parametrize("size", ["480x320", "960x420", "1600x600"])
def test_marks_close_to_each_other_have_their_words(size: str, tmp_path: Path) -> None:
    picture = drawn(ending_in_oom(tmp_path / "oom.pickle"), "--size", size)
    found = {element.text: float(element.attrib["x"]) for element in picture.iter(f"{SVG}text")}
    assert found["peak"] + 20 < found["out of memory"]


def hostile(file: Path) -> Path:
    name = "</text><script>alert(1)</script>\u202eevil\x00\x1b[2J" + "x" * 100_000
    frames = [{"name": name, "filename": f"/home/me/{name}.py", "line": 1}]
    events = []
    for i in range(50):
        events.append(
            {"action": "segment_alloc", "addr": i << 30, "size": 2 << 20, "stream": 0, "time_us": i, "frames": frames}
        )
        events.append(
            {"action": "alloc", "addr": i << 30, "size": 1 << 20, "stream": 0, "time_us": i, "frames": frames}
        )
    file.write_bytes(pickle.dumps({"segments": [], "device_traces": [events]}))
    return file


@pytest.mark.parametrize("words", [[], ["--picture", "flame"]])
def test_hostile_names_do_nothing(words: list[str], tmp_path: Path) -> None:
    recording = hostile(tmp_path / "<script>.pickle")
    done = vram("report", recording, "--svg", "-", *words)
    assert (done.returncode, done.stderr) == (0, "")
    picture = ET.fromstring(done.stdout)
    assert {element.tag.removeprefix(SVG) for element in picture.iter()} == {
        "svg",
        "style",
        "title",
        "desc",
        "path",
        "text",
    }
    assert "\u202e" not in done.stdout
    assert "\x1b" not in done.stdout
    assert len(done.stdout) < 100_000
    assert vram("report", recording, "--png", tmp_path / "x.png", *words).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_only_files_of_vram_are_replaced(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "picture"
    file.write_text("<svg>a drawing of many hours</svg>")
    done = vram("report", OWNERS, kind, file)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert file.read_text() == "<svg>a drawing of many hours</svg>"
    assert vram("report", OWNERS, kind, file, "--force").returncode == 0
    first = file.read_bytes()
    assert vram("report", OWNERS, kind, file, "--theme", "dark").returncode == 0
    assert file.read_bytes() != first


def test_both_kinds_are_written_at_once(tmp_path: Path) -> None:
    done = vram("report", OWNERS, "--svg", tmp_path / "a.svg", "--png", tmp_path / "a.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "a.svg"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--svg", "-", "--by", "colour"], "--by"),
        (["--svg", "-", "--size", "10x10"], "expected WIDTHxHEIGHT"),
        (["--svg", "-", "--scale", "99"], "expected 0.25 to 8"),
        (["--svg", "-", "--from", "step:999"], "--from step:999"),
        (["--svg", "-", "--from", "step:2", "--to", "step:1"], "--from and --to"),
        (["--svg", "-", "--at", "peak"], "--from and --to"),
        (["--svg", "-", "--json"], "--json"),
        (["--png", "-", "--size", "4000x4000"], "--scale"),
        (["--by", "site"], "--svg FILE or --png FILE"),
        (["--svg", "-", RANK], "a single recording"),
    ],
)
def test_what_cannot_be_drawn_is_an_error_that_says_why(words: list[object], text: str) -> None:
    done = vram("report", LEAK, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


def test_the_words_of_a_picture_are_in_the_language_of_the_user() -> None:
    picture = drawn(LEAK, LANG="zh_CN.UTF-8", LANGUAGE="zh_CN")
    assert "录制开始后的时间" in texts(picture)
