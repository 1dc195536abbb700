"""Every test that waits for another process or a server has a timeout."""

import ast
from collections.abc import Iterator

import pytest

from source_files import ROOT, source_files

WAIT_FOR_THE_END = {"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output"}
METHODS = {"communicate", "join", "wait"}  # of processes and threads; join and wait of others have arguments


def waits_without_limit(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or any(keyword.arg in ("timeout", None) for keyword in node.keywords):
            continue
        name = ast.unparse(node.func)
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in METHODS and not node.args
        if is_method or name in WAIT_FOR_THE_END or name.endswith("urlopen"):
            yield f"{node.lineno}: {name}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("subprocess.run(['true'], check=True)", ["1: subprocess.run"]),
        ("subprocess.run(['true'], timeout=1)", []),
        ("process.wait()", ["1: process.wait"]),
        ("process.wait(timeout=1)", []),
        ("', '.join(words)", []),
        ("urllib.request.urlopen(url)", ["1: urllib.request.urlopen"]),
    ],
)
def test_a_wait_without_a_limit_is_found(line: str, expected: list[str]) -> None:
    assert list(waits_without_limit(line)) == expected


def test_every_wait_of_a_test_has_a_limit() -> None:
    tests = [path for path in source_files(".py") if "tests" in path.parts and "data" not in path.parts]
    assert len(tests) > 80
    found = [f"{path}:{wait}" for path in tests for wait in waits_without_limit((ROOT / path).read_text())]
    assert found == []
