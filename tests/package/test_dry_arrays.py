"""Dry runs of programs that make tensors on the GPU of arrays, or of tensors of the CPU."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from vram.dry import DryRun, dry_run


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Iterator[DryRun]:
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace") as run:
        yield run


def on_gpu(tensor: Any) -> bool:
    return isinstance(tensor, FakeTensor) and tensor.device == torch.device("cuda", 0)


ARRAYS = {"large": np.ones((512, 1024), np.float32), "small": np.ones(3, np.float32), "scalar": np.float32(2)}
MADE: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda data: torch.tensor(data, device="cuda"),
    "as_tensor": lambda data: torch.as_tensor(data, device="cuda"),
    "as_tensor of a tensor": lambda data: torch.as_tensor(torch.as_tensor(data), device="cuda"),
    "asarray": lambda data: torch.asarray(data, device=torch.device("cuda")),
    "new_tensor": lambda data: torch.ones(1, device="cuda").new_tensor(data),
    "an index": lambda data: torch.tensor(data, device=0),
}


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("data", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_tensors_of_arrays_are_on_the_gpu_and_counted(make: Callable[[Any], Any], data: Any) -> None:
    before = torch.cuda.memory_allocated()
    made = make(data)
    assert on_gpu(made)
    assert (made.dtype, tuple(made.shape)) == (torch.float32, data.shape)
    assert torch.cuda.memory_allocated() - before == -(-data.nbytes // 512) * 512


OF_TENSORS: dict[str, Callable[[Any], Any]] = {
    "tensor": torch.tensor,
    "tensor, with a device": lambda data: torch.tensor(data, device="cuda"),
    "tensor, by name": lambda data: torch.tensor(data=data, device=0),
    "new_tensor": lambda data: torch.ones(1).new_tensor(data),
    "new_tensor, with a device": lambda data: torch.ones(1).new_tensor(data, device="cuda"),
    "as_tensor": torch.as_tensor,
    "as_tensor, with a device": lambda data: torch.as_tensor(data, device="cuda"),
    "asarray": torch.asarray,
    "asarray, with a copy": lambda data: torch.asarray(data, device="cuda", copy=True),
}


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("values", [1.0, None], ids=["known", "unknown"])
@pytest.mark.parametrize("name", OF_TENSORS)
def test_tensors_of_tensors_of_the_gpu_are_there_too(name: str, values: Any) -> None:
    """As programs make sure that what may be an array, a list or a tensor is a tensor on the GPU."""
    data = torch.rand(1024, device="cuda") if values is None else torch.full((1024,), values, device="cuda")
    before = torch.cuda.memory_allocated()
    made = OF_TENSORS[name](data)
    assert on_gpu(made)
    assert (made.dtype, made.shape) == (data.dtype, data.shape)
    is_copied = "copy" in name or not name.startswith("as")
    assert torch.cuda.memory_allocated() - before == (data.nbytes if is_copied else 0)
    assert OF_TENSORS[name](data.half()).dtype == (torch.float32 if name.startswith("new") else torch.float16)


@pytest.mark.usefixtures("run")
def test_gradients_of_tensors_of_tensors_of_the_gpu() -> None:
    data = torch.rand(8, device="cuda", requires_grad=True)
    assert torch.as_tensor(data, device="cuda") is data
    assert torch.as_tensor(data, dtype=torch.float16, device="cuda").grad_fn is not None
    assert not torch.tensor(data, device="cuda").requires_grad
    assert torch.tensor(data, device="cuda", requires_grad=True).is_leaf
    assert torch.asarray(data, device="cuda").requires_grad
    assert not torch.asarray(data, device="cuda", requires_grad=False).requires_grad
    assert torch.tensor(data, device="cpu").device.type == "cpu"
    with torch.device("cuda"):
        assert on_gpu(torch.tensor(data.detach()))
    with torch.device("cpu"):
        assert torch.tensor(data).device.type == "cpu"


@pytest.mark.usefixtures("run")
def test_the_default_device_counts_for_arrays() -> None:
    data = ARRAYS["large"]
    with torch.device("cuda"):
        assert on_gpu(torch.tensor(data))
        assert on_gpu(torch.as_tensor(data))
    assert not isinstance(torch.tensor(data), FakeTensor)
    assert torch.tensor(data, device="meta").device.type == "meta"
    assert torch.tensor(data, device="cuda", requires_grad=True).requires_grad
    assert torch.as_tensor(data, dtype=torch.float16, device="cuda").dtype == torch.float16


@pytest.mark.usefixtures("run")
def test_models_that_are_made_without_memory() -> None:
    """As libraries make a model before they load a file into it."""
    with torch.device("meta"):
        assert torch.get_default_device() == torch.device("meta")
        assert {
            made.device.type for made in (torch.tensor([1.0]), torch.as_tensor(ARRAYS["small"]), torch.ones(3))
        } == {"meta"}
        with torch.device("cuda"):
            assert on_gpu(torch.tensor([1.0]))
            assert torch.get_default_device() == torch.device("cuda", 0)
        assert torch.tensor([1.0], device="cpu").device.type == "cpu"


NUMBERED: dict[str, Callable[[], Any]] = {
    "zeros": lambda: torch.zeros(3, device=0),
    "randn": lambda: torch.randn(3, device=0, dtype=torch.float16),
    "arange": lambda: torch.arange(3, device=0),
    "zeros_like": lambda: torch.zeros_like(torch.zeros(3), device=0),
    "new_ones": lambda: torch.zeros(3).new_ones(3, device=0),
    "device": lambda: torch.ones(3, device=torch.device(0)),
    "a parameter": lambda: torch.nn.Linear(3, 3, device=0).weight.data,
    "a model": lambda: torch.nn.Linear(3, 3).to(0).weight.data,
    "a model of another type": lambda: torch.nn.Linear(3, 3).to(device=0, dtype=torch.float16).weight.data,
}


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("make", NUMBERED.values(), ids=NUMBERED)
def test_devices_are_named_by_their_numbers(make: Callable[[], Any]) -> None:
    assert on_gpu(make())


CUDA: Any = torch.cuda
TYPED: dict[str, Callable[[], Any]] = {
    "of numbers": lambda: CUDA.FloatTensor([1, 2, 3]),
    "of an array": lambda: CUDA.FloatTensor(np.ones((3, 1))),
    "of a size": lambda: CUDA.FloatTensor(3, 2).fill_(1.0),
    "of the size of another": lambda: CUDA.FloatTensor(torch.ones(3).size()),
    "empty": lambda: CUDA.FloatTensor(),
    "converted": lambda: torch.ones(3, dtype=torch.int64).type(CUDA.FloatTensor),
    "converted by name": lambda: torch.ones(3).type("torch.cuda.FloatTensor"),
    "of another of the GPU": lambda: CUDA.LongTensor([1]).float(),
    "a variable": lambda: torch.autograd.Variable(torch.ones(3).type(CUDA.FloatTensor), requires_grad=False),
}


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("make", TYPED.values(), ids=TYPED)
def test_types_of_tensors_on_the_gpu(make: Callable[[], Any]) -> None:
    made = make()
    assert on_gpu(made)
    assert isinstance(made, CUDA.FloatTensor)
    assert not isinstance(made, (CUDA.HalfTensor, torch.FloatTensor))
    assert made.type() == "torch.cuda.FloatTensor"
    assert made.type(torch.float16).dtype == torch.float16
    assert not isinstance(torch.ones(3), CUDA.FloatTensor)
    assert torch.ones(3).type() == "torch.FloatTensor"


@pytest.mark.usefixtures("run")
@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_a_default_type_on_the_gpu() -> None:
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    assert on_gpu(torch.ones(3))
    torch.set_default_tensor_type(torch.FloatTensor)
    assert not isinstance(torch.ones(3), FakeTensor)


@pytest.mark.usefixtures("run")
def test_the_class_of_devices_is_pytorchs() -> None:
    device = torch.device(0)
    assert isinstance(device, torch.device)
    assert not isinstance("cuda", torch.device)
    assert isinstance(device, torch.device | str)
    assert type(device) == torch.device  # noqa: E721
    assert {type(device): 1}[torch.device] == 1
    assert {pickle.loads(pickle.dumps(device)), copy.deepcopy(device), torch.device(type="cuda", index=0)} == {device}
    assert torch.device("cpu").type == "cpu"
    with torch.device(0):
        assert on_gpu(torch.ones(3))


@pytest.mark.usefixtures("run")
def test_the_file_of_each_function_can_be_asked_for() -> None:
    """torch._dynamo asks when it is imported, such as by the first DistributedDataParallel."""
    for function in (torch.tensor, torch.as_tensor, torch.asarray, torch.sparse_coo_tensor):
        assert Path(inspect.getfile(inspect.unwrap(function))).name == "_factories.py"


def made_of_numbers(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor([1.0]) + torch.as_tensor([2.0])


@pytest.mark.usefixtures("run")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_torchscript_compiles_them() -> None:
    """PyTorch has such functions in the modules that the first DistributedDataParallel imports."""
    assert "aten::as_tensor" in str(torch.jit.script(made_of_numbers).graph)


def test_the_default_device_still_counts_after_a_dry_run(tmp_path: Path) -> None:
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace"):
        pass
    with torch.device("meta"):
        assert torch.tensor([1.0]).device.type == "meta"
