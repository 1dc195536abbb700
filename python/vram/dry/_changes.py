"""Changes to a program while it runs: what its author would have edited, put into PyTorch instead.

Each change begins where an author would write it. Autocast lasts from the first call of a model to backward; layers get their
adapters when the optimizer takes their parameters; blocks are checkpointed when their model is first called.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import fnmatch
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from vram._arguments import require_integers, require_one_of
from vram._error import VramError
from vram._texts import tr
from vram.dry import _adapters, _optimizers
from vram.dry._patches import Patches
from vram.dry._run import TracedRun

_AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16, "full-bf16": None}
_WHOLE = {"fp32": torch.float32, "full-bf16": torch.bfloat16}  # of parameters, too
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Changes:
    """What is changed in a program; None: as the program has it.

    Attributes:
        precision: "fp32"; "bf16" or "fp16": autocast; "full-bf16": parameters, gradients and optimizer states, too. Or by patterns of modules'
            names: "fp32", "bf16" or "fp16", in which these modules run.
        optimizer: "sgd", "momentum", "adamw", "adafactor" or "adamw-8bit", with its default options.
        checkpointing: Whether each block is recomputed in backward.
        lora_rank: The rank of the adapters that are trained instead of the parameters.
        cudnn_benchmark: Whether cuDNN chooses its algorithms by measuring them.
        gradient_as_bucket_view: Whether gradients are parts of the buckets of DistributedDataParallel, which reduces them.
    """

    precision: str | Mapping[str, str] | None = None
    optimizer: str | None = None
    checkpointing: bool | None = None
    lora_rank: int | None = None
    cudnn_benchmark: bool | None = None
    gradient_as_bucket_view: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.precision, Mapping):
            for pattern, name in self.precision.items():
                require_one_of(("fp32", "bf16", "fp16"), **{tr("precision of '{}'").format(pattern): name})
        else:
            require_one_of((None, *_AUTOCAST), precision=self.precision)
        require_one_of((None, *_optimizers.CLASSES), optimizer=self.optimizer)
        require_one_of((None, True), checkpointing=self.checkpointing)
        require_integers(1, lora_rank=self.lora_rank)

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """What a dry run reads when it begins."""
        before = torch.backends.cudnn.benchmark
        if self.cudnn_benchmark is not None:
            torch.backends.cudnn.benchmark = self.cudnn_benchmark
        try:
            yield
        finally:
            torch.backends.cudnn.benchmark = before

    @contextlib.contextmanager
    def inside(self, run: TracedRun) -> Iterator[None]:
        """Change the program that runs in the ``with`` block.

        Raises:
            VramError: The program has nothing that the change applies to.
        """
        if self == Changes():
            yield
            return
        with contextlib.ExitStack() as stack:
            patches = Patches()
            stack.callback(patches.undo)
            calls = _Calls()
            calls.put_in_place(patches)
            _refuse_unknown_benchmark(self.cudnn_benchmark, run)
            wrapped = _bucket_views(self.gradient_as_bucket_view, patches)
            unmatched = set[str]()
            if isinstance(self.precision, Mapping):
                unmatched = _precision_of_modules(self.precision, patches, calls)
            elif self.precision is not None:
                stack.enter_context(_precision(self.precision, patches, calls))
            replaced = _optimizers.replace(self.optimizer, patches) if self.optimizer is not None else None
            adapted = _adapters.adapt(self.lora_rank, patches) if self.lora_rank is not None else None
            checkpointed = _checkpoint(calls) if self.checkpointing else None
            yield
            if unmatched:
                raise VramError(
                    tr("no module of the program has a name like '{}', whose precision could be changed").format(
                        min(unmatched)
                    )
                )
            if replaced is not None and not replaced:
                raise VramError(tr("the program made no torch.optim.Optimizer, so the optimizer cannot be changed"))
            if self.gradient_as_bucket_view is not None and not wrapped:
                raise VramError(
                    tr("the program makes no DistributedDataParallel, whose gradients could be parts of its buckets")
                )
            if adapted is not None and not adapted:
                raise VramError(
                    tr(
                        "the program trains no torch.nn.Linear or Conv1D that could get adapters (in front of the last one)"
                    )
                )
            if checkpointed is not None and not checkpointed:
                raise VramError(
                    tr(
                        "no blocks to checkpoint: no nn.ModuleList or nn.Sequential of the model has two "
                        "elements of one class with layers in them"
                    )
                )


def _refuse_unknown_benchmark(wanted: bool | None, run: TracedRun) -> None:
    if wanted is not None and not run.knows_setting("cudnn_benchmark"):
        raise VramError(
            tr(
                "no rule says what the algorithms allocate that cuDNN chooses by measuring "
                "(torch.backends.cudnn.benchmark), so this change cannot be predicted"
            )
        )


def _bucket_views(wanted: bool | None, patches: Patches) -> list[Any]:
    """Let DistributedDataParallel have this setting. Returns what it wraps, later."""
    parallel = nn.parallel.DistributedDataParallel
    init, wrapped = parallel.__init__, list[Any]()

    @functools.wraps(init)
    def with_views(model: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        wrapped.append(module)
        init(model, module, *args, **{**kwargs, "gradient_as_bucket_view": wanted})

    if wanted is not None:
        patches.put(parallel, "__init__", with_views)
    return wrapped


class _Calls:
    """The outermost calls of modules, and the end of forward."""

    def __init__(self) -> None:
        self.before: list[Any] = []  # functions of module and arguments that return arguments
        self.after_forward: list[Any] = []
        self._depth = 0

    def put_in_place(self, patches: Patches) -> None:
        call, backward = nn.Module.__call__, torch.autograd.backward

        @functools.wraps(call)
        def called(module: Any, *args: Any, **kwargs: Any) -> Any:
            if (
                self._depth == 0 and torch._C._current_graph_task_id() == -1
            ):  # in backward, checkpoints call modules again
                for each in self.before:
                    args, kwargs = each(module, args, kwargs)
            self._depth += 1
            try:
                return call(module, *args, **kwargs)
            finally:
                self._depth -= 1

        @functools.wraps(backward)
        def passed_back(*args: Any, **kwargs: Any) -> Any:
            self._end_forward()
            return backward(*args, **kwargs)

        patches.put(nn.Module, "__call__", called)
        patches.put(torch.autograd, "backward", passed_back)

    def _end_forward(self) -> None:
        for each in self.after_forward:
            each()


# ------------------------------------------------------------------------------------------------ precision


@contextlib.contextmanager
def _precision(name: str, patches: Patches, calls: _Calls) -> Iterator[None]:
    autocast, whole = _AUTOCAST[name], _WHOLE.get(name)
    _set_own_autocast(autocast, patches)
    stack = contextlib.ExitStack()
    if autocast is not None:
        is_open = [False]

        def begin(_module: Any, args: Any, kwargs: Any) -> Any:
            if not is_open[0]:
                is_open[0] = True
                stack.enter_context(torch.autocast("cuda", autocast))
            return args, kwargs

        def end() -> None:
            stack.close()
            is_open[0] = False

        calls.before.append(begin)
        calls.after_forward.append(end)
    default = torch.get_default_dtype()
    if whole is not None:
        torch.set_default_dtype(whole)
        patches.put(torch, "set_default_dtype", lambda _dtype: None)
        _convert_modules(whole, patches)
        calls.before.append(lambda module, args, kwargs: _converted(module, args, kwargs, whole))
    try:
        with stack:
            yield
    finally:
        torch._C._set_default_dtype(default)


def _precision_of_modules(names: Mapping[str, str], patches: Patches, calls: _Calls) -> set[str]:
    """Let modules run in the precision of the first pattern that their name matches. Returns the patterns that match none, later.

    Modules inside of one that matches run as it does.
    """
    unmatched, seen = set(names), list[Any]()

    def first(model: Any, args: Any, kwargs: Any) -> Any:
        if not any(model is each for each in seen):
            seen.append(model)
            matched: set[int] = set()
            for name, module in model.named_modules():
                pattern = next((each for each in names if fnmatch.fnmatchcase(name, each)), None)
                if pattern is None:
                    continue
                unmatched.discard(pattern)
                if id(module) not in matched:
                    matched.update(map(id, module.modules()))
                    patches.put(module, "forward", _in_precision(module.forward, _AUTOCAST[names[pattern]]))
        return args, kwargs

    calls.before.append(first)
    return unmatched


def _in_precision(forward: Any, dtype: torch.dtype | None) -> Any:
    """A forward inside autocast, or, without a type, outside of it, where the program converts arguments itself."""

    @functools.wraps(forward)
    def changed(*args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            args, kwargs = tree_map(lambda each: each.float() if _is_float(each) else each, (args, kwargs))
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            return forward(*args, **kwargs)

    return changed


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _FLOATS


def _set_own_autocast(dtype: torch.dtype | None, patches: Patches) -> None:
    """Let the autocast that the program uses itself have this type; None: no effect."""
    init = torch.autocast.__init__

    @functools.wraps(init)
    def changed(context: Any, *args: Any, **kwargs: Any) -> None:
        init(context, *args, **kwargs)
        if context.device == "cuda":
            context.fast_dtype = dtype or context.fast_dtype
            context._enabled = context._enabled and dtype is not None

    patches.put(torch.autocast, "__init__", changed)


def _convert_modules(dtype: torch.dtype, patches: Patches) -> None:
    """Let modules get this type where they move or change their type, as if they had been converted on the CPU before."""
    apply = nn.Module._apply

    @functools.wraps(apply)
    def moved(module: Any, function: Any, recurse: bool = True) -> Any:
        def to(tensor: Any) -> Any:
            if tensor.dtype not in _FLOATS:
                return function(tensor)
            target = function(torch.empty(0, dtype=tensor.dtype, device=tensor.device))
            if target.dtype in (dtype, tensor.dtype):
                return function(tensor.to(dtype))
            return tensor.to(target.device, dtype if target.dtype in _FLOATS else target.dtype)

        return apply(module, to, recurse)

    patches.put(nn.Module, "_apply", moved)


def _converted(module: Any, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
    """The arguments of a model in the type of its parameters."""
    if next(module.parameters(), None) is None:  # a loss
        return args, kwargs

    def convert(value: Any) -> Any:
        return value.to(dtype) if _is_float(value) else value

    return tuple(map(convert, args)), {name: convert(value) for name, value in kwargs.items()}


# ------------------------------------------------------------------------------------------------ checkpointing


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Return the repeated parts of a model: the elements of its lists that have one class and the most parameters together."""
    groups: dict[type, list[nn.Module]] = defaultdict(list)
    for module in model.modules():
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            for element in module:
                if next(element.children(), None) is not None and not isinstance(element, nn.ModuleList):
                    groups[type(element)].append(element)
    repeated = [group for group in groups.values() if len(group) > 1]
    return max(repeated, key=lambda group: sum(p.numel() for each in group for p in each.parameters()), default=[])


def _checkpoint(calls: _Calls) -> list[Any]:
    """Checkpoint the blocks of each model at its first call. Returns those that were, later."""
    from torch.utils.checkpoint import checkpoint

    seen: list[Any] = []  # holds the models, so that an id stays theirs
    checkpointed: list[Any] = []

    def first(module: Any, args: Any, kwargs: Any) -> Any:
        if not any(module is each for each in seen):
            seen.append(module)
            if hasattr(module, "gradient_checkpointing_enable"):  # of transformers
                module.gradient_checkpointing_enable()
                checkpointed.append(module)
            else:
                for block in blocks_of(module):
                    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
                    checkpointed.append(block)
        return args, kwargs

    calls.before.append(first)
    return checkpointed
