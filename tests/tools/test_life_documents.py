"""The documents that follow one thing through the code (docs/life-of-*.md) name its functions and files at each step.

tools/check_symbols.py checks that these exist, and that each function is in the file that is named with it.
"""

from pathlib import PurePosixPath

import pytest

from check_symbols import IN_FILE, names
from source_files import ROOT

DOCUMENTS = ["life-of-a-record.md", "life-of-a-sample.md", "life-of-an-allocation.md", "life-of-an-event.md"]


def test_there_are_such_documents() -> None:
    assert sorted(path.name for path in (ROOT / "docs").glob("life-of-*.md")) == DOCUMENTS


@pytest.mark.parametrize("document", DOCUMENTS)
def test_its_names_are_checked(document: str) -> None:
    text = (ROOT / "docs" / document).read_text()
    assert len({name for _, name in names(PurePosixPath("docs", document), text)}) > 15
    assert len(IN_FILE.findall(text)) > 15
