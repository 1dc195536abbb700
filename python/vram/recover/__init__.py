"""Going on after running out of memory, with the same gradients; and finding a batch size beforehand (docs/recover.md)."""

from vram.recover._micro import MicroBatches, micro_batches

__all__ = ["MicroBatches", "micro_batches"]
