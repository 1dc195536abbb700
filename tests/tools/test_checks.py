"""The static checks report each kind of problem and accept correct code."""

from pathlib import Path

import pytest

from check_layers import Module, include_problems, layer_problems, link_problems, read_layers
from check_sizes import problems

LAYERS = """
[base]
modules = []
third_party = ["fmt"]
[trace]
modules = ["base"]
third_party = []
third_party_in = { "trace/import" = ["zlib.h"], "trace/frame.cpp" = ["zstd.h"] }
included_only_by = { "trace/model" = ["trace/model", "trace/a.cpp"] }
"""
KNOWN = {Path("base/bytes.hpp"), Path("trace/event.hpp"), Path("trace/model/sim.hpp")}


def layers() -> dict[str, Module]:
    return read_layers(LAYERS)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("trace/a.cpp", '#include "base/bytes.hpp"'),
        ("trace/a.cpp", '#include "trace/event.hpp"'),
        ("trace/a.cpp", "#include <vector>"),
        ("trace/a.cpp", "#include <sys/mman.h>"),
        ("trace/import/gz.cpp", "#include <zlib.h>"),
        ("trace/frame.cpp", "#include <zstd.h>"),
        ("trace/a_test.cpp", "#include <gtest/gtest.h>"),
        ("trace/testing/a.hpp", "#include <gtest/gtest.h>"),
        ("base/a.cpp", "#include <fmt/format.h>"),
        ("main.cpp", '#include "trace/event.hpp"'),
        ("trace/a.cpp", '#include "trace/model/sim.hpp"'),
        ("trace/model/costs.cpp", '#include "trace/model/sim.hpp"'),
        ("trace/b_test.cpp", '#include "trace/model/sim.hpp"'),
        ("trace/testing/b.hpp", '#include "trace/model/sim.hpp"'),
    ],
)
def test_allowed_includes(path: str, line: str) -> None:
    assert list(include_problems(layers(), Path(path), line, KNOWN)) == []


@pytest.mark.parametrize(
    ("path", "line", "complaint"),
    [
        ("base/a.cpp", '#include "trace/event.hpp"', "base may not include trace"),
        ("trace/a.cpp", '#include "event.hpp"', "is not a header in src/"),
        ("trace/a.cpp", '#include "../base/bytes.hpp"', "is not a header in src/"),
        ("trace/a.cpp", "#include <zlib.h>", "<zlib.h> is not a third-party header"),
        ("trace/other.cpp", "#include <zstd.h>", "<zstd.h> is not a third-party header"),
        ("trace/a.cpp", "#include <gtest/gtest.h>", "<gtest/gtest.h> is not a third-party header"),
        ("trace/a.cpp", "  #  include <fmt/format.h>", "<fmt/format.h> is not a third-party header"),
        ("main.cpp", "#include <fmt/format.h>", "<fmt/format.h> is not a third-party header"),
        ("trace/b.cpp", '#include "trace/model/sim.hpp"', "layers.toml restricts trace/model/sim.hpp"),
        ("main.cpp", '#include "trace/model/sim.hpp"', "layers.toml restricts trace/model/sim.hpp"),
    ],
)
def test_forbidden_includes(path: str, line: str, complaint: str) -> None:
    (found,) = include_problems(layers(), Path(path), "\n" + line, KNOWN)
    assert found.startswith(f"src/{path}:2: ")
    assert complaint in found


def test_layers_name_every_module_in_order() -> None:
    assert list(layer_problems(layers(), {"base", "trace"})) == []
    assert list(layer_problems(layers(), {"base", "trace", "new"})) == [
        "src/new: this folder has no entry in layers.toml"
    ]
    assert list(layer_problems(layers(), {"base"})) == ["layers.toml: trace: src/ has no such folder with code in it"]
    upside_down = {"trace": Module(["base"], []), "base": Module([], [])}
    assert list(layer_problems(upside_down, {"base", "trace"})) == [
        "layers.toml: trace names base, which is not above it"
    ]


def test_links_follow_the_layers() -> None:
    assert (
        list(link_problems(layers(), "vram_module(base vram::dep::fmt)\nvram_module(trace vram_base vram::dep::zstd)"))
        == []
    )
    assert "links vram_trace" in next(link_problems(layers(), "vram_module(base vram_trace)"))
    assert "links vram::dep::json" in next(link_problems(layers(), "vram_module(trace vram_base\n  vram::dep::json)"))
    assert "not in layers.toml" in next(link_problems(layers(), "vram_module(new)"))


def function(lines: int, reason: str = "") -> str:
    return f"int f() {{{reason}\n" + "  g();\n" * (lines - 2) + "}\n"


def test_sizes_of_functions() -> None:
    assert list(problems(Path("a.cpp"), function(60))) == []
    assert "needs '// size: <reason>'" in next(problems(Path("a.cpp"), function(61)))
    assert list(problems(Path("a.cpp"), function(61, "  // size: one table"))) == []
    assert list(problems(Path("a.cpp"), "// size: one table\n" + function(80))) == []
    assert "80 is the limit" in next(problems(Path("a.cpp"), function(81, "  // size: one table")))


def test_sizes_of_files() -> None:
    assert list(problems(Path("a.cpp"), "int a;\n" * 400)) == []
    assert "401 lines; above 400" in next(problems(Path("a.cpp"), "int a;\n" * 401))
    assert list(problems(Path("a.cpp"), "int a;\n" * 599 + "// size: one table\n")) == []
    assert "600 is the limit" in next(problems(Path("a.cpp"), "// size: one table\n" + "int a;\n" * 600))
    assert list(problems(Path("a.py"), "# size: one table\n" + "a = 1\n" * 500)) == []


def test_sizes_of_python_functions() -> None:
    body = "    pass\n" * 80
    assert "f has 81 lines" in next(problems(Path("a.py"), f"def f():\n{body}"))
