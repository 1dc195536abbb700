"""Messages of the package in the user's language."""

from __future__ import annotations

import pytest

from vram._arguments import require_integers
from vram._sizes import parse_size
from vram._texts import columns_of, tr
from vram.clean import AlivePath, Cleaned, Cleaning, Grade, WhyAlive
from vram.clean._work import NO_GPU
from vram.dry._what_if import cost_of
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
    assert line == "step: 12.3 ms；GPU 0：现为 6 GiB，共预留 8 GiB（25% 未使用），峰值 7 GiB"


def test_the_results_of_cleaning_are_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, LANG="zh_CN.UTF-8")
    skipped = Cleaned(Grade.CACHE, skipped=tr(NO_GPU))
    freed = Cleaned(Grade.CYCLES, device_bytes=4096, host_bytes=512, ms=1.5)
    assert str(Cleaning("step", (skipped, freed))).splitlines() == [
        "清理（步）：",
        "cache：跳过，没有使用 GPU",
        "cycles：已释放：设备上 4 KiB，主机上 512 B，用时 1.5 ms",
    ]


def test_paths_that_keep_an_object_are_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, LANG="zh_CN.UTF-8")
    alive = WhyAlive("Tensor[2]", (AlivePath("local", "frame train (train.py:3) 'x' -> Tensor[2]"),), is_complete=True)
    assert str(alive).splitlines()[0] == "Tensor[2] 被以下路径保留"
    assert str(alive.paths[0]).startswith("局部变量: ")
    assert (
        str(WhyAlive("Tensor[2]", (), is_complete=True)) == "Tensor[2]：Python 能看到的对象都没有引用它（调用者除外）"
    )


def test_the_errors_of_arguments_are_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, LANG="zh_CN.UTF-8")
    with pytest.raises(ValueError, match="大小必须大于 0 字节"):
        parse_size("0B")
    with pytest.raises(ValueError, match="steps 至少应为 1，得到 0"):
        require_integers(1, steps=0)


def test_the_table_of_changes_is_aligned_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, LANG="zh_CN.UTF-8")
    assert cost_of({"precision": "bf16", "batch": 8}, {"batch": 16}) == "前向和反向舍入到 8 位；batch 为 8，而不是 16"
    assert cost_of({"zero": 2, "world_size": 8}, {}) == "8 块 GPU；通信量与数据并行相同（把梯度 reduce 到所属 rank）"


def test_a_text_without_a_translation_is_english(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, LANG="zh_CN.UTF-8")
    assert tr("a text that no catalogue has") == "a text that no catalogue has"


def test_chinese_characters_take_two_columns() -> None:
    assert columns_of("显存 16") == 7
