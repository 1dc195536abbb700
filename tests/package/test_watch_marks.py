"""The interface to the recorder: scopes that end by themselves, PyTorch's threads, and the library's functions."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import marks
import pytest
import torch
from documented import examples_of, examples_of_class, failures
from torch import nn

import vram
from vram import _marks, _prototypes
from vram.watching import _phases
from vram.watching._phases import Engine

LIBRARY = r"""
#include <stdio.h>
#include <stddef.h>
char said[256];
int vram_is_recording(void) { return 7; }
void vram_scope_begin(const char* name) { snprintf(said, sizeof said, "begin %s", name); }
void vram_scope_end(void) { snprintf(said, sizeof said, "end"); }
void vram_name(int device, const void* address, size_t bytes, const char* name, const char* category) {
  snprintf(said, sizeof said, "%d %p %zu %s %s", device, address, bytes, name, category);
}
"""


@pytest.fixture(params=marks.WAYS)
def recorder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[marks.Recorder]:
    recorder = marks.put_in_place(monkeypatch, request.param)
    yield recorder
    _marks.end_trail()
    assert not any(recorder.open.values())


def test_the_library_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "said.c"
    source.write_text(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", tmp_path / "said.so"], check=True, timeout=120)
    loaded = ctypes.CDLL(str(tmp_path / "said.so"))
    for function in _marks.Functions._fields:
        typed = getattr(loaded, f"vram_{function}")
        typed.restype, typed.argtypes = _prototypes.PROTOTYPES[f"vram_{function}"]
    monkeypatch.setattr(_marks, "library", lambda: loaded)
    monkeypatch.setattr(_marks, "functions", _marks.functions.__wrapped__)
    said = (ctypes.c_char * 256).in_dll(loaded, "said")
    _marks.scope_begin("größe")
    assert said.value.decode() == "begin größe"
    _marks.scope_end()
    assert said.value == b"end"
    _marks.name_memory(3, 0x7F0000000000, 5 << 32, "head.weight", "parameter")
    assert said.value == b"3 0x7f0000000000 21474836480 head.weight parameter"
    assert _marks.is_recording() is True


def test_a_scope_has_a_name() -> None:
    with pytest.raises(TypeError, match=r'write vram.scope\("forward"\)'):

        @vram.scope  # type: ignore[arg-type]
        def forward() -> None: ...


def test_a_trail_ends_where_another_scope_begins_or_ends(recorder: marks.Recorder) -> None:
    _marks.scope_begin("outer")
    _marks.trail("forward", "loss")
    assert recorder.path() == "outer/forward/loss"
    _marks.scope_begin("inner")
    assert recorder.path() == "outer/inner"
    _marks.scope_end()
    _marks.trail("forward", "loss")
    _marks.scope_end()
    assert recorder.path() == ""


@pytest.mark.parametrize("is_named", [False, True])
def test_what_a_step_is_given_to_compute_the_loss_is_no_part_of_it(recorder: marks.Recorder, is_named: bool) -> None:
    """Lightning computes everything there."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)

    def closure() -> torch.Tensor:
        loss: torch.Tensor = model(torch.ones(2, 4)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def failing() -> torch.Tensor:
        raise OSError("no data")

    with vram.watch(model, optimizer):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        apart = [scope for scope in recorder.take() if scope != "optimizer"]
        assert optimizer.step(closure=closure) if is_named else optimizer.step(closure)
        assert recorder.take() == ["optimizer", *apart, "optimizer"]
        assert [name for category, name in recorder.named if category == "gradient"][-1] == "1.bias"
        with pytest.raises(OSError, match="no data"):
            optimizer.step(failing)
        optimizer.step()
        assert recorder.take() == ["optimizer"] * 3


def test_a_trail_is_its_threads(recorder: marks.Recorder) -> None:
    _marks.trail("loss")
    other = threading.Thread(target=_marks.end_trail)
    other.start()
    other.join(timeout=60)
    assert not other.is_alive()
    assert recorder.path() == "loss"


def test_a_thread_that_only_works_for_autograd_is_left_without_scopes(recorder: marks.Recorder) -> None:
    """As those of GPUs: they see gradients arrive, and did not begin the backward pass."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with vram.watch(model):
        loss = model(torch.ones(1, 2)).sum()
        _marks.end_trail()
        recorder.take()
        torch.autograd.graph._engine_run_backward(
            (loss,), (torch.ones(()),), False, False, (), True, accumulate_grad=True
        )
        assert recorder.path() == ""
        of_loss = ["backward/loss"] if Engine.native is not None else []  # which Python code learns from the call alone
        assert recorder.take() == ["backward", *of_loss, "backward/1", "backward/0"]
        assert _phases.place.backward is None


def test_the_examples(recorder: marks.Recorder) -> None:
    assert recorder.is_on
    assert failures([*examples_of("vram.watching._watch"), *examples_of_class(vram, "Watch")]) == 0
    _marks.end_trail()
