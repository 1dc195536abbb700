"""Values on the GPU that follow from the program alone: numbers of the host, what is calculated with them, and checks for NaN.

Programs read such values to decide: the number of batches, whether a mask is needed, whether a loss is finite. A small storage on the GPU whose
contents are known has a twin on the CPU, with which its operators are computed, too; views share it, and a write of something unknown ends it.
Numbers that a dry run does not compute count as finite: isnan() and its relatives are known whatever the size.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from vram.dry._tensors import is_on_gpu, leaves
from vram.dry._values import Unknown

_BROADCAST = getattr(torch.ops.c10d.broadcast_, "default", None) if torch.distributed.is_available() else None
_MAX_BYTES = 1 << 20  # of a storage whose contents are kept, and computed with
# Attributes of storages: an UntypedStorage; what all elements are; the type of elements and their _bounds.Largest.
_TWIN, _UNIFORM, BOUND = "_vram_twin", "_vram_uniform", "_vram_largest"
# Results without a value, although no argument is unknown.
_UNSTATED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
_FILLED: dict[str, Callable[[Any], Any]] = {
    "zeros_like": lambda _args: 0,
    "ones_like": lambda _args: 1,
    "full_like": lambda args: args[1],
    "new_zeros": lambda _args: 0,
    "new_ones": lambda _args: 1,
    "new_full": lambda args: args[2],
}
_OVERWRITES = frozenset({"copy_", "fill_", "zero_"})
_ZERO_BY_ONE = frozenset({"bitwise_and", "logical_and", "mul"})  # zero if one argument is, whatever the other
_TRUE_BY_ONE = frozenset({"bitwise_or", "logical_or"})
# What every element of a result is, by what every element of so many arguments is.
_OF_UNIFORM: dict[tuple[str, int], Callable[..., bool]] = {
    **{(name, 1): bool for name in ("any", "all", "_is_any_true", "_is_all_true")},
    **{(name, 1): bool for name in ("amax", "amin", "max", "min", "clone", "_to_copy")},
    **{(name, 1): operator.not_ for name in ("logical_not", "bitwise_not")},
    **{(name, 2): operator.or_ for name in ("logical_or", "bitwise_or")},
    **{(name, 2): operator.and_ for name in ("logical_and", "bitwise_and", "mul")},
}


def _twin(tensor: Any) -> Any:
    """Return the tensor of the CPU with the values of a fake one; None: they are not known."""
    storage = tensor.untyped_storage()
    twin = getattr(storage, _TWIN, None)
    if twin is None or twin.nbytes() != storage.nbytes():
        return None
    return torch.empty(0, dtype=tensor.dtype).set_(twin, tensor.storage_offset(), tensor.shape, tensor.stride())


def value_of(tensor: Any) -> Any:
    """Return a tensor of the CPU with a copy of the values of a fake one; None: they are not known."""
    with _disable_current_modes():
        twin = _twin(tensor)
        return None if twin is None else twin.clone()


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(part, change) for part in value)
    return change(value)


def _has_unknown_numbers(values: Any) -> bool:
    return any(isinstance(each, Unknown) for each in values)


class _NotKnown(Exception):
    pass


def _of_cpu(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        twin = _twin(value)
        if twin is None:
            raise _NotKnown
        return twin
    return torch.device("cpu") if isinstance(value, torch.device) else value


class _Operator:
    """What the schema of an operator says; kept, because PyTorch makes it again for each question."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name = schema.name.removeprefix("aten::")
        self.is_view = any(each.alias_info is not None for each in schema.returns)
        self.writes = [(number, each.name) for number, each in enumerate(schema.arguments) if each.is_write]
        is_of_scaler = self.name.startswith("_amp_")  # whose steps are never left out
        self.has_values = (
            self.name not in _UNSTATED and not is_of_scaler and torch.Tag.nondeterministic_seeded not in func.tags
        )

    @staticmethod
    @functools.cache
    def of(func: Any) -> _Operator:
        return _Operator(func)

    def written(self, args: Any, kwargs: Any) -> Iterator[Any]:
        for number, name in self.writes:
            yield from leaves(args[number] if number < len(args) else kwargs.get(name))


def forget(tensors: Any) -> None:
    """What these tensors contain is not known anymore."""
    for tensor in leaves(tensors):
        if isinstance(tensor, FakeTensor):
            for name in (_TWIN, _UNIFORM, BOUND):
                tensor.untyped_storage().__dict__.pop(name, None)


def follow(func: Any, args: Any, kwargs: Any, result: Any) -> None:
    """Note what is known of the results of an operator, and of what it has written to."""
    if func is _BROADCAST and args[2] == 0:  # of this rank, which is the first: it sends what it has
        return
    if func.namespace != "aten":  # other operators may write without saying so, and collectives depend on other ranks
        forget((*args, *kwargs.values()))
        return
    called = _Operator.of(func)
    if called.writes:
        _follow_write(func, called, args, kwargs)
        return
    if called.is_view:  # it shares the twin
        return
    outputs = [each for each in leaves(result) if is_on_gpu(each)]
    uniform = _uniform_result(called, args) if len(outputs) == 1 else None
    if uniform is not None:
        fill(outputs[0], uniform)
        return
    if not outputs or any(each.untyped_storage().nbytes() > _MAX_BYTES for each in outputs):
        return
    found = computed(func, args, kwargs)
    values = [] if found is None else list(leaves(found))
    if len(values) == len(outputs):
        for output, value in zip(outputs, values):
            _keep(output, value)


def _follow_write(func: Any, called: _Operator, args: Any, kwargs: Any) -> None:
    written = [each for each in called.written(args, kwargs) if isinstance(each, FakeTensor)]
    if not written or called.name == "set_":
        return
    if called.name in _OVERWRITES:
        _prepare(written[0])
    are_known = all(_TWIN in each.untyped_storage().__dict__ for each in written)
    if not are_known or computed(func, args, kwargs) is None:
        forget(written)
    else:
        for each in written:
            each.untyped_storage().__dict__.pop(_UNIFORM, None)


def _prepare(tensor: Any) -> None:
    """Give a storage that is overwritten as a whole a twin, if it has none."""
    storage = tensor.untyped_storage()
    if _TWIN in storage.__dict__ or tensor.nbytes != storage.nbytes() or storage.nbytes() > _MAX_BYTES:
        return
    if tensor.fake_device.type == "cuda" and not tensor.storage_offset():
        with _disable_current_modes():
            setattr(storage, _TWIN, torch.empty(storage.nbytes(), dtype=torch.uint8).untyped_storage())


def _is_known(tensor: Any) -> bool:
    """Whether the values of an operator's argument are known; those of parameters never are, or small models would be trained for real."""
    if tensor.requires_grad:
        return False
    return not isinstance(tensor, FakeTensor) or _TWIN in tensor.untyped_storage().__dict__


def computed(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator makes of known values, on the CPU; None: something is not known."""
    values = (*args, *kwargs.values())
    if not all(map(_is_known, leaves(values))):  # before anything is computed, since most operators end here
        return None
    if not _Operator.of(func).has_values or _has_unknown_numbers(values):
        return None
    try:
        with _disable_current_modes():
            on_cpu = {name: _mapped(each, _of_cpu) for name, each in kwargs.items()}
            result = func(*_mapped(args, _of_cpu), **on_cpu)
            return () if result is None else result  # one that only writes
    except (_NotKnown, RuntimeError, NotImplementedError):  # there may be no kernel for the CPU
        return None


def _keep(output: Any, values: Any) -> None:
    """Make these values the contents of a new tensor. Its storage may be larger, or have other strides than on the CPU, as of nonzero()."""
    storage = output.untyped_storage()
    if (values.dtype, values.shape) != (output.dtype, output.shape):
        return
    with _disable_current_modes():
        twin = torch.empty(storage.nbytes(), dtype=torch.uint8).untyped_storage()
        torch.empty(0, dtype=output.dtype).set_(twin, output.storage_offset(), output.shape, output.stride()).copy_(
            values
        )
    setattr(storage, _TWIN, twin)


# ------------------------------------------------------------------------------------------------ finite numbers


def _uniform(value: Any) -> Any:
    return getattr(value.untyped_storage(), _UNIFORM, None) if isinstance(value, FakeTensor) else None


def _uniform_result(called: _Operator, args: Any) -> Any:
    """Return what every element of the result is; None: not known, or not the same."""
    if called.name in _FILLED:
        number = _FILLED[called.name](args)
        return None if isinstance(number, (Unknown, torch.Tensor)) else number
    first: Any = args[0] if args else None
    if not is_on_gpu(first):
        return None
    found = _as_finite(called.name, first, args[1] if len(args) > 1 else None)
    if found is not None and _counts_as_finite(first):
        return found
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    if called.name in _ZERO_BY_ONE and any(_is_all(each, False) for each in tensors):
        return 0
    if called.name in _TRUE_BY_ONE and any(_is_all(each, True) for each in tensors):
        return True
    operands = [_uniform(each) for each in tensors]
    rule = _OF_UNIFORM.get((called.name, len(operands)))
    return None if rule is None or None in operands else rule(*operands)


def _is_all(tensor: Any, value: bool) -> bool:
    """Whether a tensor is known to be zero everywhere, or True everywhere."""
    with _disable_current_modes():
        values = _twin(tensor) if isinstance(tensor, FakeTensor) else tensor
        if values is None:
            return False
        return bool(values.dtype == torch.bool and values.all()) if value else not bool(values.any())


def _counts_as_finite(tensor: Any) -> bool:
    with _disable_current_modes():
        twin = _twin(tensor)
        return twin is None or bool(twin.isfinite().all())


def _as_finite(name: str, tensor: Any, other: Any) -> bool | None:
    """Return the answer of a check for NaN or infinity; None: the operator is something else."""
    if name in ("isnan", "isinf"):
        return False
    if name in ("eq", "ne") and (other is tensor or (type(other) is float and other == math.inf)):  # as isfinite() asks
        return (name == "eq") == (other is tensor)
    return None


def fill(output: Any, value: Any) -> None:
    """Note what every element of a new tensor is."""
    storage = output.untyped_storage()
    if isinstance(value, bool):
        setattr(storage, _UNIFORM, value)
    if storage.nbytes() <= _MAX_BYTES:
        with _disable_current_modes():
            filled = torch.empty(storage.nbytes() // output.itemsize, dtype=output.dtype).fill_(value)
            setattr(storage, _TWIN, filled.untyped_storage())
