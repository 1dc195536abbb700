"""Checkpoints from before a dry run: the program replaces or deletes them when it saves others, which a dry run does not do, so they stay as they are."""

from __future__ import annotations

import builtins
import functools
import io
import os
import re
import shutil
import time
from collections.abc import Callable
from typing import Any

from vram._texts import tr
from vram.dry._lines import warn
from vram.dry._patches import Patches

_CHECKPOINT = re.compile(r"\.(pt|pth|ckpt|safetensors)(\.tar)?$|(pytorch|adapter)_model[^/]*\.bin$")
_FOLDERS = ("dir_fd", "src_dir_fd", "dst_dir_fd")  # with these, a path is in another folder than the current one


class Deferred(io.RawIOBase):
    """A file from before the dry run that the program has opened to write it: its contents go when something is written.

    Attributes:
        is_kept: Nothing of what the program writes is written, so they stay.
    """

    def __init__(self, file: Any, mode: str, call: Callable[..., Any]) -> None:
        super().__init__()
        self.name, self.mode, self.is_kept = file, mode, False
        self._call, self._file = call, None

    def _opened(self) -> Any:
        if self._file is None:
            self._file = self._call(self.name, self.mode, buffering=0)
        return self._file

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any) -> Any:
        return self._opened().write(data)

    def fileno(self) -> int:
        return int(self._opened().fileno())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._opened().seek(offset, whence)) if offset or self._file is not None else 0

    def tell(self) -> int:
        return 0 if self._file is None else int(self._file.tell())

    def truncate(self, size: int | None = None) -> int:
        return int(self._opened().truncate(size))

    def close(self) -> None:
        if not self.closed:
            if not self.is_kept or self._file is not None:
                self._opened().close()
            super().close()


class Older:
    """The checkpoints from before now."""

    def __init__(self) -> None:
        self._began_ns = time.time_ns()
        self._deleted: set[str] = set()  # folders that the program has deleted, as far as it knows

    def put_in_place(self, patches: Patches) -> None:
        for name in ("remove", "unlink"):
            patches.put(os, name, self._keeping(getattr(os, name), "path"))
        for name in ("rename", "replace"):
            patches.put(os, name, self._keeping(getattr(os, name), "src", "dst"))
        patches.put(shutil, "copyfile", self._keeping(shutil.copyfile, "", "dst"))
        patches.put(shutil, "rmtree", self._keeping_folder(shutil.rmtree))
        patches.put(os, "rmdir", self._keeping_folder(os.rmdir))
        patches.put(os, "mkdir", self._making(os.mkdir))
        for module in (builtins, io):
            patches.put(module, "open", self._opening(module.open))

    def _is_checkpoint(self, file: Any) -> bool:
        is_path = isinstance(file, (str, bytes, os.PathLike))
        return is_path and bool(_CHECKPOINT.search(os.fsdecode(file))) and self._was_there(file)

    def _was_there(self, file: Any) -> bool:
        try:
            return os.stat(file).st_ctime_ns < self._began_ns
        except OSError:
            return False

    def _has_checkpoints(self, folder: Any) -> bool:
        return any(
            self._is_checkpoint(os.path.join(root, file)) for root, _, files in os.walk(folder) for file in files
        )

    def _keeping(self, call: Callable[..., Any], *names: str) -> Callable[..., Any]:
        """Return the function, which is left out if one of these arguments is a checkpoint."""

        @functools.wraps(call)
        def called(*paths: Any, **named: Any) -> Any:
            if not any(named.get(folder) is not None for folder in _FOLDERS):
                given = [paths[i] if i < len(paths) else named.get(name) for i, name in enumerate(names) if name]
                kept = next(filter(self._is_checkpoint, given), None)
                if kept is not None:
                    _warn(kept)
                    return given[-1] if call.__module__ == "shutil" else None
            return call(*paths, **named)

        return called

    def _keeping_folder(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def called(path: Any, *arguments: Any, **named: Any) -> Any:
            if isinstance(path, int) or named.get("dir_fd") is not None or not self._has_checkpoints(path):
                return call(path, *arguments, **named)
            _warn(path)
            self._deleted.update(_absolute(root) for root, _, _ in os.walk(path))
            return None

        return called

    def _making(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def called(path: Any, *arguments: Any, **named: Any) -> Any:
            if not isinstance(path, int) and _absolute(path) in self._deleted:
                self._deleted.discard(_absolute(path))
                return None
            return call(path, *arguments, **named)

        return called

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return open(), which opens nothing to write in place of a checkpoint, and other files so that torch.save() leaves them as they are."""

        @functools.wraps(call)
        def called(file: Any, mode: Any = "r", *arguments: Any, **named: Any) -> Any:
            if isinstance(mode, str) and "w" in mode and self._is_checkpoint(file):
                _warn(file)
                file = os.devnull
            elif (
                mode in ("wb", "bw")
                and not arguments
                and not named
                and not isinstance(file, int)
                and self._was_there(file)
            ):
                return io.BufferedWriter(Deferred(file, mode, call))
            return call(file, mode, *arguments, **named)

        return called


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _warn(path: Any) -> None:
    warn(
        tr(
            "a dry run saves nothing, so it keeps {}, which was there before: replacing and deleting it is left out"
        ).format(os.fsdecode(path))
    )
