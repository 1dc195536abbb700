"""torch.load and torch.save in a dry run.

A file is read for real: scripts continue from `checkpoint["epoch"]`, from random states and from data sets. What it has for the CPU are tensors with
values, whose memory is the file itself until something is written into them (mmap), so a checkpoint of any size takes no memory of the host. What
map_location, or the file, places on a GPU is a fake tensor. PyTorch allocates a whole storage at once there, when it reads the first tensor
of it; so does the dry run. Nothing is saved, and what would have been is not renamed, copied or deleted; its shapes are remembered.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vram._texts import tr
from vram.dry import _remembered
from vram.dry._imports import when_imported
from vram.dry._lines import users_line, warn
from vram.dry._older import Older
from vram.dry._patches import Patches
from vram.dry._unsaved import Unsaved
from vram.dry._values import DryRunError

# What PyTorch's own code for files is in. It makes tensors without data if it finds a fake mode.
_FILES = (os.path.join("torch", "serialization.py"), os.path.join("torch", "_utils.py"))
_ZIP = b"PK\x03\x04"


class _Placed:
    """Storages of files that belong on a GPU, with a fake tensor for each: the storage's bytes there."""

    def __init__(self) -> None:
        self._there: dict[int, tuple[Any, Any]] = {}  # with the storage itself, so that its address stays its own

    def put(self, storage: Any, device: torch.device) -> None:
        if storage._cdata not in self._there:
            self._there[storage._cdata] = storage, torch.empty(storage.nbytes(), dtype=torch.uint8, device=device)

    def tensor(self, read: Any) -> Any:
        """Return a tensor that was read from a file where it belongs."""
        found = self._there.get(read.untyped_storage()._cdata)
        if found is None:
            return read
        with torch.no_grad():
            there = found[1].view(read.dtype).as_strided(read.shape, read.stride(), read.storage_offset())
        return there.requires_grad_(read.requires_grad)

    def forget(self) -> None:
        self._there.clear()


def _can_be_mapped(file: Any) -> bool:
    if not isinstance(file, (str, os.PathLike)) or os.fspath(file).endswith(".safetensors"):
        return False
    try:
        with open(file, "rb") as opened:
            return opened.read(len(_ZIP)) == _ZIP
    except OSError:
        return False


def put_in_place(patches: Patches, fakes: FakeTensorMode) -> None:
    """Let the program load files, and save nothing."""
    _load_for_real(patches)
    _save_nothing(patches, fakes)


def _load_for_real(patches: Patches) -> None:
    placed = _Placed()
    load, serialization, utilities = torch.load, torch.serialization, torch._utils

    def deserialized(storage: Any, location: str) -> Any:
        """Note that a storage is to be on a GPU; None: it is not."""
        if not location.startswith("cuda"):
            return None
        device = torch.device(location)
        placed.put(storage, torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index))
        return storage

    def moved(storage: Any, device: Any = None, non_blocking: bool = False) -> Any:  # noqa: ARG001
        """storage.cuda(), as a map_location of the program calls it."""
        number = device if isinstance(device, int) else torch.device(device or "cuda").index
        return deserialized(storage, "cuda" if number is None else f"cuda:{number}")

    def loaded(f: Any, *arguments: Any, **named: Any) -> Any:
        if named.get("mmap") is None and _can_be_mapped(f):
            named["mmap"] = True
        try:
            return load(f, *arguments, **named)
        finally:
            placed.forget()

    for name in ("active_fake_mode", "detect_fake_mode"):
        patches.put_where_found(torch._guards, {name: _none_for_files(getattr(torch._guards, name))})
    # A tensor of a file has been completed when this is called.
    patches.put(utilities, "_restore_device_fake_mode", placed.tensor)
    registry = [(0, lambda _storage: None, deserialized), *serialization._package_registry]
    patches.put(serialization, "_package_registry", registry)
    patches.put(torch.UntypedStorage, "cuda", moved)
    patches.put(torch, "load", loaded)


def _none_for_files(find: Any) -> Any:
    def found(*arguments: Any, **named: Any) -> Any:
        return None if sys._getframe(1).f_code.co_filename.endswith(_FILES) else find(*arguments, **named)

    return found


def _save_nothing(patches: Patches, fakes: FakeTensorMode) -> None:
    load, save = torch.load, torch.save
    has_saved = False
    Older().put_in_place(patches)
    unsaved = Unsaved()
    unsaved.put_in_place(patches)

    def save_nothing(saved: Any = None, *arguments: Any, **named: Any) -> None:
        nonlocal has_saved
        storage = getattr(saved, "_untyped_storage", saved)
        if isinstance(storage, torch.UntypedStorage) and storage.device.type == "cpu":
            save(saved, *arguments, **named)  # a part of a tensor with values, which pickle or copy asks for
            return
        has_saved = True
        unsaved.add(arguments[0] if arguments else named.get("f"), _remembered.remembered(saved))
        warn(tr("a dry run saves nothing: torch.save() is left out"))

    def load_what_is_there(*arguments: Any, **named: Any) -> Any:
        contents = unsaved.contents(arguments[0] if arguments else named.get("f"))
        if contents is not None:
            location = arguments[1] if len(arguments) > 1 else named.get("map_location")
            return _remembered.loaded(contents, location, fakes)
        try:
            return load(*arguments, **named)
        except (EOFError, FileNotFoundError) as error:
            if not has_saved:
                raise
            raise DryRunError(
                tr(
                    "{}: torch.load() finds nothing, because a dry run saves nothing (torch.save() is left out); to copy "
                    "a model or its state, use copy.deepcopy(), or leave saving and loading out of the dry run"
                ).format(users_line())
            ) from error

    patches.put(torch, "save", save_nothing)
    patches.put(torch, "load", load_what_is_there)
    if importlib.util.find_spec("safetensors") is not None:
        # Its other functions save by this one. They may be called by names that a program has imported before.
        patches.put_where_found(
            importlib.import_module("safetensors.torch"), {"serialize_file": _no_safetensors(unsaved)}
        )
    _save_no_shards(patches, unsaved)


def _save_no_shards(patches: Patches, unsaved: Unsaved) -> None:
    """Let torch.distributed.checkpoint save nothing, and leave tensors as they are that it would load from there.

    It plans with all ranks what each of them writes and reads, and a dry run has one.
    """

    def saving(saver: ModuleType) -> None:
        def save_nothing(state_dict: Any, storage_writer: Any = None, *_arguments: Any, **_named: Any) -> Any:  # noqa: ARG001
            unsaved.add(getattr(storage_writer, "path", None), {})
            warn(tr("a dry run saves nothing: {} is left out").format("torch.distributed.checkpoint.save()"))
            return importlib.import_module("torch.distributed.checkpoint.metadata").Metadata({})

        patches.put_where_found(saver, {"_save_state_dict": save_nothing})

    def loading(loader: ModuleType) -> None:
        load: Any = loader.__dict__.get("_load_state_dict")

        def load_what_is_there(state_dict: Any, storage_reader: Any = None, *arguments: Any, **named: Any) -> None:
            if unsaved.contents(getattr(storage_reader, "path", None)) is None:
                load(state_dict, storage_reader, *arguments, **named)

        patches.put_where_found(loader, {"_load_state_dict": load_what_is_there})

    def staging(stager: ModuleType) -> None:
        if hasattr(stager, "StateDictStager"):  # of async_save(): it copies storages to the CPU
            patches.put(stager.StateDictStager, "stage", lambda _stager, state_dict, *_arguments, **_named: state_dict)

    when_imported(patches, "torch.distributed.checkpoint.state_dict_saver", saving)
    when_imported(patches, "torch.distributed.checkpoint._state_dict_stager", staging)
    when_imported(patches, "torch.distributed.checkpoint.state_dict_loader", loading)


def _no_safetensors(unsaved: Unsaved) -> Any:
    def save_nothing(_tensors: Any, filename: Any, *_arguments: Any, **_named: Any) -> None:
        unsaved.add(filename)
        warn(tr("a dry run saves nothing: safetensors.torch.save_file() is left out"))

    return save_nothing
