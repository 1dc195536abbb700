"""The README of each module in src/ has the same parts, and names existing users, types and files."""

import re

import pytest

from check_layers import INCLUDE, read_layers
from source_files import CPP, ROOT, source_files

MODULES = list(read_layers((ROOT / "src" / "layers.toml").read_text()))
ROW = re.compile(r"^\| (`.+`) \| (`.+`) \| .+ \|$", re.MULTILINE)
USERS = re.compile(r"^\*\*Used by\*\*: (.+?)\.$", re.MULTILINE)


def readme(module: str) -> str:
    return (ROOT / "src" / module / "README.md").read_text()


def users_of(module: str) -> list[str]:
    """The modules whose code, tests aside, includes a header of `module`, in dependency order."""
    users = set()
    for path in source_files(*CPP, under="src"):
        is_test = path.stem.endswith("_test") or "testing" in path.parts
        included = {name.split("/")[0] for _, name in INCLUDE.findall((ROOT / path).read_text())}
        if not is_test and module in included and path.parts[1] != module:
            users.add(path.parts[1])
    return [user for user in MODULES if user in users]


@pytest.mark.parametrize("module", MODULES)
def test_the_parts_are_in_order(module: str) -> None:
    text = readme(module)
    parts = [f"# {module}\n", "| main types and functions | file | purpose |", "**Used by**: ", "**Entry points**: "]
    places = [text.find(part) for part in parts]
    assert places[0] == 0
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("module", MODULES)
def test_the_users_are_those_that_include_it(module: str) -> None:
    (users,) = USERS.findall(readme(module))
    named = re.findall(r"`(\w+)`", users) if not users.startswith("no module") else []
    assert named == users_of(module)


@pytest.mark.parametrize("module", MODULES)
def test_each_type_is_in_a_file_that_its_row_names(module: str) -> None:
    rows = ROW.findall(readme(module))
    assert rows
    for types, files in rows:
        paths = [ROOT / "src" / module / file for file in re.findall(r"`([^`]+)`", files)]
        declared = " ".join(path.read_text() for path in paths)
        missing = [name for name in re.findall(r"`(\w+)`", types) if not re.search(rf"\b{name}\b", declared)]
        assert (types, missing) == (types, [])
