"""What the code of PyTorch and of libraries reads, where the answer does not matter for the memory, or is known."""

from __future__ import annotations

import dis
import itertools
import linecache
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from vram.dry._lines import is_own, users_frame

ISTFT = "istft"  # the function that stands for torch.istft(), which is one of C++
PRETENDED = 1.0  # finite and positive: checks for NaN pass, and logarithms exist
_SCALER = os.path.join("torch", "amp", "grad_scaler.py")
_INIT = os.path.join("torch", "nn", "init.py")
_DISTRIBUTIONS = os.path.join("torch", "distributions") + os.sep
_FUNCTIONAL = os.path.join("torch", "nn", "functional.py")
_PARAMETRIZATIONS = os.path.join("torch", "nn", "utils", "parametrizations.py")
_LOADER = os.path.join("torch", "utils", "data") + os.sep
_ADAFACTOR = os.path.join("torch", "optim", "_adafactor.py")
_LBFGS = os.path.join("torch", "optim", "lbfgs.py")
_SYNCHRONIZED = os.path.join("torch", "nn", "modules", "_functions.py")
_TENSORBOARD = os.path.join("torch", "utils", "tensorboard") + os.sep

# What is read here decides about files and the end of the training only, or is a metric of an evaluation or an action, whose memory is that of any
# values.
# Comparisons answer True: for a callback, the value is the best until now.
LIBRARIES = (
    os.path.join("transformers", "trainer_pt_utils.py"),
    os.path.join("transformers", "optimization.py"),  # Adafactor scales its updates by the size of weights
    os.path.join("stable_baselines3", "common", "on_policy_algorithm.py"),
    os.path.join("stable_baselines3", "common", "policies.py"),
    os.path.join("pytorch", "callbacks", "early_stopping.py"),
    os.path.join("pytorch", "callbacks", "model_checkpoint.py"),
    os.path.join("pytorch_lightning", "callbacks", "early_stopping.py"),
    os.path.join("pytorch_lightning", "callbacks", "model_checkpoint.py"),
)


# Its metrics ask whether labels and predictions are invalid, and whether there are none of a class. Their memory is that of any values.
METRICS = os.sep + "torchmetrics" + os.sep


def is_of(folder: str) -> bool:
    """Whether the line that is running is of a library in such a folder."""
    frame = users_frame()
    return frame is not None and folder in frame.f_code.co_filename


def is_normalizing() -> bool:
    """Whether batches are normalized over all ranks, which leaves out those without samples: there are none."""
    return any(each.f_code.co_filename.endswith(_SYNCHRONIZED) for each in _own_frames())


def is_logged() -> bool:
    """Whether PyTorch's writer for TensorBoard reads: images and histograms, whose values decide nothing."""
    return any(_TENSORBOARD in each.f_code.co_filename for each in _own_frames())


def _own_frames() -> Iterator[FrameType]:
    """Yield the frames between the program and the reader."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame):
        yield frame
        frame = frame.f_back


# What is read here decides whether a sequence ends, or whether nothing is masked, where "no" needs the most memory.
NEGATED = (os.path.join("transformers", "generation", "utils.py"), os.path.join("transformers", "masking_utils.py"))


def is_in(files: tuple[str, ...]) -> bool:
    """Whether the line that is running is one of a library that trains, whose decision does not matter; otherwise the program itself decides."""
    frame = users_frame()
    file = "" if frame is None else frame.f_code.co_filename
    return any(file.endswith(os.sep + name) for name in files)


def is_formatting(frame: FrameType) -> bool:
    """Whether the operator that a frame is at is %, which makes a text of the numbers on its right: "%d" takes an int."""
    here = next((each for each in dis.get_instructions(frame.f_code) if each.offset == frame.f_lasti), None)
    if here is None:
        return False
    is_remainder = here.opname == "BINARY_OP" and here.argrepr in ("%", "%=")  # Python 3.11 and later
    return is_remainder or here.opname in ("BINARY_MODULO", "INPLACE_MODULO")


# What L-BFGS asks where "yes" needs the most memory: whether to remember a direction, to accept a step, and whether the first one is a tensor. It also
# asks whether to stop, and how to choose a step, which has the same memory either way.
_LBFGS_YES = ("ys > ", "if abs(gtd_new) <= ", "t = min(1.0, ")
_LBFGS_SEARCHES = "if f_new > (f + c1 * t * gtd) or (ls_iter"
_evaluations = itertools.count()


def _of_lbfgs(frame: FrameType, *, is_bool: bool) -> Any:
    """Return what L-BFGS reads: losses that fall with each evaluation, so that it does all its iterations, and answers.

    Its line search looks between two steps, which holds one more gradient, as long as that leaves an evaluation for each iteration.
    """
    if not is_bool:
        return -float(next(_evaluations))
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    if _LBFGS_SEARCHES in line:
        step = frame.f_back.f_locals if frame.f_back is not None else {}
        return bool(frame.f_locals["max_ls"] - 2 >= step.get("max_iter", 0) - step.get("n_iter", 0))
    return any(text in line for text in _LBFGS_YES)


def read_by_torch(*, is_bool: bool) -> Any:
    """What PyTorch's own code reads; None: the program reads.

    GradScaler asks whether a gradient was infinite, which it was not, and for its scale, which has therefore not changed.
    trunc_normal_() asks whether a number is out of range, to draw it again. Adafactor scales its updates by norms. L-BFGS asks whether to
    stop (_of_lbfgs()). Distributions ask whether arguments are valid, gaussian_nll_loss() whether one is not, istft() whether the windows leave gaps,
    and loaders draw the seeds of their workers by a generator of the program.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame):
        if frame.f_code.co_filename.endswith(_INIT):
            return False
        if is_bool and frame.f_code.co_filename.endswith((_FUNCTIONAL, _PARAMETRIZATIONS)):
            return False
        if is_bool and frame.f_code.co_name == ISTFT:
            return False
        if is_bool and _DISTRIBUTIONS in frame.f_code.co_filename:
            return True
        if _LOADER in frame.f_code.co_filename:
            return 0
        if frame.f_code.co_filename.endswith(_ADAFACTOR):
            return PRETENDED
        if frame.f_code.co_filename.endswith(_LBFGS):
            return _of_lbfgs(frame, is_bool=is_bool)
        if frame.f_code.co_filename.endswith(_SCALER):
            return float(frame.f_locals["self"]._init_scale) if frame.f_code.co_name == "get_scale" else 0.0
        frame = frame.f_back
    return None
