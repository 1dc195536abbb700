"""Changes that only move bytes, as models: blocks of a trace get other sizes by their category.

- ZeRO: each rank has ``1 / world_size`` of the optimizer's states and of its temporaries (stage 1), of the gradients too (2), of the parameters
  too (3).
  At stage 3 whole parameters exist for what computes: everything outside the repeated blocks, two blocks, and the gradients of one.
- Gradients of 2 bytes for each element. Weights of linear layers of 1 byte for each element, or half of one, with their scales.
- The states of an optimizer, in the trace of a program that cannot run again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace

from vram._arguments import MAX_INT32, require_integers, require_one_of
from vram._error import VramError
from vram._texts import tr
from vram.dry._edited import Resize

_STATE_BLOCK, _MIN_8BIT_ELEMENTS = 256, 4096  # of bitsandbytes; see _optimizers.py
_NF4_BLOCK = 64
_ADAPTER = ".lora_"  # in the names of layers that are trained instead of others; see _adapters.py


@dataclass(frozen=True)
class Parameter:
    """A parameter as its model has it; `outputs`: of a linear layer with this weight, otherwise 0."""

    elements: int
    element_bytes: int
    outputs: int
    is_trained: bool

    @property
    def size_bytes(self) -> int:
        return self.elements * self.element_bytes


@dataclass(frozen=True)
class Model:
    """What is changed; None: nothing."""

    zero: int | None = None
    world_size: int | None = None
    gradients: str | None = None
    weights: str | None = None
    optimizer: str | None = None

    def __post_init__(self) -> None:
        require_one_of((None, 1, 2, 3), zero=self.zero)
        require_one_of((None, "bf16"), gradients=self.gradients)
        require_one_of((None, "int8", "fp8", "nf4"), weights=self.weights)
        require_integers(2, MAX_INT32, world_size=self.world_size)
        if (self.zero is None) != (self.world_size is None):
            raise ValueError(tr("expected zero and world_size together, such as zero=3, world_size=8"))

    @property
    def is_empty(self) -> bool:
        return self == Model()

    def with_optimizer(self, name: str | None) -> Model:
        """Return this model, which also predicts another optimizer's states."""
        if name not in (None, "sgd", "adamw-8bit"):
            raise VramError(
                tr(
                    "optimizer='{}' needs a program that can run again: vram.predict(function, ...); without "
                    "it, 'sgd' and 'adamw-8bit' can be predicted"
                ).format(name)
            )
        return replace(self, optimizer=name)

    def edits(self, parameters: dict[str, Parameter]) -> tuple[Resize, int]:
        """Return the new sizes of blocks of a program with these parameters, and the bytes of a block that is there all the time.

        Raises:
            VramError: The change does not apply to the program.
        """
        if not parameters:
            raise VramError(tr("the program calls no model, so no parameters are known"))
        trained = [name for name, each in parameters.items() if each.outputs and each.is_trained]
        if self.weights is not None and not all(_ADAPTER in name for name in trained):
            raise VramError(
                tr("weights='{}' cannot be trained; combine it with lora_rank, or freeze them").format(self.weights)
            )

        def resize(name: str, category: str, size_bytes: int) -> int:
            return self._resized(parameters, name, category, size_bytes)

        return resize, self._gathered(parameters)

    def _resized(self, parameters: dict[str, Parameter], name: str, category: str, size_bytes: int) -> int:
        if category == "parameter":
            size_bytes = self._weight(parameters.get(name), size_bytes)
            return self._shared(size_bytes, 3)
        if category == "gradient":
            known = parameters.get(name)
            if self.gradients is not None and known is not None:
                size_bytes = size_bytes // known.element_bytes * 2
            return self._shared(size_bytes, 2)
        if category == "optimizer state":
            return self._shared(self._state(parameters.get(name.rpartition(".")[0]), size_bytes), 1)
        if not category and name.partition("/")[0] == "optimizer":  # temporaries of its step
            return self._shared(size_bytes, 1)
        return size_bytes

    def _shared(self, size_bytes: int, since_stage: int) -> int:
        if self.zero is None or self.world_size is None or self.zero < since_stage:
            return size_bytes
        return -(-size_bytes // self.world_size)

    def _weight(self, known: Parameter | None, size_bytes: int) -> int:
        if self.weights is None or known is None or not known.outputs or known.is_trained:
            return size_bytes
        if self.weights == "nf4":  # of bitsandbytes: two in a byte, and a float32 for each block
            return -(-known.elements // 2) + 4 * -(-known.elements // _NF4_BLOCK)
        scales = known.outputs if self.weights == "int8" else 1  # of float32
        return known.elements + 4 * scales

    def _state(self, known: Parameter | None, size_bytes: int) -> int:
        if self.optimizer == "sgd":
            return 0
        if self.optimizer == "adamw-8bit" and known is not None and known.elements >= _MIN_8BIT_ELEMENTS:
            return known.elements + 4 * -(-known.elements // _STATE_BLOCK)
        return size_bytes

    def _gathered(self, parameters: dict[str, Parameter]) -> int:
        """Bytes of the parameters and gradients that exist as a whole at stage 3."""
        if self.zero != 3:
            return 0
        units: dict[str, list[Parameter]] = defaultdict(list)
        for name, parameter in parameters.items():
            numbered = re.match(r"(?:.*?\.)??\d+(?=\.)", name)
            units[numbered[0] if numbered else ""].append(parameter)
        outside = sum(each.size_bytes for each in units.pop("", []))
        block = max((sum(each.size_bytes for each in unit) for unit in units.values()), default=0)
        trained = max((sum(p.size_bytes for p in unit if p.is_trained) for unit in units.values()), default=0)
        return outside + 2 * block + trained
