"""Names for what a training step allocates: modules, parameters, gradients, optimizer states (docs/watch.md).

_names       what parts are called          _calls       each module's call is a scope
_memory      tensors' memory gets names     _phases      forward, loss, backward, recompute of a thread
_optimizers  steps, gradients, states       _process     the two places that are the whole process's
"""

from vram.watching._watch import Watch, watch

__all__ = ["Watch", "watch"]
