"""tools/figures.py reads rows of C++ as they are written, and makes each kind of table from them."""

from pathlib import Path

import pytest

import figures
from figures import Reader, Unreadable, arranged, read_tables, table_of, written

SOURCE = """
// A comment, with "quotes".
#include "x.hpp"
inline constexpr ObjectType kMemoryType{.name = "memory", .schema = "Memory"};
constexpr ObjectType kDeviceType{.name = "device"};
inline constexpr Group<Device> kBar1{
    .key = "bar1", .type = &kMemoryType, .meaning = "the `memory` that the host can address",
    .is_known = [](const Device& device) { return device.health.bar1.has_value(); }};
inline constexpr std::string_view kHelp = "Errors "  // of two kinds
                                          "by cause.";
inline constexpr auto kSecond = std::to_array<Figure<Device>>({
    {.in = &kBar1,
     .key = "used_bytes",
     .value = read<&Device::health, &DeviceHealth::bar1, &DeviceMemory::used_bytes>,
     .meaning = "bytes in use",
     .metric = {.name = "vram_gpu_bar1_used_bytes", .after = "vram_gpu_errors_total", .help = "Used."}},
    {.metric = {.name = "vram_gpu_errors_total", .kind = Kind::kCounter, .help = kHelp, .labels = "cause"},
     .dcgm = {.name = "DCGM_ERRORS", .ours = "none"}},
});
inline constexpr auto kFirst = std::to_array<Figure<Device>>({
    {.key = "name", .value = read<&Device::name>, .meaning = "its \\"name\\"", .history = {.number = 2}},
});
constexpr auto kDeviceFigures = joined(kFirst, kSecond);
"""


def test_rows_are_in_the_order_in_which_tables_are_joined() -> None:
    rows = read_tables([SOURCE]).rows["Device"]
    assert [row.get("key") for row in rows] == ["name", "used_bytes", None]
    assert rows[0]["value"] == "read<&Device::name>"
    assert rows[2]["metric"]["kind"] == "Kind::kCounter"


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("fields device", ['| `name` | its "name" |', "| `bar1` | the `memory` that the host can address |"]),
        ("fields memory", ["| `used_bytes` | bytes in use |"]),
        (
            "metrics Device",
            [
                "| `vram_gpu_errors_total` | counter | `uuid` `cause` | Errors by cause. |",
                "| `vram_gpu_bar1_used_bytes` | gauge, bytes | `uuid` | Used. |",
            ],
        ),
        ("dcgm", ["| `DCGM_ERRORS` | none |"]),
        ("history", ['| 2 | `name` | its "name" |']),
    ],
)
def test_tables(what: str, lines: list[str]) -> None:
    head, rule, *found = table_of(read_tables([SOURCE]), what).splitlines()
    assert head.count("|") == rule.count("|")
    assert found == lines


def test_a_document_keeps_all_but_its_tables() -> None:
    document = "before\n<!-- figures: fields memory -->\n| old |\n<!-- end of figures -->\nafter\n"
    wanted = (
        "before\n<!-- figures: fields memory -->\n| field | meaning |\n|---|---|\n| `used_bytes` | bytes in use |\n"
    )
    assert written(read_tables([SOURCE]), document) == wanted + "<!-- end of figures -->\nafter\n"


def test_what_can_not_be_read_is_an_error() -> None:
    with pytest.raises(Unreadable, match="expected ,"):
        Reader('{.a = "x" .b = "y"}').value()
    with pytest.raises(Unreadable, match="ends within"):
        Reader('{.a = {"x", ').value()
    with pytest.raises(Unreadable, match="has nothing for"):
        table_of(read_tables([SOURCE]), "fields rows")
    with pytest.raises(Unreadable, match="which b is to follow"):
        arranged([{"csv": {"name": "b", "after": "a"}}], "csv")


def test_a_stale_document_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "figures.cpp").write_text(SOURCE)
    document = tmp_path / "json.md"
    document.write_text("<!-- figures: fields memory -->\n| old |\n<!-- end of figures -->\n")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(figures, "DOCUMENTS", ("json.md",))
    monkeypatch.setattr("sys.argv", ["figures.py", "--check"])
    assert figures.main() == 1
    assert "json.md" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["figures.py"])
    assert figures.main() == 0
    assert "bytes in use" in document.read_text()
