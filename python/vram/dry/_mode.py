"""What an operator does in a dry run: computed on the CPU as always, or pretended, with its memory on the tape.

    program ──▶ autograd, autocast ──▶ DryMode ──▶ all tensors real, on the CPU: computed
                                          └──────▶ one is fake: PyTorch's FakeTensorMode gives shapes, strides and dtypes;
                                                   Storages and Kernels give the memory

Tensors on the CPU keep their values, so that indices, lengths, schedules and data loaders work as always. Only large ones that
the program makes from nothing (weights, synthetic batches) are fake, so that no model is materialised.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Hashable, Iterator
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from vram._texts import tr
from vram.dry import _accelerator, _bounds, _convolutions, _ctc, _cudnn, _engine, _known, _normalizations
from vram.dry._choices import WHOLE, Choices
from vram.dry._clock import Clock
from vram.dry._fakes import FAKE, Fakes
from vram.dry._kernels import Allocation, Call, Kernels
from vram.dry._layouts import is_dense
from vram.dry._lines import users_line, warn
from vram.dry._sized import OF_LIBRARIES, SIZED
from vram.dry._storages import Storages
from vram.dry._tape import Tape
from vram.dry._tensors import is_on_gpu, leaves
from vram.dry._values import DryRunError, Unknown, Values
from vram.dry._views import WrittenViews

# Tensors on the CPU that are made from nothing are fake above this size.
_MAX_REAL_BYTES = 256 << 10
# Whole numbers in order or at random are data, and no weights: positions, labels, tokens, edges of graphs.
_MAX_REAL_NUMBERS_BYTES = 64 << 20
_NUMBERS = frozenset({"aten::arange", "aten::randint", "aten::randperm"})
_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
_HIDDEN = torch.device("meta")  # where gradients are while autograd's engine asks; see _device_for_autograd()
_ATEN = torch.ops.aten
# Results that are allocated in another order than they are returned.
_BIRTHS = {
    _ATEN.native_dropout.default: (1, 0),  # the mask first
    _ATEN._ctc_loss.default: (1, 0),  # the probabilities first
    _ATEN._embedding_bag.default: (2, 1, 0, 3),  # sizes of bags, then which bag each index is in
    _ATEN._embedding_bag_forward_only.default: (2, 1, 0, 3),
    _ATEN._unique.default: (1, 0),
    _ATEN._unique2.default: (1, 0, 2),
    _ATEN.unique_consecutive.default: (1, 0, 2),
    _ATEN.unique_dim.default: (1, 2, 0),
    _ATEN.unique_dim_consecutive.default: (1, 2, 0),
    _ATEN._thnn_fused_gru_cell.default: (1, 0),  # what backward needs first
    _ATEN._thnn_fused_lstm_cell.default: (2, 0, 1),
    _ATEN._scaled_dot_product_cudnn_attention.default: (2, 3, 0, 1),  # of tensors only: seed and offset first
}
# How many of their first results are on the GPU: seed and offset are not, outside of CUDA graphs.
_ON_GPU = {_ATEN._scaled_dot_product_efficient_attention.default: 2}
# The first result is contiguous on a GPU; PyTorch's fake kernels keep the strides of an operand.
_CONTIGUOUS = {
    _ATEN.native_layer_norm_backward.default,
    _ATEN.native_group_norm_backward.default,
    _ATEN.mse_loss_backward.default,
    _ATEN.smooth_l1_loss_backward.default,
    _ATEN.huber_loss_backward.default,
}
# Operators that are other ones on a GPU where PyTorch's C++ code calls them; see _is_in_place().
_IN_PLACE = {
    _ATEN.add.Tensor: _ATEN.add_.Tensor,
    _ATEN.index_add.default: _ATEN.index_add_.default,
    _ATEN.index_put.default: _ATEN.index_put_.default,
    _ATEN.scatter.src: _ATEN.scatter_.src,
    _ATEN.scatter_add.default: _ATEN.scatter_add_.default,
    _ATEN.sub.Tensor: _ATEN.sub_.Tensor,
    _ATEN.mul.Tensor: _ATEN.mul_.Tensor,
}
_HANDLED = {**SIZED, **_cudnn.HANDLED, **_ctc.HANDLED}
_RANGES = frozenset({_ATEN.arange.default, _ATEN.arange.start, _ATEN.arange.start_step})
_CREATE = frozenset({"aten::lift_fresh", "aten::lift_fresh_copy", "aten::from_file"})
_HAS_ACCELERATOR = torch._C._accelerator_getAccelerator if hasattr(torch._C, "_accelerator_getAccelerator") else None


class Streams(threading.local):
    """The stream that the calling thread uses; 0 is the default one."""

    current = 0


class _Inside:
    """What the kernels of one call allocate besides its results."""

    def __init__(self, mode: DryMode, device: int, call: Call, wanted: tuple[Allocation, ...]) -> None:
        self._mode, self._device, self._call = mode, device, call
        self._wanted = list(wanted)
        self._held: list[tuple[int, int]] = []  # address and size, until the call ends
        self._until_last: list[tuple[int, int]] = []  # the same, until the last result

    def allocate_before(self, number: int, *, is_last: bool) -> None:
        """Allocate what comes before the result of this number."""
        if is_last:
            self._free(self._until_last)
            self._until_last.clear()
        now = [each for each in self._wanted if each.before_output == number]
        if now:
            self._wanted = [each for each in self._wanted if each.before_output != number]
            self._allocate(now)

    def allocate_rest(self) -> None:
        wanted, self._wanted = self._wanted, []
        self._allocate(wanted)

    def _allocate(self, wanted: list[Allocation]) -> None:
        passing: list[tuple[int, int]] = []
        short: list[tuple[int, int]] = []
        for each in wanted:
            block = self._mode.allocate_inside(self._device, self._call, each)
            if each.freed == "after_next":
                passing.append(block)
                continue
            if each.freed == "at_once":
                self._free([block])
            elif each.freed != "with_context":
                {"before_output": short, "before_last": self._until_last}.get(each.freed, self._held).append(block)
            self._free(passing)
            passing.clear()
        self._free(short)

    def free(self) -> None:
        self._free([*self._until_last, *self._held])

    def _free(self, held: list[tuple[int, int]]) -> None:
        for address, size_bytes in held:
            if size_bytes:
                self._mode.tape.free(self._device, address, size_bytes, self._call.stream)


def _births(func: Any, args: Any) -> tuple[int, ...]:
    if func is _ATEN.native_batch_norm_backward.default and args[7] and _normalizations.by_rows(args[1]):
        return 1, 2, 0
    if func is _ATEN.convolution_backward.default:
        _, image, weight, _, stride, _, dilation, transposed, _, groups, mask = args
        if mask[0] and mask[1] and _convolutions.is_native(image, weight, stride, dilation, transposed, groups):
            return (1, 0, 2)[: sum(mask)]
    return _BIRTHS.get(func, ())


def _first_contiguous(result: Any) -> Any:
    if isinstance(result, tuple):
        return (_first_contiguous(result[0]), *result[1:])
    is_strided = isinstance(result, torch.Tensor) and is_on_gpu(result) and not result.is_contiguous()
    return torch.empty_like(result, memory_format=torch.contiguous_format) if is_strided else result


def _signature(call: Call) -> tuple[Hashable, ...]:
    """Return what is equal in calls for which PyTorch looks up the same plan of cuDNN's."""

    def of(value: Any) -> Hashable:
        if isinstance(value, torch.Tensor):
            return value.dtype, tuple(value.shape), value.stride()
        return tuple(map(of, value)) if isinstance(value, (list, tuple)) else value

    return call.name, *map(of, call.args), *map(of, call.kwargs.values())


# size: the order in which operators are looked at is one decision
class DryMode(TorchDispatchMode):
    """The mode of one dry run. It sees operators below autograd and autocast, from every thread that inherits it."""

    leaves = staticmethod(leaves)

    def __init__(self, tape: Tape, kernels: Kernels, values: Values, choices: Choices, clock: Clock) -> None:
        super().__init__()
        self.choices, self.clock = choices, clock
        self.fakes = Fakes(allow_fallback_kernels=False, allow_non_fake_inputs=True)
        self.storages = Storages(tape)
        self.streams = Streams()
        self._views = WrittenViews()
        self.unknown_operators: dict[str, str] = {}  # name: the line that used it first
        self.unknown_bytes = 0  # the most that one call of them has as operands and results
        self.estimated_operators: dict[str, str] = {}
        self.estimated_bytes = 0  # the most of one of them that it cannot do without
        self.values = values
        self.tape, self._kernels = tape, kernels
        self._kept: dict[tuple[int, int, str], tuple[int, int]] = {}  # memory that stays with the context
        self._got: dict[Hashable, int] = {}  # of choices between sizes: the number of the one that was had last
        self._counts = True
        self._uses_cudnn = False
        self.has_convolutions = False
        self.has_nested = False  # there was a nested tensor
        self.has_wrappers = False  # there was one of a subclass that says itself where it is
        self._was_read = False  # a value that is not known, by the operator before
        self._was_asked = False  # where a tensor is, since the operator before: autograd's engine asks before it adds, and formulas do not
        self._seen_owners: list[tuple[int, int]] | None = None  # a list while calibrating
        self._owners_of_one = (0, 0)
        self._lacks_accelerator = _HAS_ACCELERATOR is not None and _HAS_ACCELERATOR() is None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.fakes.has_ended:
            if torch._C._get_dispatch_mode(FAKE) is self.fakes:
                torch._C._unset_dispatch_mode(FAKE)  # PyTorch's C++ code, and torch.load(), ask for it
            return func(*args, **(kwargs or {}))
        with self.tape.alone():
            return self._dispatch(func, types, args, kwargs or {})

    def end(self) -> None:
        """Compute as without a dry run from now on, in threads that have entered this mode and still run."""
        self.fakes.has_ended = True

    def _dispatch(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is torch.ops.prim.device.default:
            return self._device_for_autograd(args[0])
        was_read, self._was_read = self._was_read, False
        was_asked, self._was_asked = self._was_asked, False
        if was_read and func in _RANGES:  # of a size that PyTorch's own code has just read
            raise self.values.deciding(func.name())
        if any(
            not issubclass(kind, FakeTensor) and kind is not torch.Tensor and kind is not torch.nn.Parameter
            for kind in types
        ):
            self.has_nested = self.has_nested or NestedTensor in types
            self.has_wrappers = True
            return NotImplemented  # DTensor and others: their parts come here
        if self.has_nested and _is_composite(
            func
        ):  # nested tensors call them on their parts below autograd, where PyTorch decomposes them
            parts = self._decomposed(func, args, kwargs)
            if parts is not NotImplemented:
                return parts
        tensors = [*leaves(args), *leaves(tuple(kwargs.values()))]
        self._views.see(func, tensors)
        if kwargs.get("device") == _HIDDEN and self._device_is_hidden and _engine.is_caller():
            kwargs = {**kwargs, "device": next((t.device for t in tensors if is_on_gpu(t)), torch.device("cuda"))}
        if kwargs.get("pin_memory"):
            # This machine may have no pinned memory, and needs none. Native code writes into such a tensor, so it is real.
            return self.compute(func, args, {**kwargs, "pin_memory": False})
        if not any(isinstance(tensor, FakeTensor) for tensor in tensors):
            if (
                func._schema.name == "aten::to"
            ):  # in inference mode, or of a part of a nested tensor; its device may have no name
                return self._decomposed(func, args, kwargs)
            return self._from_real(func, tensors, args, kwargs)
        if func is _ATEN._to_copy.default and self._is_own_answer(args[0], kwargs):
            return args[0]
        if func is _ATEN.add.Tensor and was_asked and self._accumulates(args, kwargs):
            return self.pretend(_ATEN.add_.Tensor, args, kwargs)
        if func in _IN_PLACE and self._is_in_place(func, args):
            return self.pretend(_ATEN.view.default, (self.pretend(_IN_PLACE[func], args, kwargs), args[0].shape), {})
        if func is _ATEN._local_scalar_dense.default:
            value = self.read_item(args[0], "item()")
            if isinstance(value, Unknown) and value.largest is not None:
                return int(value)  # PyTorch's own code uses it, such as for a size
            self._was_read = isinstance(value, Unknown)
            return value
        if func._schema.is_mutable and self._writes_to_real(func, args, kwargs):
            return args[0]
        if torch.is_inference_mode_enabled():
            parts = self._decomposed(func, args, kwargs)
            if parts is not NotImplemented:
                return parts
        handle = _HANDLED.get(func)
        return self.pretend(func, args, kwargs) if handle is None else handle(self, self.values, func, args, kwargs)

    def _decomposed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """In inference mode, operators arrive that PyTorch otherwise decomposes above."""
        choose = self.choices.of.get(func)
        if choose is None and func._schema.name.removeprefix("aten::") in WHOLE:
            return NotImplemented
        with self:
            return func.decompose(*args, **kwargs) if choose is None else choose(*args, **kwargs)

    # ------------------------------------------------------------------------------------------ real tensors

    def _from_real(self, func: Any, tensors: list[Any], args: Any, kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cuda":
            _refuse_sparse(func, tensors)
            return self.pretend(func, args, kwargs)
        if tensors or func.name() in _CREATE:
            return self.compute(func, args, kwargs)
        made = self.fake(func, args, kwargs)  # from nothing
        sizes = [out.untyped_storage().nbytes() for out in leaves(made)]
        most = _MAX_REAL_NUMBERS_BYTES if func._schema.name in _NUMBERS else _MAX_REAL_BYTES
        return made if sizes and min(sizes) > most else self.compute(func, args, kwargs)

    @staticmethod
    def compute(func: Any, args: Any, kwargs: Any) -> Any:
        mode = torch._C._unset_dispatch_mode(FAKE)
        try:
            return func(*args, **kwargs)
        finally:
            if mode is not None:
                torch._C._set_dispatch_mode(mode)

    def _writes_to_real(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Write known values into a real tensor. A write of unknown ones does not happen: what it holds is then out of date."""
        written = args[0] if args else None
        is_real = isinstance(written, torch.Tensor) and not isinstance(written, FakeTensor)
        if is_real and func._schema.arguments[0].is_write:
            if _known.computed(func, args, kwargs) is not None:
                return True
            warn(
                tr(
                    "{} writes values of the GPU, which a dry run does not compute, to a tensor on the CPU, "
                    "which keeps its old values"
                ).format(func.name())
            )
            return True
        return False

    # ------------------------------------------------------------------------------------------ fake tensors

    def fake(self, func: Any, args: Any, kwargs: Any) -> Any:
        if any(map(_is_of_plain_subclass, (*leaves(args), *leaves(tuple(kwargs.values()))))):
            args, kwargs = pytree.tree_map(_as_plain, (args, kwargs))
        try:
            return func(*args, **kwargs)
        except (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException):
            if [str(each.type) for each in func._schema.returns] == ["bool"]:  # equal(), allclose()
                known = None if self.values.has_assumption else _known.computed(func, args, kwargs)
                return (
                    known
                    if known is not None
                    else self.values.read(func.name(), is_floating=False, is_bool=True, of=args)
                )
            if func.name() in OF_LIBRARIES:
                return OF_LIBRARIES[func.name()](self.values, func, args)
            raise self.values.all(func.name(), of=args) from None
        except ValueError as error:
            if func not in _VIEWS:
                raise
            raise RuntimeError(
                str(error)
            ) from None  # as PyTorch's own kernels, so that programs can call reshape() then
        except (fake_tensor.UnsupportedOperatorException, NotImplementedError) as error:
            if func.name() in OF_LIBRARIES:
                return OF_LIBRARIES[func.name()](self.values, func, args)
            if func._schema.is_mutable and not func._schema.returns:
                return None  # it writes into its arguments, so there is no shape to be known, as in the fused SGD
            raise DryRunError(
                tr(
                    "{}: {} has no fake kernel, so its result's shape is unknown; register one with "
                    "torch.library.register_fake('{}'), or leave the operator out of the dry run ({})"
                ).format(users_line(), func.name(), func.name(), error)
            ) from error

    def pretend(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = self.fake(func, args, kwargs)
        if func in _CONTIGUOUS:
            result = _first_contiguous(result)
        self.account(func, args, kwargs, tuple(leaves(result)))
        _bounds.follow(func, args, kwargs, result)
        if func is _ATEN._to_copy.default and not is_on_gpu(result):
            values = _known.computed(func, args, kwargs)
            return result if values is None else values
        return result

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """What runs in this ``with`` block is no part of the program."""
        before, self._counts = self._counts, False
        try:
            yield
        finally:
            self._counts = before

    def account(self, func: Any, args: Any, kwargs: Any, outputs: tuple[Any, ...]) -> None:
        """Put a call on the tape: its results, what its kernels allocate in addition, and its time."""
        if not self._counts:
            return
        on_gpu = [tensor for tensor in outputs[: _ON_GPU.get(func)] if is_on_gpu(tensor)]
        inputs = [*leaves(args), *leaves(tuple(kwargs.values()))]
        if not on_gpu and not any(map(is_on_gpu, inputs)):
            return
        _refuse_sparse(func, on_gpu)
        stream = self.streams.current
        device = next((t.fake_device.index for t in (*on_gpu, *inputs) if is_on_gpu(t)), 0)
        name = str(func)
        if not self._kernels.is_known(name):
            if name not in self.unknown_operators:
                self.unknown_operators[name] = users_line()
            operands = {id(tensor): tensor.nbytes for tensor in (*inputs, *on_gpu) if is_on_gpu(tensor)}
            self.unknown_bytes = max(self.unknown_bytes, sum(operands.values()))
        is_convolution = name.startswith("aten.convolution")
        if is_convolution:
            self._see_settings()
        self._uses_cudnn = self._uses_cudnn or "cudnn" in name or "convolution" in name
        # On a GPU, backward runs on a thread of autograd's.
        thread = 0 if torch._C._current_graph_task_id() == -1 else 1
        call = Call(name, args, kwargs, outputs, stream, thread)
        allocations = self._kernels.allocations(call)
        is_estimated = name.startswith("aten._cudnn_rnn") or (
            is_convolution and not self._kernels.convolutions.are_exact  # anymore: cuDNN may have ended with this call
        )
        if is_estimated:
            self.estimated_operators.setdefault(name, users_line())
            needed = sum(
                each.size_bytes if each.needed_bytes is None else each.needed_bytes[-1] for each in allocations
            )
            self.estimated_bytes = max(self.estimated_bytes, needed)
        inside = _Inside(self, device, call, allocations)
        order = _births(func, args)
        try:
            for number, tensor in enumerate([on_gpu[i] for i in order] if len(order) == len(on_gpu) else on_gpu):
                inside.allocate_before(number, is_last=number == len(on_gpu) - 1)
                storage = tensor.untyped_storage()
                if self.storages.knows(storage):
                    self.storages.update(storage)
                else:
                    self.storages.add(storage, tensor.fake_device.index, stream)
            inside.allocate_rest()
            self.clock.run(func, args, kwargs, inputs, outputs)
            self.tape.state_time(self.clock.now_ns)
        finally:
            inside.free()

    def _see_settings(self) -> None:
        """Note the settings of convolutions, and warn once of those with which cuDNN takes algorithms that no rule knows."""
        self._kernels.convolutions.allow_tf32 = torch.backends.cudnn.allow_tf32
        if not self.has_convolutions:
            self.has_convolutions = True
            _warn_of_settings(is_exact=self._kernels.convolutions.are_exact)

    @property
    def outside_bytes(self) -> int:
        """Bytes that the program takes on the first device besides PyTorch's allocator, by the libraries that it has used."""
        handles = {name for device, _, name in self._kept if device == 0 and name.startswith("cuBLAS workspace")}
        return self._kernels.outside_bytes(len(handles), self._uses_cudnn)

    def allocate_inside(self, device: int, call: Call, inside: Allocation) -> tuple[int, int]:
        """Return the address and the bytes of what a kernel allocates: less than it wanted if it can do with less and has to."""
        if inside.freed != "with_context":
            sizes = (inside.size_bytes, *(inside.needed_bytes or ()))
            return self._allocate_one_of(sizes, device, call, inside.purpose)
        stream = call.stream
        key = (device, stream, inside.purpose)
        address, size_bytes = self._kept.get(key, (0, 0))
        if inside.size_bytes > size_bytes:
            if size_bytes:
                del self._kept[key]
                self.tape.free(device, address, size_bytes, stream)
            address = self.tape.allocate(device, inside.size_bytes, stream)
            self.tape.name(device, address, inside.size_bytes, inside.purpose, "workspace")
            self._kept[key] = (address, inside.size_bytes)
        return self._kept[key]

    def _allocate_one_of(self, sizes: tuple[int, ...], device: int, call: Call, purpose: str) -> tuple[int, int]:
        """Return the address and the bytes of the first of these sizes that can be had; an equal call begins with it."""
        choice = (device, purpose, sizes, *_signature(call)) if len(sizes) > 1 else None
        got = self._got.get(choice, 0)
        *first, last = (got, *range(len(sizes))) if got else range(len(sizes))

        def allocated(number: int) -> tuple[int, int]:
            size_bytes, smaller = sizes[number], sizes[number + 1 :]
            address = self.tape.allocate(device, size_bytes, call.stream, smaller, choice) if size_bytes else 0
            self._got[choice] = number
            return address, size_bytes

        for number in first:
            with contextlib.suppress(torch.OutOfMemoryError):
                return allocated(number)
        return allocated(last)

    def read_item(self, tensor: Any, operator: str, *, is_number: bool = False) -> Any:
        """Return what item() answers; `is_number` says that the program itself called it, and may add a truth value to a count."""
        value = None if self.values.has_assumption else _known.value_of(tensor)
        if value is not None:
            with _disable_current_modes():  # in one, a view of a real tensor is fake
                return value.reshape(()).tolist()
        is_bool = tensor.dtype == torch.bool
        largest = _bounds.truth(is_number=is_number) if is_bool else _bounds.largest_of(tensor)
        return self.values.read(operator, tensor.is_floating_point(), is_bool, largest, of=tensor)

    # ------------------------------------------------------------------------------------------ autograd's engine

    def _device_for_autograd(self, tensor: Any) -> torch.device:
        """Answer C++ code that asks where a tensor is.

        Without an accelerator in PyTorch, its engine cannot add gradients on the GPU up, because it looks for the accelerator's
        streams. It asks outside all Python code, and gets an answer that needs no streams.
        """
        self._was_asked = True
        if self._device_is_hidden and _engine.is_caller():
            return _HIDDEN
        device: torch.device = tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device
        return device

    @property
    def _device_is_hidden(self) -> bool:
        return self._lacks_accelerator and not _accelerator.engine.finds_accelerator

    def _is_own_answer(self, tensor: Any, kwargs: Any) -> bool:
        """Whether the engine moves a gradient to where it is, because of the answer above."""
        return (
            self._device_is_hidden
            and kwargs.get("device") == tensor.device
            and kwargs.get("dtype") in (None, tensor.dtype)
            and _engine.is_caller()
        )

    def _is_in_place(self, func: Any, args: Any) -> bool:
        """Whether PyTorch's C++ code writes into a tensor that it made before, unless it is of a subclass, as fake ones are.

        This is how it adds masks to the scores of attention and biases to products, and puts gradients into zeros.
        """
        if func is _ATEN.add.Tensor:
            return self.choices.in_place.is_active
        if func in (_ATEN.sub.Tensor, _ATEN.mul.Tensor):
            return _engine.writes_loss_gradient(*args)
        if func is _ATEN.scatter_add.default and _engine.is_of("ScatterReduce"):
            return False  # it counts equal elements, from a tensor that has to stay
        is_put = func is not _ATEN.index_put.default or (len(args) > 3 and args[3])
        return is_put and _engine.is_running()

    def _accumulates(self, args: Any, kwargs: Any) -> bool:
        """Whether autograd's engine adds a gradient to one that arrived before.

        Without any mode, it adds in place if nothing else has the earlier one; while a mode is active it never does.
        """
        if kwargs or torch.is_grad_enabled() or not _engine.is_running():
            return False
        before, new = args
        if self._seen_owners is not None:
            self._seen_owners.append(_owners(before))
        return (
            isinstance(before, FakeTensor)
            and isinstance(new, FakeTensor)
            and before is not new
            and before.shape == new.shape
            and before.dtype == new.dtype
            and _owners(before) == self._owners_of_one
            and is_dense(before)
        )

    def calibrate(self) -> None:
        """Learn what PyTorch counts for a gradient that only the engine has, which depends on its version."""
        self._seen_owners = []
        with self.uncounted():
            start = torch.ones(2, device="cuda", requires_grad=True)
            (start.exp() + start.sin()).backward(torch.ones(2, device="cuda"))
        self._owners_of_one = self._seen_owners[0]
        self._seen_owners = None


def _warn_of_settings(*, is_exact: bool) -> None:
    """Warn of settings with which cuDNN takes other algorithms than those that it answers about, or that were measured for the rules."""
    if torch.backends.cudnn.benchmark:
        warn(
            tr(
                "torch.backends.cudnn.benchmark is on: cuDNN then tries algorithms whose workspaces can "
                "need more memory than the program; a dry run predicts the memory without it"
            )
        )
    elif not torch.backends.cudnn.allow_tf32 and not is_exact:
        warn(
            tr(
                "torch.backends.cudnn.allow_tf32 is off: convolutions in float32 then use other "
                "algorithms; a dry run predicts the workspaces of those with TF32"
            )
        )


@functools.cache
def _is_composite(func: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def _is_of_plain_subclass(value: Any) -> bool:
    """Whether a tensor of the CPU is of a class that adds Python code only, such as data of an image: PyTorch's fake mode refuses it."""
    return isinstance(value, torch.Tensor) and type(value) not in (torch.Tensor, torch.nn.Parameter, FakeTensor)


def _as_plain(value: Any) -> Any:
    if not _is_of_plain_subclass(value):
        return value
    with _disable_current_modes(), torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(torch.Tensor)


def _refuse_sparse(func: Any, tensors: list[Any]) -> None:
    if any(tensor.layout is not torch.strided for tensor in tensors):
        raise DryRunError(
            tr(
                "{}: {} makes a sparse tensor on the GPU, whose memory a dry run does not predict; leave it out of the dry run"
            ).format(users_line(), func.name())
        )


def _owners(tensor: Any) -> tuple[int, int]:
    return tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
