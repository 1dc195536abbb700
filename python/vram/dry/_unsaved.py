"""Files and buffers that a dry run leaves out, where a program reads, renames, copies and deletes them."""

from __future__ import annotations

import contextlib
import os
import shutil
import weakref
from collections.abc import Callable
from typing import Any

from vram.dry._older import Deferred
from vram.dry._patches import Patches

# Parameters of os: the folders that paths are in, as open files.
_FOLDERS = ("dir_fd", "src_dir_fd", "dst_dir_fd")


_left_out: list[str] = []  # what the last dry run was to save


def is_of_what_was_left_out(error: BaseException) -> bool:
    """Whether an exception may be about a file that is missing because a dry run saves nothing."""
    return isinstance(error, OSError) and bool(_left_out)


class Unsaved:
    """The paths that the program has saved to, by its own account.

    Whatever lies at such a path is older, and stays where it is: a rename would overwrite another file with it.
    """

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}  # by path: the state of an older file of this name
        self._contents: dict[str, Any] = {}  # by path: a description
        self._of_buffers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._empty: set[str] = set()  # files that the program made for this
        _left_out.clear()

    def add(self, file: Any, contents: Any = None) -> None:
        """Note that the program was to write this file, which is a path or open, or this buffer; and a description of what."""
        path = _path_of(file)
        _left_out.append(path or "")
        if path is None:
            with contextlib.suppress(TypeError):  # there are no references to it
                self._of_buffers[file] = contents
            return
        raw = getattr(file, "raw", None)
        if isinstance(raw, Deferred):
            raw.is_kept = True
        elif (
            hasattr(file, "name")
            and not isinstance(file, os.PathLike)
            and os.path.isfile(path)
            and not os.path.getsize(path)
        ):
            self._empty.add(path)
        self._found[path], self._contents[path] = _state(path), contents

    def contents(self, file: Any) -> Any:
        """Return the description of what the program was to write to this file; None: there is none, or it has written the file since."""
        path = _path_of(file)
        if path is None:
            try:
                return self._of_buffers.get(file)
            except TypeError:
                return None
        return self._contents.get(path) if path in self._found and self._found[path] == _state(path) else None

    def put_in_place(self, patches: Patches) -> None:
        patches.on_undo(self._remove_empty)
        for module, name in ((os, "rename"), (os, "replace"), (shutil, "move")):
            patches.put(module, name, self._without(getattr(module, name), is_kept=False))
        for module, name in ((os, "link"), (shutil, "copyfile"), (shutil, "copy"), (shutil, "copy2")):
            patches.put(module, name, self._without(getattr(module, name), is_kept=True))
        for name in ("remove", "unlink"):
            patches.put(os, name, self._without(getattr(os, name), is_kept=False))

    def _without(self, call: Callable[..., Any], *, is_kept: bool) -> Callable[..., Any]:
        """Return the function, which leaves files out that were not saved."""

        def called(*paths: Any, **named: Any) -> Any:
            if any(named.get(folder) is not None for folder in _FOLDERS):  # not of the current folder: shutil.rmtree()
                return call(*paths, **named)
            source = paths[0] if paths else named.get("src", named.get("path", ""))
            path = "" if isinstance(source, int) else _path(source)
            is_unsaved = path in self._found and self._found[path] == _state(
                source
            )  # and the program has not written it since
            contents = self._contents.get(path)
            if not is_kept:
                self._found.pop(path, None)
                self._contents.pop(path, None)
            if not is_unsaved:
                return call(*paths, **named)
            target = paths[1] if len(paths) > 1 else named.get("dst")
            if target is None:
                return None
            if os.path.isdir(target):
                target = os.path.join(target, os.path.basename(path))
            self.add(target, contents)
            return target if call.__module__ == "shutil" else None

        return called

    def _remove_empty(self) -> None:
        """Remove the files that the program opened for what was not written: a real run would read them."""
        while self._empty:
            path = self._empty.pop()
            with contextlib.suppress(OSError):
                if not os.path.getsize(path):
                    os.unlink(path)


def _path_of(file: Any) -> str | None:
    """Return the path of a file that the program names or has opened; None: it is a buffer."""
    if isinstance(file, (str, bytes, os.PathLike)):
        return _path(file)
    name = getattr(file, "name", None)
    return _path(name) if isinstance(name, (str, bytes, os.PathLike)) and name != os.devnull else None


def _path(file: Any) -> str:
    return os.path.abspath(os.fsdecode(file))


def _state(file: Any) -> Any:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
