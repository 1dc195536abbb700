"""Continuing after out of memory with the same gradients, and finding a batch size beforehand (docs/recover.md)."""

from vram.recover._find import BatchSize, find_batch_size
from vram.recover._fit import Trial
from vram.recover._micro import MicroBatches, micro_batches
from vram.recover._retry import retry_on_oom

__all__ = ["BatchSize", "MicroBatches", "Trial", "find_batch_size", "micro_batches", "retry_on_oom"]
