"""Operators whose results have other sizes than PyTorch's fake kernels say.

Most depend on values: the size is the largest possible one unless the user states another, and these functions make the result. The others keep more memory than their shape needs.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from vram._texts import tr
from vram.dry import _bounds, _known, _synchronized
from vram.dry._lines import warn

_ATEN = torch.ops.aten
Sized = Callable[[Any, Any, Any, Any, Any], Any]
_SUM = 2  # the number of the reduction in PyTorch's C++ code


def _made(mode: Any, func: Any, args: Any, kwargs: Any, *outputs: Any) -> Any:
    mode.account(func, args, kwargs, outputs)
    _bounds.follow(func, args, kwargs, outputs)
    return outputs[0] if len(outputs) == 1 else outputs


def _empty(like: Any, *shape: int, dtype: Any = torch.int64) -> Any:
    return torch.empty(shape, dtype=dtype, device=like.device)


def _size(values: Any, func: Any, args: Any, kwargs: Any, largest: int | None, dim: int = 0) -> int:
    """Return the size of a result that depends on values: as the user states, by known values, or the largest."""
    known = None if values.has_assumption else _known.computed(func, args, kwargs)
    if known is None:
        found: int = values.size(func.name(), largest, of=args)
        return found
    return int((known[0] if isinstance(known, tuple) else known).shape[dim])


def _nonzero(mode: Any, values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    count = _size(values, func, args, kwargs, tensor.numel())
    return _made(mode, func, args, kwargs, _empty(tensor, count, tensor.dim()))


def _masked_select(mode: Any, values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    tensor, mask = args[:2]
    largest = torch.broadcast_shapes(tensor.shape, mask.shape).numel()
    count = _size(values, func, args, kwargs, largest)
    return _made(mode, func, args, kwargs, _empty(tensor, count, dtype=tensor.dtype))


def _is_mask(index: Any) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _index(mode: Any, values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """A mask stands for the positions where it is true, of which CUDA's kernel makes a tensor first."""
    tensor, indices = args[:2]
    if not any(_is_mask(index) for index in indices):
        return mode.pretend(func, args, kwargs)
    positions: list[Any] = []
    for index in indices:
        if _is_mask(index) and not isinstance(index, FakeTensor):  # on the CPU, with values
            positions.extend(mode.compute(torch.nonzero, (index,), {"as_tuple": True}))
        elif _is_mask(index):
            found = _nonzero(mode, values, _ATEN.nonzero.default, (index,), {})
            positions.extend(found.select(1, dimension) for dimension in range(index.dim()))
        else:
            positions.append(index)
    return mode.pretend(func, (tensor, positions), kwargs)


def _unique(mode: Any, values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """CUDA's kernels make as many elements as there are first, of which the results keep the memory, and none of what is not asked for."""
    named = {**dict(zip((each.name for each in func._schema.arguments), args)), **kwargs}
    tensor, dim = args[0], named.get("dim")
    if dim is None:
        length = tensor.numel()
        is_counted = tensor.dtype == torch.bool and func is not _ATEN.unique_consecutive.default  # and not sorted
        room = 2 if is_counted else length
        count = _size(values, func, args, kwargs, min(room, length, _distinct(func, tensor)))
        output = _first(_empty(tensor, room, dtype=tensor.dtype), count)
    else:
        length = room = tensor.size(dim)
        count = _size(values, func, args, kwargs, length, dim)
        output = _empty(
            tensor,
            *(count if each == dim % tensor.dim() else size for each, size in enumerate(tensor.shape)),
            dtype=tensor.dtype,
        )
    inverse = _empty(tensor, *(tensor.shape if dim is None else (length,)) if named.get("return_inverse") else (0,))
    if func is _ATEN._unique.default:
        return _made(mode, func, args, kwargs, output, inverse)
    counts = _first(_empty(tensor, room), count) if named.get("return_counts") else _empty(tensor, 0)
    if func is _ATEN.unique_consecutive.default and dim is not None:
        func = _ATEN.unique_dim_consecutive.default
        args, kwargs = (tensor, dim, bool(named.get("return_inverse")), bool(named.get("return_counts"))), {}
    return _made(mode, func, args, kwargs, output, inverse, counts)


def _distinct(func: Any, tensor: Any) -> int:
    """How many different numbers there can be; equal ones that are not next to each other are several."""
    found = None if func is _ATEN.unique_consecutive.default else _bounds.largest_of(tensor)
    return int(tensor.numel()) if found is None or found.is_signed else found.number + 1


def _first(tensor: Any, count: int) -> Any:
    """The first elements, with the memory of all."""
    return tensor.as_strided((count,), (1,))


def _bincount(mode: Any, values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """A program that states the least number of bins has no larger values, as a rule: it counts pairs of labels and predictions."""
    weights = args[1] if len(args) > 1 else kwargs.get("weights")
    bins = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    if not bins or values.has_assumption or _known.computed(func, args, kwargs) is not None:
        bins = max(bins, _size(values, func, args, kwargs, None))
    dtype = torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    return _made(mode, func, args, kwargs, _empty(args[0], bins, dtype=dtype))


def _repeat_interleave(mode: Any, values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    size = kwargs.get("output_size")
    if size is None:
        size = _size(values, func, args, kwargs, None)
    return _made(mode, func, args, kwargs, _empty(args[0], size))


def _parts(tensor: Any, lengths: list[int]) -> Iterator[Any]:
    """Views of the steps that equally many sequences have, for lengths in falling order, as PyTorch cuts them out."""
    before = 0
    for number in range(len(lengths) - 1, -1, -1):
        if lengths[number] > before:
            yield tensor[before : lengths[number], : number + 1]
            before = lengths[number]


def _pack(mode: Any, values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """The lengths of sequences are on the CPU, where they have values, unless they come from the GPU."""
    if isinstance(args[1], FakeTensor):
        raise values.all(func.name(), of=args)
    tensor, lengths = args[0], mode.compute(torch.Tensor.tolist, args[1:2], {})
    steps = [sum(length > step for length in lengths) for step in range(max(lengths))]
    parts = []  # live until they are joined
    for part in _parts(tensor.transpose(0, 1) if args[2] else tensor, lengths):
        if not part.is_contiguous():
            parts.append(torch.empty(part.shape, dtype=part.dtype, device=part.device))
            mode.account(_ATEN.clone.default, (part,), {}, (parts[-1],))
    data = torch.empty((sum(lengths), *tensor.shape[2:]), dtype=tensor.dtype, device=tensor.device)
    mode.account(func, args, kwargs, (data,))
    parts.reverse()  # lists end from their ends
    return data, mode.compute(torch.tensor, (steps,), {})


def _loss(mode: Any, _values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """The reduced loss keeps the memory of the losses of all elements, which PyTorch resizes to one element."""
    place = 3 if func is _ATEN.binary_cross_entropy.default else 2  # of the argument `reduction`
    if (args[place] if len(args) > place else kwargs.get("reduction")) == 0:
        return mode.pretend(func, args, kwargs)
    elements = torch.broadcast_shapes(args[0].shape, args[1].shape).numel()
    reduced = mode.fake(func, args, kwargs)
    return _made(mode, func, args, kwargs, reduced.new_empty(elements).as_strided((), ()))


def _loss_backward(mode: Any, _values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """PyTorch's fake kernels divide by the number of elements, of which a batch may have none."""
    if args[1].numel() == 0:
        args = (*args[:3], _SUM, *args[4:])
    return mode.pretend(func, args, kwargs)


def _grouped(mode: Any, _values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """PyTorch's fake kernel takes bfloat16 only; on a GPU, other types are multiplied group by group."""
    a, b, *rest = args
    offsets = rest[0] if rest else kwargs.get("offs")
    if a.dtype == torch.bfloat16:
        return mode.pretend(func, args, kwargs)
    groups = () if a.dim() + b.dim() == 5 else ((a.size(0) if a.dim() == 3 else offsets.size(0)),)
    return _made(mode, func, args, kwargs, a.new_empty((*groups, a.size(-2), b.size(-1))))


def _left_aligned(_mode: Any, _values: Any, _func: Any, _args: Any, _kwargs: Any) -> bool:
    """TransformerEncoder asks whether it can leave padding out, and computes it if the answer is no."""
    warn(
        tr(
            "a dry run does not leave the padding of sequences out, as TransformerEncoder does in eval(): it counts memory for all tokens of the batch"
        )
    )
    return False


SIZED: dict[Any, Sized] = {
    _ATEN._nested_tensor_from_mask_left_aligned.default: _left_aligned,
    _ATEN._grouped_mm.default: _grouped,
    _ATEN.mse_loss.default: _loss,
    _ATEN.smooth_l1_loss.default: _loss,
    _ATEN.binary_cross_entropy.default: _loss,
    _ATEN.mse_loss_backward.default: _loss_backward,
    _ATEN.smooth_l1_loss_backward.default: _loss_backward,
    _ATEN.huber_loss_backward.default: _loss_backward,
    _ATEN._pack_padded_sequence.default: _pack,
    _ATEN.nonzero.default: _nonzero,
    _ATEN.masked_select.default: _masked_select,
    _ATEN.index.Tensor: _index,
    _ATEN._unique.default: _unique,
    _ATEN._unique2.default: _unique,
    _ATEN.unique_dim.default: _unique,
    _ATEN.unique_dim_consecutive.default: _unique,
    _ATEN.unique_consecutive.default: _unique,
    _ATEN.bincount.default: _bincount,
    _ATEN.repeat_interleave.Tensor: _repeat_interleave,
}


def _suppressed(values: Any, func: Any, args: Any) -> Any:
    """Non-maximum suppression keeps at most all boxes."""
    return _empty(args[0], values.size(func.name(), args[0].shape[0], of=args))


def _transduced(_values: Any, _func: Any, args: Any) -> Any:
    """The loss of an RNN transducer, and its gradient."""
    logits, _targets, _logit_lengths, target_lengths = args[:4]
    return logits.new_empty(target_lengths.shape[0]), torch.empty_like(logits)


def _factored(_values: Any, _func: Any, args: Any) -> Any:
    """A QR decomposition, whose matrices are stored by columns, and the factors of its reflections."""
    *batch, rows, columns = args[0].shape
    return args[0].new_empty((*batch, columns, rows)).mT, args[0].new_empty((*batch, min(rows, columns)))


# The results of operators, mostly of other libraries, that have no fake kernel, or one without a size.
OF_LIBRARIES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "aten::geqrf": _factored,
    "torchvision::nms": _suppressed,
    "torchaudio::rnnt_loss_forward": _transduced,
    **_synchronized.OPERATORS,
}
