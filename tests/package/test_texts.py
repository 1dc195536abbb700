"""Messages of the package in the user's language."""

from __future__ import annotations

import pytest

from vram._texts import columns_of, tr
from vram.monitoring import DeviceUse, Measurement

VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


def use(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)


# The unit tests of src/base/ have the same cases for the program.
@pytest.mark.parametrize(
    ("values", "is_chinese"),
    [
        ({}, False),
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "zh_CN"}, True),
        ({"LANG": "zh_CN.GB18030@stroke"}, True),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, True),
        ({"LC_ALL": "C", "LC_MESSAGES": "zh_CN.UTF-8"}, False),
        ({"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "zh_SG.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, True),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en"}, False),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "de:zh"}, True),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, False),
        ({"LANGUAGE": "zh_CN"}, False),
    ],
)
def test_the_environment_selects_the_language(
    values: dict[str, str], is_chinese: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, **values)
    assert tr("GPU {}: memory unknown") == ("GPU {}：显存未知" if is_chinese else "GPU {}: memory unknown")


def test_the_line_of_a_measurement_is_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, LANG="zh_CN.UTF-8")
    device = DeviceUse(device=0, allocated_bytes=6 << 30, reserved_bytes=8 << 30, peak_allocated_bytes=7 << 30)
    line = str(Measurement(name="step", call=1, started_ns=0, duration_ns=12_300_000, devices=(device,)))
    assert line == "step: 12.3 ms; GPU 0：现为 6 GiB，共预留 8 GiB（25% 未使用）, 峰值 7 GiB"


def test_a_text_without_a_translation_is_english(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, LANG="zh_CN.UTF-8")
    assert tr("a text that no catalogue has") == "a text that no catalogue has"


def test_chinese_characters_take_two_columns() -> None:
    assert columns_of("显存 16") == 7
