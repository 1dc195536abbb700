"""The check of symbols accepts the ways in which texts name code and reports names that no code has."""

from pathlib import PurePosixPath

import pytest

from check_symbols import problems, read_code

CODE = {
    "src/pool/arena.hpp": "class Arena {\n  Node* find_free(); // removed_member\n};\nconstexpr int kMaxNodes = 1;",
    "src/pool/arena.cpp": "Node* Arena::find_free() { return carve(); }",
    "src/pool/pool.hpp": "struct PoolStats { int peak_bytes; };",
    "python/vram/__init__.py": '"""Has removed_function."""\nimport torch\n\ndef enable(): ...\n',
    "tools/unit.py": "def removed_function_of_a_test(): ...\n",
}
DOCUMENT, FOR_USERS, HEADER, PYTHON = "docs/architecture.md", "docs/pool.md", "src/pool/pool.hpp", "tools/unit.py"


def found(text: str, path: str) -> list[str]:
    known = read_code((PurePosixPath(name), content) for name, content in CODE.items())
    return [problem.split(": ")[1] for problem in problems(PurePosixPath(path), text, known)]


@pytest.mark.parametrize(
    "text",
    [
        "`Arena::find_free`, `Arena::carve()`, `find_free(bytes, stream)`, `Arena` and `kMaxNodes`",
        "`vram.enable()`, `torch.cuda.gone()`, `std::gone`, `train.py`, `vram report --gone`",
        "`_bytes` as a suffix, `arena` as a file, `pool` as a folder",
        "`Arena::find_free` (`src/pool/arena.cpp`), `Arena` in `pool/arena.hpp`",
        "gone() and removed_member without backticks",
    ],
)
def test_existing_names_and_those_of_others_pass_in_documents(text: str) -> None:
    assert found(text, DOCUMENT) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("`find_used`", "find_used"),
        ("`removed_member`", "removed_member"),
        ("`removed_function`", "removed_function"),
        ("`Arena::peak_bytes`", "Arena::peak_bytes"),
        ("`find_free` (`src/pool/pool.hpp`)", "find_free"),
    ],
)
def test_missing_names_are_reported_in_documents(text: str, name: str) -> None:
    assert found(f"# Title\n{text}\n", DOCUMENT) == [name]


def test_documents_for_users_name_other_programs_but_vrams_interface_is_checked() -> None:
    assert found("`CUPY_GONE`, `their_function`, `vram.gone()`, `vram_gone`, `Arena::gone`", FOR_USERS) == [
        "vram.gone",
        "vram_gone",
        "Arena::gone",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "// find_free() of Arena, see Arena::find_free and kMaxNodes; peak_bytes",
        '// Others count them in "their_counter"; std::gone, torch.cuda.gone(), --their_option, their_file.txt',
        "int gone_in_code = their_function();",
        "// a word, some-words, NUMBERS_OF_OTHERS, 0x64_ff",
    ],
)
def test_existing_names_and_those_of_others_pass_in_comments(text: str) -> None:
    assert found(text, HEADER) == []


@pytest.mark.parametrize("name", ["gone()", "find_used", "Arena::find_used", "UsedIndex", "kMinNodes", "`gone`"])
def test_missing_names_are_reported_in_comments(name: str) -> None:
    assert found(f"int x;\n// See {name}.\n", HEADER) == [name.strip("`()")]


def test_python_is_checked_in_comments_and_docstrings_but_not_in_texts_and_examples() -> None:
    assert found('def f():\n    """See find_used().\n\n    >>> gone_call()\n    gone_output\n    """\n', PYTHON) == [
        "find_used"
    ]
    assert found('x = "find_used"  # as find_old does\ny = """their_text"""\n', PYTHON) == ["find_old"]
    assert found("# As NumPy does.\n", PYTHON) == []
