"""The pytest plug-in, in runs of pytest of its own, with real PyTorch under dry runs."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT

import pytest_vram
import vram

pytest_plugins = ["pytester"]
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Runs of pytest in this process forget what they import, and PyTorch registers its operators once."""
    for name in ("pytest_vram._measure", "pytest_vram._gate"):
        importlib.import_module(name)
    with vram.dry_run():
        model = torch.nn.Linear(8, 8, device="cuda")
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(8, 8, device="cuda")).sum().backward()
        optimizer.step()


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> object:
    """Runs pytest with the plug-in, as an entry point would load it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))  # of the workers of pytest-xdist

    def run_tests(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(f"import pytest, torch\n{source}")
        run_in = pytester.runpytest_subprocess if "-n" in arguments else pytester.runpytest_inprocess
        return run_in("-p", "pytest_vram", "-p", "no:cacheprovider", *arguments)

    return run_tests


ALLOCATES_64_MIB = """
def test_allocates():
    made = torch.zeros(16 << 20, device="cuda")
"""


def marked(text: str, source: str = ALLOCATES_64_MIB) -> str:
    return source.replace("def test_allocates", f"@pytest.mark.vram({text})\ndef test_allocates")


def test_a_test_above_its_limit_fails_with_its_holders(run) -> None:  # type: ignore[no-untyped-def]
    result = run(marked('peak="16MiB"'))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "the test's peak of GPU memory is 64 MiB, above its limit of 16 MiB (predicted by dry runs on H200)",
            "the largest holders at the peak:",
            "*64 MiB  test_a_test_above_its_limit_fails_with_its_holders.py:5 test_allocates  (1 block)",
            "1 test measured: predicted by dry runs on H200",
            "   64 MiB     16 MiB     400 %  *::test_allocates",
        ]
    )


def test_at_its_limit_a_test_passes(run) -> None:  # type: ignore[no-untyped-def]
    run(marked('peak="64MiB"')).assert_outcomes(passed=1)


def test_the_option_limits_all_tests_and_markers_replace_it(run) -> None:  # type: ignore[no-untyped-def]
    source = ALLOCATES_64_MIB + marked('peak="1GiB"').replace("test_allocates", "test_may")
    run(source, "--vram-max", "32MiB").assert_outcomes(failed=1, passed=1)
    run(source, "--vram-max", "65MiB").assert_outcomes(passed=2)


def test_the_fixture_has_the_peak_so_far(run) -> None:  # type: ignore[no-untyped-def]
    source = """
def test_grows(vram_peak):
    assert vram_peak.bytes == 0
    torch.zeros(1 << 20, device="cuda")
    assert vram_peak.bytes == 4 << 20
    torch.zeros(1 << 20, device="cuda")
    assert vram_peak.bytes == 4 << 20
"""
    run(source).assert_outcomes(passed=1)


def test_what_fixtures_of_the_test_make_counts(run) -> None:  # type: ignore[no-untyped-def]
    source = """
@pytest.fixture
def made():
    return torch.zeros(16 << 20, device="cuda")

@pytest.mark.vram(peak="16MiB")
def test_uses(made):
    pass
"""
    result = run(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*64 MiB  *.py:* made  (1 block)"])


def test_a_training_step_is_measured(run) -> None:  # type: ignore[no-untyped-def]
    source = """
@pytest.mark.vram(peak="128MiB")
def test_step():
    model = torch.nn.Linear(1024, 1024, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(8, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    result = run(source)
    result.assert_outcomes(passed=1)
    peak = re.search(r"([\d.]+) MiB +128 MiB", result.stdout.str())
    assert peak is not None
    # Parameters, gradients and two states of 4 MiB each, and the workspaces of cuBLAS.
    assert 16 <= float(peak[1]) <= 100


def test_failing_tests_fail_for_their_own_reason_and_leave_nothing(run) -> None:  # type: ignore[no-untyped-def]
    source = """
@pytest.fixture
def broken():
    raise RuntimeError("in a fixture")

@pytest.mark.vram(peak="16MiB")
def test_broken(broken): pass

@pytest.mark.vram(peak="16MiB")
def test_wrong():
    torch.zeros(16 << 20, device="cuda")
    assert False, "in the test"

@pytest.mark.vram(peak="16MiB")
def test_fine(): pass

def test_unmeasured():
    with pytest.raises((AssertionError, RuntimeError)):
        torch.zeros(1, device="cuda")
"""
    result = run(source)
    result.assert_outcomes(errors=1, failed=1, passed=2)
    text = result.stdout.str()
    assert "in the test" in text
    assert "above its limit" not in text
    assert "3 tests measured" in text


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        (
            "",
            "expected @pytest.mark.vram with peak, assume or both, such as "
            'vram(peak="2GiB", assume={"model.py:42": 0.5}), found vram()',
        ),
        ('"2GiB"', "found vram('2GiB')"),
        ('peak="2GiB", most=3', "found vram(peak='2GiB', most=3)"),
        ("assume=0.5", "vram: assume: expected a dict such as {'train.py:42': 0.5}, found 0.5"),
        ('assume={"train.py": 0.5}', "vram: assume: expected lines such as 'train.py:42', found 'train.py'"),
        ('peak="nan"', "'nan' is no size"),
        ('peak="-1GiB"', "'-1GiB' is no size"),
        ("peak=2", "write the unit"),
        ("peak=None", "@pytest.mark.vram: peak"),
    ],
)
def test_a_wrong_marker_ends_the_run(run, mark: str, expected: str) -> None:  # type: ignore[no-untyped-def]
    result = run(marked(mark))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert expected in result.stderr.str() + result.stdout.str()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--vram-max", "2"),
        ("--vram-max", "nan"),
        ("--vram-dry", "--vram-gpu", "Voodoo"),
        ("--vram-dry", "--vram-assume", "train.py=1"),
        ("--vram-dry", "--vram-assume", "train.py:1=some"),
    ],
)
def test_a_wrong_option_ends_the_run(run, arguments: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    result = run(ALLOCATES_64_MIB, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"{arguments[-2]}:" in result.stderr.str()


READS = """
def read():
    return torch.rand(1, device="cuda").long().max().item()

@pytest.mark.vram(peak="1GiB")
def test_reads():
    assert read() == 1
"""
LINE = 4  # of the read


def of_module(source: str, text: str) -> str:
    return source.replace("\n\n@pytest", f"\n\npytestmark = pytest.mark.vram({text})\n\n@pytest")


def test_what_a_test_reads_has_to_be_assumed(run) -> None:  # type: ignore[no-untyped-def]
    result = run(READS, "--vram-dry")
    result.assert_outcomes(failed=1)
    file = "test_what_a_test_reads_has_to_be_assumed.py"
    text = (
        f"state what to assume with @pytest.mark.vram(assume={{'{file}:{LINE}': 1}}), --vram-assume {file}:{LINE}=1 or "
        "`with vram_peak.assume(1):` around it"
    )
    assert text in result.stdout.str().replace("\n", " ").replace("E   ", ""), result.stdout.str()


def test_assumptions_are_stated_by_marker_option_or_file(run, pytester: pytest.Pytester) -> None:  # type: ignore[no-untyped-def]
    name = "test_assumptions_are_stated_by_marker_option_or_file.py"
    here = f"{name}:{LINE}"
    marked = READS.replace('peak="1GiB"', f'peak="1GiB", assume={{"{here}": 1}}')
    run(marked, "--vram-dry").assert_outcomes(passed=1)
    run(READS, "--vram-dry", "--vram-assume", f"{here}=1").assert_outcomes(passed=1)
    # The closest statement counts, and a marker of the module leaves the limit of the test as it is.
    of_file = of_module(READS, f'assume={{"{here}": 1}}, peak="1MiB"')
    run(of_file, "--vram-dry", "--vram-assume", f"{here}=0").assert_outcomes(passed=1)
    run(marked.replace(": 1}", ": 0}"), "--vram-dry", "--vram-assume", f"{here}=1").assert_outcomes(failed=1)
    pytester.makeini(f"[pytest]\nvram_assume =\n    {here}=1\n    other.py:3=0.5\n")
    run(READS, "--vram-dry").assert_outcomes(passed=1)
    run(READS, "--vram-dry", "--vram-assume", f"{here}=0").assert_outcomes(failed=1)


def test_the_limit_is_that_of_the_closest_marker_that_has_one(run) -> None:  # type: ignore[no-untyped-def]
    source = of_module(ALLOCATES_64_MIB.replace("\ndef", "\n\n@pytest.mark.vram(assume={})\ndef"), 'peak="16MiB"')
    run(source, "--vram-dry").assert_outcomes(failed=1)
    run(source.replace("16MiB", "1GiB"), "--vram-dry", "--vram-max", "16MiB").assert_outcomes(passed=1)


def test_a_block_has_an_assumption(run) -> None:  # type: ignore[no-untyped-def]
    source = READS.replace(
        '@pytest.mark.vram(peak="1GiB")\ndef test_reads():\n    ',
        "def test_reads(vram_peak):\n    with vram_peak.assume(1):\n        ",
    )
    assert "vram_peak.assume" in source
    run(source, "--vram-dry").assert_outcomes(passed=1)


def test_another_gpu_is_pretended(run) -> None:  # type: ignore[no-untyped-def]
    source = """
@pytest.mark.vram(peak="1GiB")
def test_device():
    assert torch.cuda.get_device_properties(0).total_memory < 25 << 30
"""
    run(source, "--vram-dry", "--vram-gpu", "RTX 4090").assert_outcomes(passed=1)


def test_skipped_tests_are_not_measured(run) -> None:  # type: ignore[no-untyped-def]
    source = """
@pytest.mark.skip
def test_a(): pass

@pytest.mark.skipif(True, reason="always")
def test_b(): pass

@pytest.mark.xfail(run=False)
def test_not_run(): pass

@pytest.mark.xfail(reason="too large", strict=True)
@pytest.mark.parametrize("size", [16, 17])
def test_allocates(size):
    torch.zeros(size << 20, device="cuda")
"""
    result = run(source, "--vram-max", "16MiB")
    result.assert_outcomes(skipped=2, xfailed=3)
    result.stdout.fnmatch_lines(["2 tests measured: *"])


def test_reports_of_workers_may_alternate() -> None:
    hooks = pytest_vram._Hooks(SimpleNamespace(getoption=lambda _name: None))  # type: ignore[arg-type]
    peak = [("vram_peak_bytes", 1 << 20), ("vram_limit_bytes", None), ("vram_mode", "predicted")]
    for nodeid in ("a", "b", "a", "b"):
        report = pytest.TestReport(nodeid, ("t.py", 0, nodeid), {}, "passed", None, "call", user_properties=peak)
        hooks.pytest_runtest_logreport(report)
    lines: list[str] = []
    hooks.pytest_terminal_summary(SimpleNamespace(section=lines.append, line=lines.append))  # type: ignore[arg-type]
    assert lines[1] == "2 tests measured: predicted"


def test_workers_of_xdist_report_to_one_table(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("xdist")
    source = marked('peak="1GiB"') + marked('peak="1GiB"').replace("test_allocates", "test_too")
    result = run(source, "-n", "2", f"--junit-xml={tmp_path / 'junit.xml'}")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["2 tests measured: *"])
    found = ElementTree.parse(tmp_path / "junit.xml").iter("property")
    assert [each.get("value") for each in found if each.get("name") == "vram_peak_bytes"] == [str(64 << 20)] * 2


def test_unused_it_imports_neither_vram_nor_torch(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    program = (
        "import sys, pytest\n"
        "code = pytest.main(['-p', 'pytest_vram', '-p', 'no:cacheprovider', '-q'])\n"
        "assert code == 0, code\n"
        "assert 'pytest_vram' in sys.modules\n"
        "assert not {'vram', 'torch', 'pytest_vram._gate'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=pytester.path,
        env={"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPU memory" not in done.stdout


def test_on_a_gpu_the_peak_is_what_the_test_adds() -> None:
    """By PyTorch's counters, which a dry run replaces: with what an earlier test left, and with regions that reset the counters."""
    from pytest_vram._measure import GpuPeak

    with vram.dry_run():
        kept = torch.zeros(16 << 20, device="cuda")
        torch.zeros(64 << 20, device="cuda")
        measured = GpuPeak(finds_holders=False)
        measured.begin()
        assert measured.peak_bytes() == 0
        with measured.assuming(1):  # which has no effect there
            torch.zeros(1)
        torch.zeros(2 << 20, device="cuda")
        with vram.monitor("a region, which resets the counters"):
            torch.zeros(1 << 20, device="cuda")
        assert measured.peak_bytes() == 8 << 20
        measured.end()
        torch.zeros(4 << 20, device="cuda")
        assert measured.peak_bytes() == 8 << 20
        assert measured.mode.startswith("measured on ")
        assert kept.nbytes == 64 << 20


def test_the_history_is_asked_for_once_cuda_is_initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's function crashes before that."""
    from pytest_vram._measure import GpuPeak

    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "init", lambda: calls.append("init"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: calls.append("history"), raising=False)
    GpuPeak(finds_holders=True)
    assert calls == ["init", "history"]
