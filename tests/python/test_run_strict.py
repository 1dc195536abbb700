"""vram run --strict: anything that cannot be set up ends the command, or the process, with exit code 3; without --strict
it is reported.

VRAM_BINARY names the program under test. A program that should not have run would print "ran".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest
from program import BINARY, ROOT, vram

LIBRARY = Path(BINARY).with_name("libvram.so")
FAKE_DRIVER = Path(BINARY).parents[1] / "tests" / "fake_cuda" / "libcuda.so.1"
STARTUP = ROOT / "python" / "vram" / "_startup"

pytestmark = pytest.mark.skipif(
    Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)

Done = subprocess.CompletedProcess[str]


def run(*words: object, **changes: str) -> Done:
    return vram("run", *words, **{"VRAM_STARTUP": str(STARTUP), "VRAM_LIBRARY": str(LIBRARY), **changes})


def python(code: str, *options: object, **changes: str) -> Done:
    return run(*options, "--", sys.executable, "-c", code, **changes)


def refused(done: Done, said: str) -> bool:
    """Before the program ran."""
    return (done.returncode, done.stdout) == (3, "") and done.stderr.startswith(f"vram: error: {said}")


def ended(done: Done, said: str) -> bool:
    """A process that said what it could not have."""
    line = f"vram: error: the program {said}"
    return done.returncode == 3 and line in done.stderr and done.stderr.endswith("; --strict ends it\n")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder on PYTHONPATH with a torch that is built without CUDA, and a cupy."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "torch.py").write_text(
        "import types\n__version__ = '2.11.0'\nversion = types.SimpleNamespace(cuda=None, hip=None)\n"
        "_C = types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)\n"
    )
    (tmp_path / "packages" / "cupy.py").write_text("__version__ = '13.0.0'\n")
    return tmp_path / "packages"


# Before the program runs.


def test_no_library(tmp_path: Path) -> None:
    for options in (["--pool"], ["--record", tmp_path / "run.vtrace"]):
        strict = run(*options, "--strict", "--", "echo", "ran", VRAM_LIBRARY="/nowhere/libvram.so")
        assert refused(strict, "no library /nowhere/libvram.so; install vram again, or set VRAM_LIBRARY"), strict
        assert run(*options, "--", "echo", "ran", VRAM_LIBRARY="/nowhere/libvram.so").stdout == "ran\n"


def test_no_preload_library(tmp_path: Path) -> None:
    shutil.copy(LIBRARY, tmp_path / "libvram.so")
    changes = {"VRAM_LIBRARY": str(tmp_path / "libvram.so")}
    words = ("--record", tmp_path / "run.vtrace")
    strict = run(*words, "--strict", "--", "echo", "ran", **changes)
    assert refused(strict, f"no libvram_tap.so next to {tmp_path}/libvram.so"), strict
    assert run(*words, "--", "echo", "ran", **changes).stdout == "ran\n"
    assert run("--pool", "--strict", "--", "echo", "ran", **changes).stdout == "ran\n"  # the pool has no need of it


def test_a_recording_that_cannot_be_written(tmp_path: Path) -> None:
    folder = run("--record", tmp_path, "--strict", "--", "echo", "ran")
    assert refused(folder, f"--record: {tmp_path} is a folder: name a file in it"), folder
    assert run("--record", tmp_path, "--", "echo", "ran").returncode == 2
    missing = tmp_path / "none" / "run.vtrace"
    strict = run("--record", missing, "--strict", "--", "echo", "ran")
    assert refused(strict, f"--record: cannot write to {tmp_path}/none: No such file or directory"), strict
    assert run("--record", missing, "--", "echo", "ran").returncode == 2


def test_no_package() -> None:
    done = run("--pool", "--strict", "--", "echo", "ran", VRAM_STARTUP="/nowhere")
    assert refused(done, "VRAM_STARTUP names /nowhere, which has no sitecustomize.py"), done


def test_what_is_wrong_with_the_words_is_no_environment() -> None:
    assert run("--pool", "--limit", "much", "--strict", "--", "echo", "ran").returncode == 2
    assert run("--pool", "--strict", "--", "/no/such/program").returncode == 2


def test_checking_leaves_no_file_and_takes_none(tmp_path: Path) -> None:
    (tmp_path / "other.vtrace").write_text("kept")
    done = run("--record", tmp_path / "run.vtrace", "--strict", "--", "ls", tmp_path)
    assert (done.returncode, done.stdout) == (0, "other.vtrace\n"), done


KEEPS_FILES = r"""
#include <errno.h>
int unlink(const char* path) { (void)path; errno = EPERM; return -1; }
"""


def test_a_file_that_cannot_be_replaced(tmp_path: Path) -> None:
    """Another user's recording in a folder such as /tmp: new files can be made there, that one can't be removed."""
    (tmp_path / "keep.c").write_text(KEEPS_FILES)
    keep = tmp_path / "keep.so"
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "keep.c", "-o", keep], check=True, timeout=120)
    file = tmp_path / "run.vtrace"
    file.write_bytes(b"\x89vtrace\nkept")
    said = f"--record: can't replace {file}: Operation not permitted; remove it, or name another file"
    strict = run("--record", file, "--strict", "--", "echo", "ran", LD_PRELOAD=str(keep))
    assert refused(strict, said), strict
    loose = run("--record", file, "--", "echo", "ran", LD_PRELOAD=str(keep))
    assert (loose.returncode, loose.stdout) == (0, "ran\n"), loose
    assert loose.stderr.startswith(f"vram: warning: {said}; "), loose
    assert file.read_bytes() == b"\x89vtrace\nkept"


@pytest.mark.parametrize("words", [["-E"], ["-uI"], ["-W", "ignore", "-X", "dev", "-S"], ["-Wignore", "-BbE"]])
def test_a_python_that_ignores_pythonpath(words: list[str], tmp_path: Path) -> None:
    command = (sys.executable, *words, "-c", "print('ran')")
    option = words[-1]
    for options in (["--pool"], ["--record", tmp_path / "run.vtrace"]):
        strict = run(*options, "--strict", "--", *command)
        assert refused(strict, f"{sys.executable} {option} turns off PYTHONPATH or sitecustomize"), strict
        assert run(*options, "--", *command).stdout == "ran\n"


def test_options_that_are_not_pythons(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import sys; print(sys.argv[1:])")
    program = tmp_path / "a.py"
    for words in ([program, "-E"], ["-c", program.read_text(), "-E"], ["-W", "ignore", "--", program, "-E"]):
        done = run("--pool", "--strict", "--", sys.executable, *words)
        assert (done.returncode, done.stdout) == (0, "['-E']\n"), done
    assert run("--pool", "--strict", "--", "echo", "-E", "-I").returncode == 0
    listed = run("--pool", "--strict", "--", sys.executable, "--check-hash-based-pycs", "default", "-IE", "-c", "")
    assert listed.returncode == 3, listed


def test_a_run_within_a_strict_one_is_not_strict(packages: Path) -> None:
    for inherited in ("1", "0"):
        changes = {"PYTHONPATH": str(packages), "VRAM_STRICT": inherited}
        loose = python("import torch, os; print('ran', os.environ['VRAM_STRICT'])", "--pool", **changes)
        assert (loose.returncode, loose.stdout) == (0, "ran 0\n"), loose
        strict = python("import torch", "--pool", "--strict", **changes)
        assert ended(strict, "runs without the pool: "), strict


# When the program imports a framework.


def test_a_pool_that_cannot_be(packages: Path) -> None:
    code = "print('began')\ntry:\n    import torch\nexcept BaseException:\n    pass\nprint('ran')"
    strict = python(code, "--pool", "--strict", PYTHONPATH=str(packages))
    assert ended(strict, "runs without the pool: PyTorch 2.11.0 is built without CUDA"), strict
    assert strict.stdout == "began\n"
    assert python(code, "--pool", PYTHONPATH=str(packages)).stdout == "began\nran\n"


def test_what_c_code_printed_is_not_lost(packages: Path) -> None:
    code = "import ctypes\nctypes.CDLL(None).printf(b'printed\\n')\nimport torch"
    strict = python(code, "--pool", "--strict", PYTHONPATH=str(packages))
    assert ended(strict, "runs without the pool: "), strict
    assert strict.stdout == "printed\n"


def test_a_framework_that_a_pth_file_imports(packages: Path, tmp_path: Path) -> None:
    """Files of that kind run before sitecustomize does."""
    venv.create(tmp_path / "venv", symlinks=True)
    (folder,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    (folder / "early.pth").write_text("import torch\n")
    command = (tmp_path / "venv" / "bin" / "python", "-c", "import torch; print('ran')")
    strict = run("--pool", "--strict", "--", *command, PYTHONPATH=str(packages))
    assert ended(strict, "runs without the pool: PyTorch 2.11.0 is built without CUDA"), strict
    assert strict.stdout == ""
    loose = run("--pool", "--", *command, PYTHONPATH=str(packages))
    assert (loose.returncode, loose.stdout) == (0, "ran\n"), loose
    assert loose.stderr.startswith("vram: the program runs without the pool: PyTorch 2.11.0"), loose
    assert loose.stderr.count("\n") == 1


def test_a_framework_that_has_no_pool(packages: Path) -> None:
    """At once where neither PyTorch nor CuPy is installed, else when the program has imported neither until its end."""
    (packages / "jax.py").write_text("")
    said = "runs without the pool: it is PyTorch's and CuPy's, and the program imports jax"
    changes = {"PYTHONPATH": str(packages)}
    late = python("import jax; print('ran')", "--pool", "--strict", **changes)
    assert ended(late, said), late
    assert late.stdout == "ran\n"
    assert python("import jax; print('ran')", "--pool", **changes).returncode == 0
    nothing = python("print('ran')", "--pool", "--strict", **changes)
    assert (nothing.returncode, nothing.stderr) == (0, ""), nothing
    (packages / "torch.py").unlink()
    (packages / "cupy.py").unlink()
    venv.create(packages / "venv", symlinks=True)
    command = (packages / "venv" / "bin" / "python", "-c", "import jax; print('ran')")
    early = run("--pool", "--strict", "--", *command, **changes)
    assert ended(early, said), early
    assert early.stdout == ""


def test_a_framework_loaded_past_the_import_system(packages: Path) -> None:
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('torch', {str(packages / 'torch.py')!r})\n"
        "sys.modules['torch'] = torch = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(torch)\nprint('ran')"
    )
    strict = python(code, "--pool", "--strict")
    assert ended(strict, "runs without the pool: torch was loaded past Python's import system"), strict
    assert strict.stdout == "ran\n"
    assert python(code, "--pool").returncode == 0


def test_what_only_looks_like_a_framework_is_none(packages: Path) -> None:
    """A stand-in, a folder, and a module that its first use would load."""
    (packages / "tensorflow").mkdir()
    code = (
        "import importlib.util, sys, types, tensorflow\n"
        "sys.modules['jax'] = types.ModuleType('jax')\n"
        "spec = importlib.util.find_spec('torch')\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\n"
        "sys.modules['torch'] = torch = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(torch)\nprint('ran')\n"
    )
    strict = python(code, "--pool", "--strict", PYTHONPATH=str(packages))
    assert (strict.returncode, strict.stdout, strict.stderr) == (0, "ran\n", ""), strict
    used = python(code + "torch.version", "--pool", "--strict", PYTHONPATH=str(packages))
    assert ended(used, "runs without the pool: PyTorch 2.11.0 is built without CUDA"), used


def test_a_child_ends_too_and_says_so_again(packages: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "for _ in range(2): print(subprocess.run([sys.executable, '-c', 'import torch']).returncode)\n"
    )
    done = python(code, "--pool", "--strict", PYTHONPATH=str(packages))
    assert (done.returncode, done.stdout) == (0, "3\n3\n")
    assert done.stderr.count("; --strict ends it\n") == 2


def test_no_driver(packages: Path, tmp_path: Path) -> None:
    changes = {"PYTHONPATH": str(packages), "VRAM_CUDA_DRIVER": "/nowhere/libcuda.so.1"}
    words = ("--record", tmp_path / "run.vtrace")
    strict = python("import torch; print('ran')", *words, "--strict", **changes)
    assert ended(strict, "is not recorded: no CUDA driver on this machine (/nowhere/libcuda.so.1"), strict
    assert strict.stdout == ""
    loose = python("import torch; print('ran')", *words, **changes)
    assert (loose.returncode, loose.stdout) == (0, "ran\n")


def test_a_library_that_is_none(packages: Path, tmp_path: Path) -> None:
    for name in ("libvram.so", "libvram_tap.so"):
        (tmp_path / name).write_text("")
    changes = {"PYTHONPATH": str(packages), "VRAM_LIBRARY": str(tmp_path / "libvram.so")}
    strict = python("import cupy; print('ran')", "--pool", "--strict", **changes)
    assert ended(strict, f"runs without the pool: {tmp_path}/libvram.so: this is not vram's library"), strict
    assert strict.stdout == ""


def test_a_program_that_has_all_it_needs_runs(packages: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.vtrace"
    done = python(
        "import cupy, recorded_pool; recorded_pool.main([]); print('ran')",
        *("--record", file, "--strict"),
        PYTHONPATH=f"{packages}:{ROOT / 'python'}:{ROOT / 'tests' / 'python'}",
        VRAM_CUDA_DRIVER=str(FAKE_DRIVER),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    assert file.is_file()


def test_a_folder_that_goes_away_is_said_at_the_end(packages: Path, tmp_path: Path) -> None:
    """The file is made when there is something to write; the program's own functions at exit run all the same."""
    folder = tmp_path / "recordings"
    code = (
        "import atexit, sys, os; atexit.register(print, 'at exit')\n"
        f"import cupy, recorded_pool; os.rmdir({str(folder)!r}); recorded_pool.main([]); print('ran')"
    )
    changes = {
        "PYTHONPATH": f"{packages}:{ROOT / 'python'}:{ROOT / 'tests' / 'python'}",
        "VRAM_CUDA_DRIVER": str(FAKE_DRIVER),
    }
    for options, code_of_exit in ((["--strict"], 3), ([], 0)):
        folder.mkdir()
        done = python(code, "--record", folder / "run.vtrace", *options, **changes)
        assert (done.returncode, done.stdout) == (code_of_exit, "ran\nat exit\n"), done
        assert "the recording has stopped early" in done.stderr


# In programs that are not Python's, when they first allocate.

PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
typedef int (*Init)(unsigned);
typedef int (*Retain)(void**, int);
typedef int (*Push)(void*);
typedef int (*Allocate)(unsigned long long*, size_t);
int main(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* context;
  unsigned long long address;
  ((Init)dlsym(driver, "cuInit"))(0);
  ((Retain)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
  ((Push)dlsym(driver, "cuCtxPushCurrent_v2"))(context);
  ((Allocate)dlsym(driver, "cuMemAlloc_v2"))(&address, 1 << 20);
  puts("ran");
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", folder / "program.c", "-o", folder / "program", "-ldl"], check=True, timeout=120)
    return folder / "program"


def test_a_program_of_any_kind(program: Path, tmp_path: Path) -> None:
    """The preloaded library finds no library next to it that it could record with."""
    preload = tmp_path / "libraries"
    preload.mkdir()
    shutil.copy(LIBRARY.with_name("libvram_tap.so"), preload)
    (preload / "libvram.so").write_text("")
    words = ("--record", tmp_path / "run.vtrace")
    changes = {"VRAM_LIBRARY": str(preload / "libvram.so"), "LD_LIBRARY_PATH": str(FAKE_DRIVER.parent)}
    strict = run(*words, "--strict", "--", program, **changes)
    assert strict.returncode == 3, strict
    assert strict.stdout == ""
    assert strict.stderr.startswith("vram: error: the program can't be recorded: "), strict
    assert f"{preload}/libvram.so: file too short; --strict ends it\n" in strict.stderr
    assert run(*words, "--", program, **changes).stdout == "ran\n"
    whole = run(*words, "--strict", "--", program, LD_LIBRARY_PATH=str(FAKE_DRIVER.parent))
    assert (whole.returncode, whole.stdout, whole.stderr) == (0, "ran\n", "")
    assert (tmp_path / "run.vtrace").is_file()


# The compiler that PyTorch's side needs.

PYTORCH = """
import importlib.util, os, sys, types
folder = os.environ["PYTORCH"]
__version__ = "2.11.0+cu130"
__file__ = os.path.join(folder, "__init__.py")
version = types.SimpleNamespace(cuda="13.0", hip=None)
_C = types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)
"""


@pytest.mark.parametrize(
    ("option", "said"),
    [("--pool", "runs without the pool: no C++"), ("--record", "is not recorded: PyTorch's own allocator can't be")],
)
def test_no_compiler(option: str, said: str, tmp_path: Path) -> None:
    """With the headers of this environment's PyTorch, said to be one with CUDA."""
    found = find_spec("torch")
    assert found, "this test needs PyTorch: tools/requirements-torch.txt"
    assert found.origin
    (tmp_path / "torch.py").write_text(PYTORCH)
    (tmp_path / "empty").mkdir()
    changes = {
        "PATH": str(tmp_path / "empty"),
        "PYTHONPATH": str(tmp_path),
        "PYTORCH": os.path.dirname(found.origin),
        "VRAM_CUDA_DRIVER": str(FAKE_DRIVER),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    words = [option, *([tmp_path / "run.vtrace"] if option == "--record" else [])]
    code = "import torch; print('ran')"
    advice = (
        "no C++ compiler (looked for g++, c++, clang++ on PATH): vram's adapter is compiled once against your PyTorch; "
        "install one (apt install g++, dnf install gcc-c++ or conda install -c conda-forge gxx), "
        "or set CXX to the compiler's command"
    )
    loose = python(code, *words, **changes)
    assert (loose.returncode, loose.stdout) == (0, "ran\n"), loose
    assert f"vram: the program {said}" in loose.stderr
    assert advice in loose.stderr
    strict = python(code, *words, "--strict", **changes)
    assert ended(strict, said), strict
    assert advice in strict.stderr
    assert strict.stdout == ""
    named = python(code, *words, "--strict", **changes, CXX="/nowhere/clang++ -O1")
    assert "no C++ compiler (looked for CXX=/nowhere/clang++ -O1)" in named.stderr
