"""vram.enable(): its errors and warnings; sizes; the C library that is missing."""

import ctypes
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import vram
from vram import _library, _sizes, torch
from vram.torch import _recording


class FakeAdapter:
    def __init__(self, failure: "bytes | None" = None) -> None:
        self.calls: list[Any] = []
        self.failure = failure

    def vram_torch_install(self, limit: int) -> "bytes | None":
        self.calls.append(limit)
        return self.failure

    def vram_torch_uninstall(self) -> None:
        self.calls.append("uninstall")

    def vram_torch_tap(self, wants_stacks: int) -> "bytes | None":
        self.calls.append(("tap", wants_stacks))
        return self.failure

    def vram_torch_untap(self) -> None:
        self.calls.append("untap")


def fake_torch(version: str = "2.11.0+cu130", cuda: "str | None" = "13.0", hip: "str | None" = None) -> ModuleType:
    module = ModuleType("torch")
    module.__file__ = "/packages/torch/__init__.py"
    vars(module).update(
        __version__=version,
        version=SimpleNamespace(cuda=cuda, hip=hip),
        _C=SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True),
    )
    return module


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> FakeAdapter:
    """enable() gets as far as calling an adapter: there is a driver, a library, a PyTorch with CUDA."""
    fake = FakeAdapter()
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    monkeypatch.setattr(torch, "require_driver", lambda: None)
    monkeypatch.setattr(_library, "library", lambda: None)
    monkeypatch.setattr(torch, "adapter", lambda facts: (Path("/cache") / facts.version, True))
    monkeypatch.setattr(torch, "load", lambda _file: fake)
    monkeypatch.setattr(torch._State, "adapter", fake)
    monkeypatch.setattr(torch._State, "enabled", None)
    return fake


def test_enable_says_what_it_did(adapter: FakeAdapter) -> None:
    assert not vram.is_enabled()
    done = vram.enable(device_limit="2GiB")
    assert done == vram.Enabled("2.11.0+cu130", Path("/cache/2.11.0+cu130"), True, 2 << 30, ())
    assert vram.is_enabled()
    vram.disable()
    vram.disable()  # no harm
    assert not vram.is_enabled()
    assert adapter.calls == [2 << 30, "uninstall"]


def test_what_the_adapter_refuses_is_an_error(adapter: FakeAdapter) -> None:
    adapter.failure = b"no such allocator"
    with pytest.raises(vram.VramError, match=r"PyTorch 2\.11\.0\+cu130 did not take the pool: no such allocator"):
        vram.enable()
    assert not vram.is_enabled()


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (fake_torch("2.3.1+cu121", "12.1"), r"PyTorch 2\.3\.1\+cu121 is too old; vram needs 2\.4 or newer"),
        (fake_torch("2.13.0+cpu", None), r"PyTorch 2\.13\.0\+cpu is built without CUDA; install one with it"),
        (fake_torch("2.11.0+rocm7", None, "7.0"), r"built for ROCm; vram needs one built for CUDA"),
    ],
)
def test_where_nothing_can_come_of_it(
    adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch, module: ModuleType, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", module)
    with pytest.raises(vram.VramError, match=said):
        vram.enable()
    assert adapter.calls == []


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(vram.VramError, match="torch can't be imported"):
        vram.enable()


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    with pytest.raises(vram.VramError, match=r"no CUDA driver on this machine \(libcuda\.so\.1: cannot open"):
        vram.enable()


def test_the_tap_is_switched_on_and_off(adapter: FakeAdapter) -> None:
    assert _recording.is_available()
    _recording.start_tap(stacks=True)
    _recording.stop_tap()
    assert adapter.calls == [("tap", 1), "untap"]
    assert not vram.is_enabled()
    adapter.failure = b"its backend 'cudaMallocAsync' does not tell what it does"
    with pytest.raises(vram.VramError, match="own allocator can't be recorded: its backend 'cudaMallocAsync'"):
        _recording.start_tap(stacks=False)


def test_the_tap_without_what_it_takes(adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(_facts: object) -> None:
        raise vram.VramError("no C++ compiler; install g++")

    monkeypatch.setattr(torch, "adapter", no_compiler)
    with pytest.raises(vram.VramError, match=r"can't be recorded: no C\+\+ compiler; install g\+\+; what vram's pool"):
        _recording.start_tap(stacks=False)
    monkeypatch.setitem(sys.modules, "torch", fake_torch("2.13.0+cpu", None))
    assert not _recording.is_available()
    monkeypatch.delitem(sys.modules, "torch")
    assert not _recording.is_available()
    with pytest.raises(vram.VramError, match="import it first"):
        _recording.start_tap(stacks=False)
    monkeypatch.setattr(torch._State, "adapter", None)
    _recording.stop_tap()  # nothing to stop
    assert adapter.calls == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("backend:cudaMallocAsync", "asks for the backend cudaMallocAsync"),
        ("expandable_segments:True", "sets expandable_segments: that is about PyTorch's own allocator"),
        (
            "max_split_size_mb:64,garbage_collection_threshold:0.8",
            "sets max_split_size_mb, garbage_collection_threshold",
        ),
    ],
)
def test_settings_without_effect_are_warned_about(
    adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch, settings: str, said: str
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", settings)
    with pytest.warns(UserWarning, match=f"PYTORCH_CUDA_ALLOC_CONF {said}"):
        done = vram.enable()
    assert len(done.notes) == 1
    assert adapter.calls == [0]


def test_no_caching_is_warned_about(adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    with pytest.warns(UserWarning, match="PYTORCH_NO_CUDA_MEMORY_CACHING is set"):
        vram.enable()
    assert adapter.calls == [0]


def test_registration_of_all_tensors_is_warned_about(adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "1")
    with pytest.warns(UserWarning, match=r"NCCL registers PyTorch's own segments only, not the pool's memory"):
        vram.enable()
    assert adapter.calls == [0]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20GiB", 20 << 30),
        ("512 MB", 512 << 20),
        ("1.5G", 3 << 29),
        ("4194304", 4 << 20),
        (4 << 20, 4 << 20),
        ("2tib", 2 << 40),
        (str((1 << 60) + 1), (1 << 60) + 1),
        ((1 << 63) - 1, (1 << 63) - 1),
        ("8388607.000000001T", 8388607000000001 * (1 << 40) // 10**9),
    ],
)
def test_sizes(text: "int | str", size: int) -> None:
    assert _sizes.parse_limit(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GiB", -5, "1PiB", "8388608T", 1 << 63])
def test_no_sizes(text: "int | str") -> None:
    with pytest.raises(ValueError, match="size"):
        _sizes.parse_limit(text)


@pytest.mark.parametrize("size", [1.5, None, b"1GiB"])
def test_a_size_is_a_text_or_an_integer(size: Any) -> None:
    with pytest.raises(TypeError, match="integer"):
        _sizes.parse_limit(size)


@pytest.mark.parametrize("text", ["20", 20, "0", 0, "1023KiB"])
def test_a_number_without_its_unit(text: "int | str") -> None:
    with pytest.raises(ValueError, match="bytes, and 1 MiB is the least; write the unit, as in 20GiB"):
        _sizes.parse_limit(text)


def test_the_library_that_is_missing_or_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAM_LIBRARY", str(tmp_path / "none.so"))
    _library.library.cache_clear()
    with pytest.raises(vram.VramError, match=r"none\.so: no such file \(VRAM_LIBRARY names it\)"):
        _library.library()
    (tmp_path / "none.so").write_text("")
    with pytest.raises(vram.VramError, match=r"none\.so: this is not vram's library"):
        _library.library()
