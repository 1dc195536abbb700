"""The program in Chinese: what people read is translated and aligned, and what programs read is as in English."""

import json
import pathlib
import re
import signal
import subprocess
import unicodedata

import pytest
from alert_receivers import webhook
from fake_gpus import wait_until
from program import BINARY, DEMOS, ROOT, environment, started, vram

CHINESE = {"LANG": "zh_CN.UTF-8"}
LEAK = next(path for path in DEMOS if path.name.startswith("leak"))
UNET = next(path for path in DEMOS if path.name.startswith("unet"))
OWNERS = ROOT / "tests/data/recordings_owners/run.vtrace"
COMMANDS = re.findall(r"^  (\w+) +\S", vram("--help").stdout, re.MULTILINE)
# Five words in a row are prose; names, options and commands are shorter, or listed here.
PROSE = re.compile(r"[A-Za-z][a-z']+(?: [a-z']+){4,}")
HAS_CHINESE = re.compile("[\u4e00-\u9fff]")


def columns_of(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def shown(*words: object, code: int = 0, **changes: str) -> str:
    done = vram(*words, **{**CHINESE, **changes})
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_is_chinese_and_fits(command: str) -> None:
    text = shown("help", command)
    assert text.startswith("用法：")
    assert HAS_CHINESE.search(text)
    assert PROSE.findall(text) == []
    for line in text.splitlines()[1:]:  # the first, the syntax, is not wrapped in any language
        assert columns_of(line) <= 100 or not HAS_CHINESE.search(line)


@pytest.mark.parametrize(
    "words",
    [
        ["report", LEAK],
        ["report", UNET, "--full"],
        ["report", ROOT / "demo"],
        ["report", OWNERS, "--full"],
        ["replay", UNET],
        ["tune", UNET, "--top", "3"],
        ["diff", LEAK, UNET],
        ["status", "--gpu", "sim"],
        ["status", "-q", "--gpu", "sim"],
        ["status", "--gpu", "sim", "--fields", "list"],
        ["top", "--once", "--gpu", "sim"],
    ],
    ids=lambda words: " ".join(map(str, words[:1])),
)
@pytest.mark.parametrize("columns", ["80", "100", "120"])
def test_the_views_are_chinese_and_fit(words: list[object], columns: str) -> None:
    text = shown(*words, COLUMNS=columns)
    assert HAS_CHINESE.search(text)
    assert PROSE.findall(text) == []
    widest = max(text.splitlines(), key=columns_of)
    assert columns_of(widest) <= max(int(columns), 80), widest


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        (LEAK, "PyTorch 快照（pickle 协议 4, xz）"),
        (ROOT / "tests/data/foreign/rmm.csv", "RMM 日志"),
        (ROOT / "tests/data/vtrace/sample.v1.vtrace", "vtrace 1，来自 PyTorch 快照（pickle 协议 4, xz）"),
    ],
    ids=["snapshot", "log", "converted"],
)
def test_the_format_of_a_recording_is_chinese(recording: pathlib.Path, expected: str) -> None:
    assert expected in shown("report", recording, COLUMNS="120")


def test_the_columns_of_a_table_are_aligned() -> None:
    lines = shown("report", LEAK).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("占用者"))
    rows = lines[start + 1 : start + 5]
    ends = {columns_of(found.group()) for row in rows if (found := re.match(r" +[\d.]+ \w+ ", row))}
    assert len(ends) == 1, rows


@pytest.mark.parametrize(
    "words",
    [
        ["report", LEAK, "--json"],
        ["replay", UNET, "--json"],
        ["tune", LEAK, "--json"],
        ["diff", LEAK, UNET, "--json"],
        ["convert", LEAK, "-", "--to", "csv"],
        ["convert", LEAK, "-", "--to", "speedscope"],
    ],
    ids=lambda words: str(words[0]),
)
def test_what_programs_read_is_the_same_in_every_language(words: list[object]) -> None:
    chinese, english = shown(*words), shown(*words, LANG="C.UTF-8")
    if "--json" in words:
        assert timeless(json.loads(chinese)) == timeless(json.loads(english))
    else:
        assert chinese == english


def timeless(value: object) -> object:
    """Without the times that a run of the program measured."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if not key.endswith(("wall_ns", "duration_ns"))}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def test_files_for_programs_are_english(tmp_path: pathlib.Path) -> None:
    vram("diff", LEAK, UNET, "--sarif", tmp_path / "diff.sarif", "--junit", tmp_path / "diff.xml", **CHINESE)
    vram("diff", LEAK, "--save-baseline", tmp_path / "base.toml", **CHINESE)
    for path in tmp_path.iterdir():
        assert not HAS_CHINESE.search(path.read_text(encoding="utf-8"))
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["report", "missing.pickle"], "错误："),
        (["report", "--top"], "--top 需要一个值"),
        (["repor"], "未知命令 'repor'，是否想用 'report'？"),
        (["report", "--wide"], "未知选项 '--wide'"),
        (["replay", LEAK, "--capacity", "16"], "需要带单位的大小"),
        (["nvidia-smi"], "请改用：vram status"),
        (["report", __file__], "应为"),
    ],
)
def test_errors_are_chinese(words: list[object], part: str) -> None:
    done = vram(*words, **CHINESE)
    assert done.returncode == 2
    assert part.rstrip("：") in done.stderr
    assert PROSE.findall(done.stderr) == []


@pytest.mark.parametrize("locale", ["zh_CN", "zh_CN.utf8", "zh_CN.UTF-8@pinyin", "zh_SG.UTF-8"])
def test_every_chinese_locale_counts(locale: str) -> None:
    assert "用法：" in shown("help", "report", LANG=locale)


@pytest.mark.parametrize(
    ("words", "part"),
    [(["help", "report"], "用法：vram report"), (["top", "--gpu", "sim", "--once"], "名称                   显存")],
)
def test_the_codeset_of_the_terminal_is_used(words: list[str], part: str) -> None:
    for codeset in ("GB18030", "GBK"):
        done = subprocess.run(
            [BINARY, *words],
            capture_output=True,
            timeout=60,
            check=True,
            env=environment(LANG=f"zh_CN.{codeset}"),
        )
        assert part in done.stdout.decode(codeset)


def test_other_languages_are_english() -> None:
    assert "Usage: vram report" in shown("help", "report", LANG="de_DE.UTF-8")
    assert "Usage: vram report" in shown("help", "report", LANG="zh_CN.UTF-8", LC_ALL="C.UTF-8")
    assert "用法：vram report" in shown("help", "report", LANG="en_US.UTF-8", LANGUAGE="zh_CN:en")


RULES = """
[rules.memory-full]
above = "0.01%"
clear = "0.005%"
headroom = "64GiB"
for = "0s"
"""


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_alerts_of_a_simulated_gpu_reach_a_webhook_in_chinese(log_format: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    log = tmp_path / "log"
    words = [BINARY, "serve", "--gpu", "sim", "--listen", "127.0.0.1:0", "--history", "off", "--period", "0.2"]
    words += ["--rules", str(tmp_path / "rules.toml"), "--log-format", log_format]
    with webhook() as hook, log.open("wb") as errors:
        words += ["--webhook", f"http://{hook.url}/"]
        with started(words, stderr=errors, stdin=subprocess.DEVNULL, env=environment(**CHINESE)) as server:
            wait_until(lambda: hook.alerts("memory-full", "firing") != [])
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
    (alert, *_) = hook.alerts("memory-full", "firing")
    assert "显存已用" in alert["summary"]
    assert "`vram status`" in alert["advice"]
    assert PROSE.findall(alert["summary"] + alert["advice"]) == []
    lines = log.read_text(encoding="utf-8").splitlines()
    if log_format == "text":
        assert any("的服务地址为" in line for line in lines)
        assert any("按要求结束" in line for line in lines)
        assert [line for line in lines if PROSE.search(line)] == []
    else:  # for programs
        messages = {line["event.action"]: line["message"] for line in map(json.loads, lines)}
        assert messages["stopped"] == "ends, as it was asked to"
        assert "serves at" in messages["started"]
