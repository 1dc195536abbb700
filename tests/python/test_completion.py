"""Completions and manual pages: written by the program from the tables of options by which it parses its command line."""

import pathlib
import re
import shutil
import subprocess
import tomllib

import pytest
from program import ROOT, environment, vram

SHELLS = ("bash", "zsh", "fish")
# Completes the last word as bash does when it calls the function: COMP_WORDS are the words, COMP_CWORD is the last one.
IN_BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_vram
printf '%s\\n' "${COMPREPLY[@]}"
"""


def printed(*words: str) -> str:
    done = vram(*words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


COMMANDS = re.findall(r"^  (\w+) +\S", printed("--help"), re.MULTILINE)


def flags_of(command: str) -> set[str]:
    """The options in the help of a command."""
    options = printed("help", command).partition("\nOptions\n")[2].partition("\n\n")[0]
    found = re.findall(r"^  (?:(-\w), )?(--[\w-]+)", options, re.MULTILINE)
    return {flag for pair in found for flag in pair if flag}


@pytest.fixture(name="script")
def fixture_script(tmp_path: pathlib.Path) -> pathlib.Path:
    script = tmp_path / "vram.bash"
    script.write_text(printed("completion", "bash"))
    return script


def completed(script: pathlib.Path, *words: str, folder: "pathlib.Path | None" = None) -> list[str]:
    """What bash offers for the last of the words that follow `vram`."""
    done = subprocess.run(
        ["bash", "--norc", "-c", IN_BASH, "bash", str(script), "vram", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=folder,
        env=environment(),
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_its_script(shell: str, tmp_path: pathlib.Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(printed("completion", shell))
    done = subprocess.run([program, "-n", str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script(shell: str) -> None:
    script = printed("completion", shell)
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", script)
        for flag in flags_of(command):
            assert (flag if shell != "fish" else f"-l {flag[2:]}" if flag[:2] == "--" else f"-s {flag[1:]}") in script


def test_bash_completes_commands(script: pathlib.Path) -> None:
    assert completed(script, "rep") == ["report", "replay"]
    assert "top" in completed(script, "help", "to")
    assert completed(script, "") == [*COMMANDS, "help"]


def test_bash_completes_what_help_explains(script: pathlib.Path) -> None:
    assert completed(script, "help", "empty_c") == ["empty_cache"]
    assert completed(script, "help", "nvidia-s") == ["nvidia-smi"]
    assert "显存碎片" in completed(script, "help", "显存")
    rows = tomllib.loads((ROOT / "src/cli/habits.toml").read_text())["habit"]
    words = {word.lower() for row in rows for word in row["words"]}
    plain = {word for word in words if re.fullmatch(r"(?!-)[\w./-]+", word)}
    assert set(completed(script, "help", "")) == plain | set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_all_options_of_a_command(script: pathlib.Path, command: str) -> None:
    assert set(completed(script, command, "-")) == flags_of(command)


def test_bash_completes_values(script: pathlib.Path) -> None:
    assert completed(script, "run", "--stacks", "") == ["python", "native"]
    assert completed(script, "serve", "--log-format", "j") == ["json"]
    assert completed(script, "serve", "--log-format", "=") == ["text", "json"]
    assert completed(script, "serve", "--log-format", "=", "j") == ["json"]
    assert "memory" in completed(script, "top", "--sort", "me")
    assert completed(script, "demo", "l") == ["leak"]
    assert completed(script, "completion", "") == list(SHELLS)
    assert completed(script, "report", "--top", "") == []  # a number


def test_bash_completes_files_and_programs(script: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "run one.vtrace").touch()
    names = ["run", "one.vtrace"]  # split() divides it
    for words in (["report", "run"], ["report", "--output", "run"], ["report", "--", "run"]):
        assert completed(script, *words, folder=tmp_path) == names, words
    assert "bash" in completed(script, "run", "--pool", "--", "bas")
    assert completed(script, "run", "--pool", "--", "python", "run", folder=tmp_path) == names
    assert completed(script, "run", "--", "bash", "--fo") == []  # an option of the program


def test_an_unknown_shell_is_refused() -> None:
    done = vram("completion", "tcsh")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "vram: error: SHELL: expected bash, zsh or fish, found 'tcsh'\n"


def rendered(page: str) -> str:
    """The page as `man` shows it, in one line. Warnings fail."""
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [groff, "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=500n"],
        input=page,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_page_has_what_the_help_has(command: str) -> None:
    shown = rendered(printed("help", "--man", command))
    assert shown.startswith((f"VRAM-{command.upper()}(1)", f"vram-{command}(1)"))
    for part in printed("help", command).partition("\n\n")[2].split("\n\n"):
        words = [word for word in part.split() if word not in ("Arguments", "Options", "Examples")]
        missing = [word for word in words if word not in shown]
        assert missing == []


def test_the_manual_page_of_the_program_lists_the_commands() -> None:
    shown = rendered(printed("help", "--man"))
    for command in COMMANDS:
        assert f"vram-{command}(1)" in shown


@pytest.mark.parametrize("language", ["C.UTF-8", "zh_CN.UTF-8"])
def test_man_shows_every_page(language: str, tmp_path: pathlib.Path) -> None:
    """`man -l` on each page, with its warnings as errors."""
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man-db is not installed")
    for command in ("", *COMMANDS):
        page = tmp_path / f"vram-{command}.1"
        page.write_text(vram("help", "--man", *([command] if command else []), LC_ALL=language).stdout)
        done = subprocess.run(
            ["man", "--warnings", "-l", str(page)],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=True,
            env=environment(MANWIDTH="100", LC_ALL="C.UTF-8", PAGER="cat"),
        )
        # groff does not break lines between Chinese characters; its package zh.tmac does, and makes it hang on some pages.
        of_breaks = ("can't break line", "cannot adjust line") if language.startswith("zh") else ()
        assert [line for line in done.stderr.splitlines() if not line.endswith(of_breaks)] == []
        assert ("NAME" if language.startswith("C") else "名称") in done.stdout


def test_fish_completes(tmp_path: pathlib.Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    (tmp_path / "vram.fish").write_text(printed("completion", "fish"))
    (tmp_path / "run.vtrace").touch()

    def offered(line: str) -> list[str]:
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source vram.fish; complete -C '{line}'"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            cwd=tmp_path,
            env=environment(HOME=str(tmp_path)),
        )
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    assert {"report", "replay"} <= set(offered("vram rep"))
    assert "--allocator" in offered("vram replay --allo")
    assert offered("vram run --stacks ") == ["native", "python"]
    assert offered("vram help empty_c") == ["empty_cache"]
    assert "run.vtrace" in offered("vram report ru")


# Types a line and the tab key into an interactive zsh, and prints the screen.
IN_ZSH = """
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "PS1='> '; fpath=($1 \\$fpath); autoload -Uz compinit; compinit -u -d $1/dump; LISTMAX=0; echo READY"
for i in {1..300}; do zpty -r -t shell line && [[ $line == *READY$'\r'* ]] && break; sleep 0.05; done
zpty -w -n shell "$2"$'\t'
sleep 0.5
for i in {1..100}; do zpty -r -t shell line && print -rn -- "$line"; sleep 0.01; done
zpty -d shell
"""


def test_zsh_completes(tmp_path: pathlib.Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    (tmp_path / "_vram").write_text(printed("completion", "zsh"))

    def typed(line: str) -> str:
        done = subprocess.run(
            [zsh, "-f", "-c", IN_ZSH, "zsh", str(tmp_path), line],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env=environment(HOME=str(tmp_path)),
        )
        return done.stdout

    assert "vram report" in typed("vram repo")
    assert "vram replay --allocator" in typed("vram replay --allo")
    assert "vram help empty_cache" in typed("vram help empty_c")
    screen = typed("vram run --stacks ")
    assert "native" in screen
    assert "python" in screen


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_mandoc_finds_nothing_wrong(command: str, tmp_path: pathlib.Path) -> None:
    mandoc = shutil.which("mandoc")
    if mandoc is None:
        pytest.skip("mandoc is not installed")
    page = tmp_path / "vram.1"
    page.write_text(printed("help", "--man", *([command] if command else [])))
    done = subprocess.run(
        [mandoc, "-T", "lint", "-W", "warning", str(page)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("", "")
