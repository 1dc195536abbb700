"""vram run --pool: the program gets its arguments, environment and exit code; frameworks get the pool when they are
imported; what is impossible is reported in one line, and the program continues.

VRAM_BINARY names the program under test.
"""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from program import BINARY, ROOT, vram

STARTUP = ROOT / "python" / "vram" / "_startup"


def run(*words: object, **changes: str) -> "subprocess.CompletedProcess[str]":
    return vram("run", *words, **{"VRAM_STARTUP": str(STARTUP), **changes})


def python(code: str, *options: object, **changes: str) -> "subprocess.CompletedProcess[str]":
    return run("--pool", *options, "--", sys.executable, "-c", code, **changes)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder on PYTHONPATH with a torch as vram.enable() sees one: built without CUDA."""
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text(
        "import types\n__version__ = '2.11.0'\nversion = types.SimpleNamespace(cuda=None, hip=None)\n"
        "_C = types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)\n"
        "with_vram = __import__('sys').modules.get('vram') is not None\n"
    )
    return tmp_path


WITHOUT_CUDA = "vram: the program runs without the pool: PyTorch 2.11.0 is built without CUDA; "


def test_the_program_gets_its_words_and_gives_its_exit_code() -> None:
    code = "import sys; print(sys.argv[1:]); sys.exit(7)"
    done = run("--pool", "--", sys.executable, "-c", code, "--lr", "3", "--", "-x", "--help")
    assert (done.returncode, done.stdout, done.stderr) == (7, "['--lr', '3', '--', '-x', '--help']\n", "")


def test_the_environment_of_the_pool() -> None:
    code = "import os; print(os.environ['PYTHONPATH'], os.environ['VRAM_POOL'], os.environ['VRAM_LIMIT'])"
    done = python(code, "--limit", "1.5GiB", PYTHONPATH="/a:/b")
    assert done.stdout == f"{STARTUP}:/a:/b 1 1610612736\n"
    assert "VRAM_LIMIT" not in python("import os; print(sorted(os.environ))").stdout


def test_a_pipe_that_closes_ends_the_program_as_ever() -> None:
    done = run("--pool", "--", "sh", "-c", "trap; kill -PIPE $$; echo survived")
    assert (done.returncode, done.stdout) == (-13, "")


def test_not_importing_a_framework_costs_nothing() -> None:
    done = python("import sys; print([name for name in sys.modules if name.startswith('vram')])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_right_after_the_import_and_only_once(packages: Path) -> None:
    code = "import torch, sys; import torch; print(torch.with_vram, 'vram' in sys.modules, torch.__loader__)"
    done = python(code, PYTHONPATH=str(packages))
    assert done.returncode == 0
    assert done.stdout.startswith("False True <_frozen_importlib_external.SourceFileLoader")
    assert done.stderr.startswith(WITHOUT_CUDA)
    assert done.stderr.count("\n") == 1


def test_children_inherit_and_stay_silent(packages: Path) -> None:
    child = "import torch, sys; print('vram' in sys.modules)"
    code = f"import torch, subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    done = python(code, PYTHONPATH=str(packages))
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert done.stderr.count("\n") == 1


def test_an_import_that_fails_is_the_programs_own_error(packages: Path) -> None:
    (packages / "torch" / "__init__.py").write_text("raise ImportError('libsomething.so is missing')\n")
    code = "try:\n    import torch\nexcept ImportError as error:\n    print(error)"
    done = python(code, PYTHONPATH=str(packages))
    assert (done.returncode, done.stdout, done.stderr) == (0, "libsomething.so is missing\n", "")


def test_no_torch_is_no_news() -> None:
    done = python("import importlib.util; print(importlib.util.find_spec('cupy'))")
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_a_bug_of_ours_is_one_line(packages: Path) -> None:
    (packages / "torch" / "__init__.py").write_text("")  # not what vram.enable() expects at all
    done = python("import torch; print('on')", PYTHONPATH=str(packages))
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert done.stderr.startswith("vram: the program runs without the pool: ")
    assert done.stderr.count("\n") == 1


def test_a_closed_standard_error_harms_nothing(packages: Path) -> None:
    code = "import sys; sys.stderr.close(); import torch; print('on')"
    assert python(code, PYTHONPATH=str(packages)).stdout == "on\n"


def test_the_users_own_sitecustomize_runs(packages: Path) -> None:
    (packages / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = __name__\n")
    code = "import sys; print(customized, sys.modules['sitecustomize'].__file__)"
    done = python(code, PYTHONPATH=str(packages))
    assert (done.stdout, done.stderr) == (f"sitecustomize {packages / 'sitecustomize.py'}\n", "")


def test_real_pytorch_without_cuda_goes_on() -> None:
    assert find_spec("torch"), "this test needs PyTorch: tools/requirements-torch.txt"
    code = (
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "batches = DataLoader(torch.arange(8.0), batch_size=4, num_workers=2, multiprocessing_context='spawn')\n"
        "if __name__ == '__main__': print([batch.sum().item() for batch in batches])\n"
    )
    done = run("--pool", "--", sys.executable, "-W", "ignore", "-c", code)
    assert (done.returncode, done.stdout) == (0, "[6.0, 22.0]\n"), done.stderr
    assert done.stderr.startswith("vram: the program runs without the pool: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pool"], "missing CMD; usage: vram run [--pool "),  # whole in tests/golden
        (
            ["--", "python", "a.py"],
            "expected --pool, --record, --flight or --dry before 'python': vram run --pool -- python a.py",
        ),
        (["--pool", "--limit", "much", "--", "true"], "--limit: expected a size such as 16GiB"),
        (["--pool", "--limit", "0", "--", "true"], "--limit: expected at least 1 MiB, found '0' (0 bytes)"),
        (["--pool", "--limit", "20", "--", "true"], "--limit: expected at least 1 MiB, found '20' (20 bytes)"),
        (["--pool", "--", "/no/such/program"], "cannot run '/no/such/program': No such file or directory;"),
    ],
)
def test_what_is_wrong_with_the_words(words: "list[str]", said: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"vram: error: {said}"), done.stderr


def test_a_program_without_its_package_says_where_it_looked() -> None:
    done = vram("run", "--pool", "--", "true")
    assert done.returncode == 2
    assert "lib/python3*/site-packages/vram/_startup" in done.stderr
    wrong = vram("run", "--pool", "--", "true", VRAM_STARTUP="/nowhere")
    assert "VRAM_STARTUP names /nowhere, which has no sitecustomize.py" in wrong.stderr


def test_the_package_is_found_below_the_programs_prefix(tmp_path: Path) -> None:
    binary = tmp_path / "bin" / "vram"
    startup = tmp_path / "lib" / "python3.12" / "site-packages" / "vram" / "_startup"
    binary.parent.mkdir()
    startup.mkdir(parents=True)
    shutil.copy(BINARY, binary)
    (startup / "sitecustomize.py").write_text("")
    done = subprocess.run(
        [binary, "run", "--pool", "--", "sh", "-c", "echo $PYTHONPATH"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == f"{startup}\n"
