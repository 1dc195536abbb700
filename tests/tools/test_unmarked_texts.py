"""Texts that people read are marked for translation: prose in the package that no tr() contains is found here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("python/vram", "python/pytest_vram", "python/tensorboard_vram")
MARKS = {"tr", "tr_later"}
# Three words in a row are prose. Names, options and keys are shorter.
PROSE = re.compile(r"[A-Za-z][a-z']*(?: [a-z'{}]+){2,}")
# Texts that are not translated: the files, and what matches their texts.
ENGLISH = {
    "vram/__init__.py": r"has no attribute",  # as Python says it
    "vram/_prototypes.py": r".",
    "vram/_startup/sitecustomize.py": r".",  # tools/catalogue.py reads its texts as a table
    "vram/_frameworks/_torch.py": r"CUDA out of memory",  # what frameworks' errors are recognized by
    "vram/reports/_page.py": r"^vram report {}$",
    "tensorboard_vram/_plugin.py": r"^vram report {}$",
    "vram/recover/_job.py": r"through the graph a second time",
    "vram/tensorflow.py": r"modified after being initialized",
    "vram/dry/_tape.py": r"CUDA out of memory|has no device",  # errors of PyTorch in a dry run
    "vram/dry/_values.py": r"object cannot be interpreted",  # as Python says it
    "vram/dry/_cuda.py": r".",
    "vram/dry/_memory.py": r"Invalid fraction value",  # as PyTorch says it
    "vram/dry/_choices.py": r".",
    "vram/dry/_reading.py": r"cannot be converted to Scalar",
    "vram/watching/_memory.py": r"^{} and {} more$",  # a name in a recording
    "vram/dry/_kernels.py": r".",  # errors of rules, which tests find
    "vram/planning/_chain.py": r"smallest budget for this chain",  # in an output of the program
    "vram/monitoring/_sinks.py": r"the sink %r failed",  # for a log
    "pytest_vram/__init__.py": r".",  # imports nothing of vram until a test is measured
    "vram/torch/_decorator.py": r".",  # C++
}


def texts(node: ast.AST, within: tuple[ast.AST, ...] = ()) -> Iterator[tuple[int, str]]:
    """Yields the texts below a node that are neither documentation nor marked, with their lines."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
        return
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        yield node.lineno, "".join(map(str, parts))
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.Expr) and isinstance(child, ast.Constant)):
            yield from texts(child, (*within, node))


def unmarked(source: str, english: str = "") -> list[str]:
    found = []
    for line, text in texts(ast.parse(source)):
        if PROSE.search(text) and not (english and re.search(english, text)):
            found.append(f"{line}: {text[:80]!r}")
    return found


def test_texts_are_found() -> None:
    assert unmarked('raise VramError(f"no room for {size} more bytes")') == ["1: 'no room for {} more bytes'"]
    assert unmarked('def f():\n    """Return nothing at all."""') == []
    assert unmarked('raise VramError(tr("no room for {} more bytes").format(size))') == []
    assert unmarked('parser.add_argument("--in-a-row", metavar="FILE")') == []


def test_all_prose_of_the_package_is_marked() -> None:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT / "python").as_posix()
            found += [f"{name}:{text}" for text in unmarked(path.read_text(), ENGLISH.get(name, ""))]
    assert found == []


def test_every_exception_is_needed() -> None:
    for name, pattern in ENGLISH.items():
        source = (ROOT / "python" / name).read_text()
        assert any(re.search(pattern, text) for _, text in texts(ast.parse(source))), name
