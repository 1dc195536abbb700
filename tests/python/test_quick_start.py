"""The commands of docs/quick-start.md on the recordings of demo/ print what the page says about them."""

import re
import shlex

from program import vram

from source_files import ROOT

PAGE = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ vram (\w+ demo/\S+)$", PAGE, re.MULTILINE)


def test_the_page_has_commands_on_the_bundled_recordings() -> None:
    assert [command.split()[0] for command in COMMANDS] == ["report", "tune"]


def test_the_commands_print_what_the_page_says() -> None:
    for command in COMMANDS:
        done = vram(*shlex.split(command.replace("demo/", f"{ROOT}/demo/")))
        assert (done.returncode, done.stderr) == (0, ""), command
        figures = {
            "report": ["3.41 GiB", "3.71 GiB", "66.7 MiB", "47.1 %", "workloads.py:257"],
            "tune": ["25.2 GiB", "15.4 GiB"],
        }
        for figure in figures[command.split()[0]]:
            assert figure in done.stdout
            assert figure.replace("47.1 %", "47 %").replace("py:257", "py") in PAGE
