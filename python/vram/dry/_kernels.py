"""What eager GPU kernels allocate besides the outputs of their operators: rules read from data files.

A file of `kernels/` serves a range of PyTorch versions. Each of its rules names operators, the names of their positional arguments,
and a formula in bytes. Formulas are arithmetic over the arguments of a call, constants of the GPU generation, and a few functions:

    numel(t) itemsize(t) nbytes(t) rank(t) size(t, d) dtype(t) output(i) count(list) total(list) largest(list)
    is_contiguous(t) is_channels_last(t) copy_bytes(t): 0 if contiguous
    sequence_copy_bytes(t): 0 if contiguous once heads and sequence are swapped
    steps_copy_bytes(t, batch_first): 0 if contiguous once its first dimension is the time
    broadcast_numel(list): elements of the tensors' common shape
    matrix(t, rows, columns): a contiguous one with the type of t
    reduction_buffer(t, dims, processors, processor_threads, element_bytes) reduction_counters(…): see _reductions.py
    convolution_workspace(direction, …) convolution_fallbacks(direction, …) convolution_copy(t, input, weight): see _convolutions.py
    recurrent_workspace(…) recurrent_gates(mode): see _recurrent.py
    transform_bytes(t, dims, result, number): see _transforms.py
    attention_parts_bytes(query, key, dropout, processors): see _attention.py
    radix_sort_bytes(count, bits, key_bytes) segment_sort_bytes(count, segments) unique_bytes(count) scan_bytes(count, element_bytes) index_bits(t, indices)
    permutation_key_bytes(n) permutation_scratch_bytes(n) selecting_blocks(t, dim, processors) index_copy_bytes(indices, i) values_copy_bytes(t, indices, values, count) given(indices, i): see _sorts.py
    by_rows(t) statistics_parts(t) statistics_counters(t) cudnn_norm_forward(t) cudnn_norm_backward(t): see _normalizations.py
    product_copy_bytes(t): 0 if cuBLAS can read the matrices as they are stored
    ceil_div(a, b) round_up(a, b) min(…) max(…)
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import CodeType
from typing import Any

from vram.dry import _attention, _convolutions, _layouts, _normalizations, _recurrent, _reductions, _sorts, _transforms
from vram.dry._arithmetic import ceil_div, round_up
from vram.dry._convolutions import Workspaces, is_contiguous, is_last
from vram.dry._plans import Plans

_FOLDER = Path(__file__).parent / "kernels"
_FREED = ("at_once", "after_next", "before_output", "before_last", "after_output", "with_context")
_KEYS = {
    "ops",
    "arguments",
    "purpose",
    "bytes",
    "needed",
    "when",
    "freed",
    "before_output",
    "per_thread",
    "is_all",
    "measured",
    "source",
}


@dataclass(frozen=True)
class Call:
    """One operator call as the dispatcher sees it, below autograd and autocast.

    `args`, `kwargs` and `outputs` hold tensors whose shape, stride, dtype and device can be read. `thread` is 0 for the thread of the
    program and another number for autograd's, which has cuBLAS handles of its own.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Any, ...]
    stream: int = 0
    thread: int = 0


@dataclass(frozen=True)
class Allocation:
    """An allocation that a call makes and does not return.

    `before_output` is the number of results that exist before it; None: all of them. `freed` is "at_once" (before anything else is
    allocated), "after_next" (as soon as the next one is there that is none of these, and freed itself if that is at once), "before_output" (before
    the next result), "before_last" (before the last result), "after_output" (before the call ends) or "with_context": allocated by the first call for
    each device, stream and purpose, and kept until the process ends. `needed_bytes` are the smaller sizes that the call requests in turn if it
    cannot have more, down to the least with which it runs; None: it runs with nothing less.
    """

    size_bytes: int
    purpose: str
    freed: str
    before_output: int | None
    needed_bytes: tuple[int, ...] | None = None


class InvalidRule(ValueError):
    """A data file breaks the schema of the rules."""


@dataclass(frozen=True)
class Rule:
    """One entry of a data file; see the module's documentation for the formulas `size`, `needed` and `condition`."""

    ops: tuple[str, ...]
    arguments: tuple[str, ...]
    purpose: str
    size: CodeType
    needed: CodeType | None
    condition: CodeType | None
    freed: str
    before_output: int | None
    per_thread: bool
    is_all: bool  # with the other rules of these operators; if not, they are operators without rules all the same
    measured: bool


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _broadcast_numel(tensors: Any) -> int:
    """Returns the elements of the common shape of tensors, of which some may be None."""
    shape: list[int] = []
    for tensor in tensors:
        if tensor is not None:
            sizes = [int(length) for length in tensor.shape]
            shape = [1] * (len(sizes) - len(shape)) + shape
            sizes = [1] * (len(shape) - len(sizes)) + sizes
            shape = [b if a == 1 else a for a, b in zip(shape, sizes)]
    return math.prod(shape)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numel": _layouts.numel,
    "itemsize": _layouts.itemsize,
    "nbytes": _layouts.nbytes,
    "dtype": _dtype,
    "rank": lambda tensor: len(tensor.shape),
    "size": lambda tensor, dim: int(tensor.shape[dim]),
    "count": len,
    "total": lambda tensors: sum(map(_layouts.nbytes, tensors)),
    "largest": lambda tensors: max(map(_layouts.nbytes, tensors), default=0),
    "is_contiguous": is_contiguous,
    "is_channels_last": is_last,
    "sequence_copy_bytes": _layouts.sequence_copy_bytes,
    "steps_copy_bytes": _layouts.steps_copy_bytes,
    "broadcast_numel": _broadcast_numel,
    "matrix": lambda tensor, rows, columns: _layouts.Matrix((rows, columns), (columns, 1), tensor.dtype),
    "copy_bytes": _layouts.copy_bytes,
    "convolution_copy": _convolutions.copy_bytes,
    "reduction_buffer": lambda *arguments: _reductions.scratch(*arguments)[0],
    "reduction_counters": lambda *arguments: _reductions.scratch(*arguments)[1],
    "recurrent_workspace": _recurrent.workspace_bytes,
    "transform_bytes": _transforms.transform_bytes,
    "attention_parts_bytes": _attention.parts_bytes,
    "recurrent_gates": _recurrent.GATES.__getitem__,
    "radix_sort_bytes": _sorts.radix_sort_bytes,
    "segment_sort_bytes": _sorts.segment_sort_bytes,
    "scan_bytes": _sorts.scan_bytes,
    "unique_bytes": _sorts.unique_bytes,
    "permutation_key_bytes": _sorts.permutation_key_bytes,
    "permutation_scratch_bytes": _sorts.permutation_scratch_bytes,
    "selecting_blocks": _sorts.selecting_blocks,
    "index_bits": _sorts.index_bits,
    "index_copy_bytes": _sorts.index_copy_bytes,
    "values_copy_bytes": _sorts.values_copy_bytes,
    "given": _sorts.given,
    "by_rows": _normalizations.by_rows,
    "statistics_parts": _normalizations.parts,
    "statistics_counters": _normalizations.counters_bytes,
    "cudnn_norm_forward": _normalizations.cudnn_forward_bytes,
    "cudnn_norm_backward": _normalizations.cudnn_backward_bytes,
    "product_copy_bytes": _layouts.product_copy_bytes,
    "ceil_div": ceil_div,
    "round_up": round_up,
    "min": min,
    "max": max,
}
_OF_CONVOLUTIONS = ("convolution_workspace", "convolution_fallbacks")
_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Constant, ast.Subscript,
    ast.Load, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub, ast.Not, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn, ast.Tuple,
)  # fmt: skip


def _formula(text: str, names: set[str]) -> CodeType:
    """Compiles a formula; only the nodes and names that formulas may use are accepted."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise InvalidRule(f"formula {text!r} is not an expression: {error.msg}") from None
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise InvalidRule(
                f"formula {text!r} uses {type(node).__name__}; expected arithmetic, comparisons and calls"
            )
        if isinstance(node, ast.Name) and node.id not in names:
            raise InvalidRule(f"formula {text!r} uses the name {node.id!r}; expected one of {', '.join(sorted(names))}")
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in {*_FUNCTIONS, "output", *_OF_CONVOLUTIONS}
        ):
            raise InvalidRule(f"formula {text!r} calls something that is not a function of formulas")
    return compile(tree, "<formula>", "eval")


def _rule(entry: Mapping[str, Any], constants: set[str]) -> Rule:
    unknown, missing = (
        entry.keys() - _KEYS,
        {"ops", "arguments", "purpose", "bytes", "freed", "measured", "source"} - entry.keys(),
    )
    if unknown or missing or entry["freed"] not in _FREED:
        raise InvalidRule(
            f"rule {entry.get('purpose')!r} of {entry.get('ops')}: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}, "
            f"freed {entry.get('freed')!r}; expected one of {', '.join(_FREED)}"
        )
    arguments = tuple(entry["arguments"].split())
    taken = {*arguments} & {*_FUNCTIONS, "output", "outputs"}
    if taken:
        raise InvalidRule(
            f"rule {entry['purpose']!r} of {entry['ops']}: arguments have the names of functions: {', '.join(sorted(taken))}"
        )
    names = {*arguments, *constants, *_FUNCTIONS, "output", "outputs", *_OF_CONVOLUTIONS}
    return Rule(
        ops=tuple(entry["ops"]),
        arguments=arguments,
        purpose=entry["purpose"],
        size=_formula(entry["bytes"], names),
        needed=_formula(entry["needed"], names) if "needed" in entry else None,
        condition=_formula(entry["when"], names) if "when" in entry else None,
        freed=entry["freed"],
        before_output=entry.get("before_output"),
        per_thread=entry.get("per_thread", False),
        is_all=entry.get("is_all", True),
        measured=entry["measured"],
    )


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text)
    if not found:
        raise ValueError(f"PyTorch version {text!r} is not understood; expected one like '2.11.0+cu130'")
    return int(found[1]), int(found[2])


def _data(torch_version: str) -> dict[str, Any]:
    """Returns the newest file that is not newer than this PyTorch; the oldest one if all are."""
    wanted = _version(torch_version)
    files = sorted(_FOLDER.glob("pytorch-*.json"), key=lambda path: _version(path.stem.partition("-")[2]))
    older = [path for path in files if _version(path.stem.partition("-")[2]) <= wanted]
    found: dict[str, Any] = json.loads((older or files[:1])[-1].read_text())
    return found


def _workspace_of(config: str) -> int:
    """Returns the bytes of a CUBLAS_WORKSPACE_CONFIG, as ":4096:2:16:8": pairs of KiB and counts."""
    numbers = [int(number) for number in re.findall(r"\d+", config)]
    return sum(size * count * 1024 for size, count in zip(numbers[::2], numbers[1::2]))


@dataclass(frozen=True)
class Kernels:
    """The rules for one generation of GPUs and one version of PyTorch."""

    constants: Mapping[str, int]
    rules: Mapping[str, tuple[Rule, ...]]
    known: tuple[str, ...]
    convolutions: Workspaces
    _seen: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def load(cls, gpu: str, torch_version: str, settings: Mapping[str, Any], plans: Plans | None = None) -> Kernels:
        """Read the rules for a GPU.

        Args:
            gpu: its compute capability, as "sm_90". A generation without constants of its own gets those of most others.
            torch_version: as in `torch.__version__`.
            settings: of the program, by name. `CUBLAS_WORKSPACE_CONFIG` sets the size of cuBLAS's workspaces; any whole number replaces
                the constant of its name.
            plans: cuDNN, if it answers for this GPU and this PyTorch.
        """
        data = _data(torch_version)
        constants = {name: values.get(gpu, values[""]) for name, values in data["constants"].items()}
        if settings.get("CUBLAS_WORKSPACE_CONFIG"):
            constants["cublas_workspace"] = _workspace_of(settings["CUBLAS_WORKSPACE_CONFIG"])
        constants |= {name: int(settings[name]) for name in constants.keys() & settings.keys()}
        rules: dict[str, tuple[Rule, ...]] = {}
        for entry in data["rules"]:
            rule = _rule(entry, {*constants})
            for op in rule.ops:
                rules[op] = (*rules.get(op, ()), rule)
        return cls(constants, rules, tuple(data["known"]), Workspaces(data["convolutions"], plans))

    def outside_bytes(self, cublas_handles: int, uses_cudnn: bool) -> int:
        """Return the bytes of the device that a process takes besides PyTorch's allocator: the CUDA context, kernels and libraries.

        Args:
            cublas_handles: Threads that multiply matrices; autograd's is another one than the program's.
            uses_cudnn: Whether it calls cuDNN.
        """
        constants = self.constants
        libraries = cublas_handles * constants["cublas_handle"] + uses_cudnn * constants["cudnn_modules"]
        return constants["context"] + constants["modules"] + libraries

    def allocations(self, call: Call) -> tuple[Allocation, ...]:
        """Return what the call allocates besides its outputs, in order; nothing for an operator without rules."""
        return tuple(self._allocations(call))

    def _allocations(self, call: Call) -> Iterator[Allocation]:
        for rule in self.rules.get(call.name, ()):
            # A trailing argument that the call left out has its default, which is None for all that formulas ask about.
            values: dict[str, Any] = {
                **dict.fromkeys(rule.arguments),
                **dict(zip(rule.arguments, call.args)),
                **call.kwargs,
            }
            # Functions come last: `dtype` is also the name of an argument of sums.
            names = {
                **self.constants,
                **values,
                **_FUNCTIONS,
                "output": call.outputs.__getitem__,
                "outputs": call.outputs,
                "convolution_workspace": self.convolutions.bytes_of,
                "convolution_fallbacks": self.convolutions.fallbacks_of,
            }
            names["__builtins__"] = {}
            if rule.condition is not None and not eval(rule.condition, names):
                continue
            size = int(eval(rule.size, names))
            if size > 0:
                thread = f", thread {call.thread}" if rule.per_thread and call.thread else ""
                smaller = () if rule.needed is None else tuple(each for each in eval(rule.needed, names) if each < size)
                yield Allocation(size, rule.purpose + thread, rule.freed, rule.before_output, smaller or None)

    def is_known(self, name: str) -> bool:
        """Return whether the rules cover the operator: it has some, or it is known to allocate nothing but its outputs."""
        if name not in self._seen:
            rules = self.rules.get(name, ())
            is_covered = bool(rules) and all(rule.is_all for rule in rules)
            listed = is_covered or any(fnmatchcase(name, pattern) for pattern in self.known)
            self._seen[name] = listed or _is_plain(name)
        return self._seen[name]


def _is_plain(name: str) -> bool:
    """Whether PyTorch declares the operator to be pointwise or a view: such kernels write to their outputs and need nothing else.

    An operator that writes to its first argument is so if the one is that returns a new tensor; PyTorch does not declare all of them.
    """
    import torch

    def is_declared(operator: str) -> bool:
        found: Any = torch.ops
        try:
            for part in operator.split("."):
                found = getattr(found, part)
            return bool(found.is_view) or torch.Tag.pointwise in found.tags
        except (AttributeError, RuntimeError):
            return False

    return is_declared(name) or ("_." in name and is_declared(name.replace("_.", ".")))
