"""Which blocks of a model to run again in backward, so that a training step fits into less memory."""

from vram.planning._checkpoint import Checkpointed, checkpoint
from vram.planning._plan import plan_checkpoints
from vram.planning._region import CheckpointRegion
from vram.planning._result import CheckpointPlan, CheckpointTrial

__all__ = ["CheckpointPlan", "CheckpointRegion", "CheckpointTrial", "Checkpointed", "checkpoint", "plan_checkpoints"]
