"""The pool on a GPU with random programs whose kernels check every word (programs/verify_pool.cu), and the same with
wrong allocators, which must be detected.

VRAM_DEEP=600 runs the first test for 600 s.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "gpu" / "programs"
SECONDS = max(20, int(os.environ.get("VRAM_DEEP", "0")))
SMALL = ("--limit-mib", "256", "--max-mib", "32")


def tool(name: str) -> str | None:
    """Where a tool of the CUDA toolkit is."""
    folders = [os.environ.get("PATH", ""), *(str(path / "bin") for path in sorted(Path("/usr/local").glob("cuda*")))]
    return shutil.which(name, path=os.pathsep.join(folders))


def build(folder: Path, source: str, *words: str) -> Path:
    nvcc = tool("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc on PATH or in /usr/local/cuda*/bin")
    built = folder / Path(source).stem
    major, minor = torch.cuda.get_device_capability(0)
    flags = ["-O2", "-std=c++17", "-lineinfo", f"-arch=sm_{major}{minor}"]
    subprocess.run([nvcc, *flags, "-o", str(built), str(PROGRAMS / source), *words], check=True, timeout=300)
    return built


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from vram import _library

    library = _library.path()
    links = [f"-L{library.parent}", f"-l:{library.name}", "-Xlinker", f"-rpath={library.parent}"]
    return build(tmp_path_factory.mktemp("verify"), "verify_pool.cu", f"-I{ROOT / 'include'}", *links)


def verify(words: list[str | Path], expected_code: int, timeout: float, wrong_allocator: str = "") -> Any:
    """What the program prints."""
    environment = {name: value for name, value in os.environ.items() if name != "VERIFY_BREAK"}
    if wrong_allocator:
        environment["VERIFY_BREAK"] = wrong_allocator
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=timeout)
    assert done.returncode == expected_code, done.stdout + done.stderr
    line = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
    print(line)
    return json.loads(line)


def assert_all_kinds_happened(result: Any) -> None:
    kinds: tuple[str, ...] = (
        "allocations",
        "checks",
        "out_of_memory",
        "captures",
        "graph_launches",
        "forgotten_streams",
        "orphans",
    )
    kinds += ("other_stream_uses", "handed_over", "reclaimed", "trims", "flag_waits", "early_frees")
    assert [kind for kind in kinds if result[kind] == 0] == []


def test_no_word_is_wrong_and_no_capture_breaks(program: Path) -> None:
    result = verify([program, "--seconds", str(SECONDS)], 0, SECONDS + 180)
    assert (result["wrong_words"], result["broken_captures"], result["flag_timeouts"], result["failures"]) == (
        0,
        0,
        0,
        [],
    )
    assert_all_kinds_happened(result)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_no_word_is_wrong_between_two_gpus(program: Path) -> None:
    result = verify([program, "--seconds", str(SECONDS), "--devices", "2"], 0, SECONDS + 180)
    assert (result["wrong_words"], result["broken_captures"], result["flag_timeouts"], result["failures"]) == (
        0,
        0,
        0,
        [],
    )
    assert result["copies"] > 0


def test_memcheck_finds_no_access_outside_of_the_pools_memory(program: Path) -> None:
    sanitizer = tool("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("needs compute-sanitizer on PATH or in /usr/local/cuda*/bin")
    # The pool expects the driver to refuse calls: those are no errors. A tool that runs kernels one at a time can't
    # cross streams.
    check = [sanitizer, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "9"]
    result = verify([*check, program, "--seconds", "30", *SMALL, "--crossed", "0"], 0, 300)
    assert (result["wrong_words"], result["broken_captures"], result["failures"]) == (0, 0, [])
    assert result["checks"] > 0


@pytest.mark.parametrize("order", ["free", "record"])
def test_an_allocator_that_ignores_an_order_is_found(program: Path, order: str) -> None:
    result = verify([program, "--seconds", "20", *SMALL], 1, 120, wrong_allocator=order)
    assert result["wrong_words"] > 0


def test_an_allocator_that_breaks_captures_is_found(program: Path) -> None:
    result = verify([program, "--seconds", "20", *SMALL], 1, 120, wrong_allocator="capture")
    assert result["broken_captures"] > 0


def test_waits_hold_beside_launches_that_a_lock_keeps_apart(tmp_path: Path) -> None:
    """The driver's behaviour that verify_pool and docs/pool.md rely on; the number of lost waits depends on the driver."""
    done = subprocess.run(
        [build(tmp_path, "lost_wait.cu"), "2"], check=True, capture_output=True, text=True, timeout=60
    )
    print(done.stdout)
    result = json.loads(done.stdout)
    held = ("kernels", "graph_of_1_locked", "graph_of_3_locked")
    assert {kind: result[kind]["wrong"] for kind in held} == dict.fromkeys(held, 0)
    assert all(result[kind]["rounds"] > 0 for kind in held)
