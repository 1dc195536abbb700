"""The adapter under PyTorch without a GPU: compiled by vram.torch against this environment's PyTorch, and run between the
stand-ins for libc10_cuda.so and libvram.so in this folder.
"""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
from built_once import built_once

from vram import VramError
from vram.torch import _adapter, _compiled, _toolchain
from vram.torch._decorator import HeaderError, decorator, virtual_functions
from vram.torch._toolchain import Torch

SOURCES = Path(__file__).resolve().parent
ROOT = SOURCES.parents[1]
HEADER = ROOT / "include"
# Compilations of several files against PyTorch headers; on a busy machine each takes half a minute.
pytestmark = pytest.mark.timeout(400)
DRIVERS = ("driver", "capture_driver", "ownership_driver", "tap_driver")


def installed() -> Torch:
    found = find_spec("torch")
    assert found, "this test needs PyTorch: tools/requirements-torch.txt"
    assert found.origin
    folder = Path(found.origin).parent
    version = re.search(r"__version__ = '(.*)'", (folder / "version.py").read_text())
    assert version
    return Torch(version[1], folder, has_cxx11_abi=True)


def compile_shared(torch: Torch, output: Path, *words: object) -> None:
    command = [*_toolchain.compiler(), "-std=c++20", "-O1", f"-I{SOURCES}", f"-I{HEADER}"]
    command += [f"-I{_adapter.SOURCES / 'without_crt'}", "-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE"]
    command += ["-isystem", str(torch.include), "-isystem", str(_toolchain.cuda_include(torch))]
    subprocess.run([*command, *map(str, words), "-o", str(output)], check=True, timeout=120)


def build(folder: Path) -> None:
    """The stand-ins, the drivers, and the adapter in its cache."""
    torch = installed()
    shared = ("-shared", "-fPIC", f"-L{torch.lib}")
    compile_shared(torch, folder / "libc10_cuda.so", *shared, SOURCES / "stand_in_cuda.cpp", "-lc10")
    compile_shared(
        torch, folder / "libvram.so", *shared, SOURCES / "stand_in_vram.cpp", f"-L{folder}", "-lc10_cuda", "-lc10"
    )
    found = [f"-L{folder}", f"-L{torch.lib}", f"-Wl,-rpath,{folder}:{torch.lib}", "-Wl,--no-as-needed"]
    found += ["-lc10_cuda", "-lvram", "-lc10", "-pthread"]

    def driver(name: str) -> None:
        compile_shared(torch, folder / name, SOURCES / f"{name}.cpp", *found)

    with ThreadPoolExecutor(os.cpu_count()) as compilers:
        list(compilers.map(driver, DRIVERS))
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        file, compiled = _adapter.adapter(torch, HEADER, (folder,))
    assert compiled
    assert file.parent == folder / "cache" / "vram"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stand-ins and the drivers, and in cache/vram the adapter."""
    return built_once(tmp_path_factory, "stand_ins", build)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vram"


@pytest.mark.parametrize("driver", DRIVERS)
def test_between_stand_ins_each_call_goes_where_it_belongs(libraries: Path, driver: str) -> None:
    (file,) = (libraries / "cache" / "vram").glob("*.so")
    done = subprocess.run([libraries / driver, file], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr.count("does not hold"), done.stdout) == (0, 0, "all checks hold\n"), (
        done.stderr
    )


def test_under_strict_a_device_without_a_pool_ends_the_process(
    libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = (libraries / "cache" / "vram").glob("*.so")
    monkeypatch.setenv("VRAM_STRICT", "1")
    done = subprocess.run([libraries / "driver", file], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 3
    assert "vram: error: no pool on cuda:3, PyTorch's own allocator serves it: " in done.stderr
    assert done.stderr.endswith("; --strict ends the program\n")
    monkeypatch.setenv("VRAM_STRICT", "0")
    loose = subprocess.run([libraries / "driver", file], capture_output=True, text=True, check=False, timeout=120)
    assert (loose.returncode, loose.stdout) == (0, "all checks hold\n"), loose.stderr


def test_compiled_once_and_for_its_owner_only(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(libraries / "cache"))
    cache = libraries / "cache" / "vram"
    (first,) = cache.glob("*.so")
    assert _adapter.adapter(installed(), HEADER, (libraries,)) == (first, False)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in cache.iterdir()) == sorted(["lock", first.name])


def test_ranks_that_start_together_compile_once(libraries: Path, cache: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from test_adapter import installed, HEADER\n"
        "from vram.torch._adapter import adapter\n"
        "print(adapter(installed(), HEADER, (Path(sys.argv[1]),))[1])"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{SOURCES}"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(libraries)], stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(3)
    ]
    said = sorted(rank.communicate(timeout=300)[0].strip() for rank in ranks)
    assert said == ["False", "False", "True"]
    assert cache.is_dir()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_folder_that_others_can_write_to_is_not_trusted(cache: Path, temporary: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    shared = temporary / f"vram-cache-{os.getuid()}"
    assert _compiled._cache_folder() == shared
    assert shared.stat().st_mode & 0o777 == 0o700
    assert _compiled._cache_folder() == shared  # what one rank compiles serves the others


CACHES = """
import os, sys
from vram.torch import _compiled
print(_compiled._cache_folder())
"""


def caches(folder: Path, code: str = CACHES, **environment: str) -> str:
    """The folder that a process chooses whose user has no home."""
    done = subprocess.run(
        [sys.executable, "-c", "import os; os.getuid = lambda: 987654\n" + code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(folder / "tmp"),
            **environment,
        },
    )
    return done.stdout.strip()


def test_no_home_is_no_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    chosen = caches(tmp_path)
    assert not (tmp_path / "~").exists()
    assert Path(chosen).parent == tmp_path / "tmp"
    assert caches(tmp_path, XDG_CACHE_HOME="relative") != "relative/vram"
    assert not (tmp_path / "relative").exists()


FORKS = """
import os, sys
from vram.torch import _compiled
folder = _compiled._cache_folder()
print(folder, flush=True)
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
assert folder.is_dir()
"""


def test_a_folder_of_one_process_goes_with_it(tmp_path: Path) -> None:
    """If another user has created the shared folder, only a folder of the process's own remains."""
    (tmp_path / "tmp" / "vram-cache-987654").mkdir(parents=True)  # the owner is not user 987654
    chosen = caches(tmp_path, FORKS)
    assert Path(chosen).parent == tmp_path / "tmp"
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["vram-cache-987654"]


def test_no_compiler_says_what_was_looked_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(
        VramError, match=r"no C\+\+ compiler \(looked for g\+\+, c\+\+, clang\+\+ on PATH\).*apt install g.*CXX"
    ):
        _adapter.adapter(installed(), HEADER)


def test_no_cuda_headers_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_toolchain, "_toolkits", lambda: [tmp_path / "toolkit"])
    torch = Torch("2.13.0", tmp_path / "torch", has_cxx11_abi=True)
    with pytest.raises(
        VramError, match=r"no cuda_runtime_api.h \(looked in .*cuda_runtime/include.*toolkit\).*pip install"
    ):
        _toolchain.cuda_include(torch)


def test_what_does_not_compile_is_one_line_and_the_command(cache: Path, tmp_path: Path) -> None:
    broken = tmp_path / "include" / "vram"
    broken.mkdir(parents=True)
    (broken / "vram.h").write_text("#error not this one\n")
    with pytest.raises(VramError, match=r"does not compile against PyTorch .*not this one\nthe command was: "):
        _adapter.adapter(installed(), tmp_path / "include")
    assert [path.name for path in cache.iterdir()] == ["lock"]


OLD_HEADER = """
namespace c10 {
struct Allocator {
  virtual ~Allocator() = default;
  virtual DataPtr allocate(size_t n) = 0; // a comment with virtual void nonsense();
};
namespace cuda { class CUDAAllocator : public Allocator {
 public:
  virtual void raw_delete(void* ptr) = 0;
  virtual void recordStream(const DataPtr&, CUDAStream stream) = 0;
  virtual void emptyCache() = 0;
  virtual bool isEnabled() const = 0;
  /* virtual void gone() = 0; */
  virtual std::pair<int, int> both(std::vector<std::pair<int, int>> md = {{1, 2}}, bool is_on = true) { return {1, 2}; }
  virtual void beginAllocateToPool(
      c10::DeviceIndex device,
      std::function<bool(cudaStream_t)> filter) = 0;
  void settled(int) { if (true) { return; } }
 private:
  int member;
}; } }
"""


def write_header(tmp_path: Path, text: str) -> Path:
    header = tmp_path / "c10" / "cuda" / "CUDACachingAllocator.h"
    header.parent.mkdir(parents=True)
    header.write_text(text)
    (tmp_path / "c10" / "core").mkdir()
    (tmp_path / "c10" / "core" / "Allocator.h").write_text(text)
    return tmp_path


def test_the_decorator_has_each_virtual_function_of_the_header(tmp_path: Path) -> None:
    include = write_header(tmp_path, OLD_HEADER)
    assert [(f.returns, f.name, f.parameters, f.is_const) for f in virtual_functions(include)] == [
        ("void", "raw_delete", ("void*",), False),
        ("void", "recordStream", ("const DataPtr&", "CUDAStream"), False),
        ("void", "emptyCache", (), False),
        ("bool", "isEnabled", (), True),
        ("std::pair<int, int>", "both", ("std::vector<std::pair<int, int>>", "bool"), False),
        ("void", "beginAllocateToPool", ("c10::DeviceIndex", "std::function<bool(cudaStream_t)>"), False),
        ("DataPtr", "allocate", ("size_t",), False),
    ]
    text = decorator(include)
    assert "  bool isEnabled() const override { return native().isEnabled(); }\n" in text
    assert "  void emptyCache() override { return ours_.empty_cache(); }\n" in text


def test_a_header_without_the_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeaderError, match="no allocate, beginAllocateToPool, raw_delete, recordStream"):
        decorator(write_header(tmp_path, "namespace c10 {}"))
