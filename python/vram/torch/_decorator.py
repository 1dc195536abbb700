"""Writes the header that adapter.cpp includes: the classes that PyTorch calls, from the header of the installed PyTorch.

Which virtual functions ``CUDAAllocator`` has, and their parameters, changes with almost every version of PyTorch. So they
are read from its header. In ``Decorator`` each becomes an override that hands the call to ``PoolAllocator`` (those in
OURS) or to the native allocator (all others, those of versions to come included). In ``Tapped``, which stands before the
native allocator while that is recorded, all calls go on to it, and those in TAPPED have something done around them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# PyTorch's name of what vram answers itself, and the member of PoolAllocator that does.
OURS = {
    "allocate": "allocate",
    "allocateWithAddress": "allocate_with_address",
    "attachOutOfMemoryObserver": "attach_out_of_memory_observer",
    "beginAllocateToPool": "begin_allocate_to_pool",
    "cacheInfo": "cache_info",
    "emptyCache": "empty_cache",
    "enable": "enable",
    "enablePeerAccess": "enable_peer_access",
    "endAllocateToPool": "end_allocate_to_pool",
    "getBaseAllocation": "get_base_allocation",
    "getContextForPointer": "get_context_for_pointer",
    "getDeviceStats": "get_device_stats",
    "memcpyAsync": "memcpy_async",
    "name": "name",
    "raw_alloc": "raw_alloc",
    "raw_alloc_with_stream": "raw_alloc_with_stream",
    "raw_delete": "raw_delete",
    "raw_deleter": "raw_deleter",
    "recordStream": "record_stream",
    "resetAccumulatedStats": "reset_accumulated_stats",
    "resetPeakStats": "reset_peak_stats",
    "setCheckpointPoolState": "set_checkpoint_pool_state",
    "setMemoryFraction": "set_memory_fraction",
    "shareIpcHandle": "share_ipc_handle",
    "snapshot": "snapshot",
}

# What is done around a call of the native allocator: a statement, before the call or after it.
_STACK = ("const vram_torch::StackOfRequest stack; ", "")
TAPPED = {
    "allocate": _STACK,
    "allocateWithAddress": _STACK,
    "raw_alloc": _STACK,
    "raw_alloc_with_stream": _STACK,
    "init": ("", " vram_torch::Tap::get().devices_are_made(native_);"),
}

# The classes that CUDAAllocator is made of, the last one first, and where PyTorch declares them.
CLASSES = (
    ("CUDAAllocator", "c10/cuda/CUDACachingAllocator.h"),
    ("DeviceAllocator", "c10/core/CachingDeviceAllocator.h"),
    ("Allocator", "c10/core/Allocator.h"),
)

_HEADER = """\
// Written by vram from PyTorch's c10/cuda/CUDACachingAllocator.h; not to be edited.
#pragma once

#include "pool_allocator.hpp"
#include "tap.hpp"

namespace c10::cuda::CUDACachingAllocator::vram_adapter {

class Decorator final : public CUDAAllocator {
 public:
  explicit Decorator(vram_torch::PoolAllocator& ours) : ours_(ours) {}

"""
_BETWEEN = """

 private:
  CUDAAllocator& native() const { return ours_.native(); }

  vram_torch::PoolAllocator& ours_;
};

class Tapped final : public CUDAAllocator {
 public:
  explicit Tapped(CUDAAllocator& native) : native_(native) {}
  CUDAAllocator& native() const { return native_; }

"""
_FOOTER = """

 private:
  CUDAAllocator& native_;
};

}  // namespace c10::cuda::CUDACachingAllocator::vram_adapter
"""


class HeaderError(Exception):
    """The header is not written as the headers of the known versions are."""


@dataclass(frozen=True)
class Function:
    returns: str
    name: str
    parameters: tuple[str, ...]  # their types
    is_const: bool

    def decorated(self) -> str:
        target = f"ours_.{OURS[self.name]}" if self.name in OURS else f"native().{self.name}"
        return self._override(target)

    def tapped(self) -> str:
        return self._override(f"native_.{self.name}", *TAPPED.get(self.name, ()))

    def _override(self, target: str, before: str = "", after: str = "") -> str:
        parameters = ", ".join(f"{kind} a{i}" for i, kind in enumerate(self.parameters))
        arguments = ", ".join(f"std::forward<{kind}>(a{i})" for i, kind in enumerate(self.parameters))
        const = " const" if self.is_const else ""
        call = f"{before}{'' if after else 'return '}{target}({arguments});{after}"
        return f"  {self.returns} {self.name}({parameters}){const} override {{ {call} }}"


def decorator(include: Path) -> str:
    """Return the text of the adapter's header for the PyTorch whose headers are in the folder."""
    functions = virtual_functions(include)
    missing = {"allocate", "raw_delete", "recordStream", "beginAllocateToPool"} - {f.name for f in functions}
    if missing:
        raise HeaderError(f"no {', '.join(sorted(missing))} in class CUDAAllocator of {include / CLASSES[0][1]}")
    decorated = "\n".join(function.decorated() for function in functions)
    tapped = "\n".join(function.tapped() for function in functions)
    return _HEADER + decorated + _BETWEEN + tapped + _FOOTER


def virtual_functions(include: Path) -> list[Function]:
    """Each virtual function once, as the most derived class declares it; those it implements for good are left alone."""
    found: dict[tuple[str, tuple[str, ...]], Function] = {}
    settled: set[str] = set()
    for name, header in CLASSES:
        path = include / header
        text = _without_comments(path.read_text()) if path.is_file() else ""
        body = _body(text, name)
        if body is None:
            continue
        for declaration in _declarations(body):
            if not re.match(r"virtual\b", declaration):
                settled.update(re.findall(r"(\w+)\s*\(.*\)\s*(?:const)?\s*override$", declaration, re.DOTALL))
                continue
            function = _parse(declaration)
            if function and not (name != "CUDAAllocator" and function.name in settled):
                found.setdefault((function.name, function.parameters), function)
    return list(found.values())


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def _body(text: str, name: str) -> str | None:
    """What stands between the braces of the class's definition."""
    match = re.search(rf"\b(?:class|struct)\s+(?:C10_\w+\s+)?{name}\s*(?::[^{{;]*)?{{", text)
    if not match:
        return None
    depth = 1
    for position in range(match.end(), len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[match.end() : position]
    raise HeaderError(f"the definition of {name} has no end")


def _declarations(body: str) -> list[str]:
    """The members of a class as text, up to their body or semicolon."""
    declarations: list[str] = []
    start = depth = parentheses = 0
    for position, character in enumerate(body):
        if character in "()":
            parentheses += 1 if character == "(" else -1
        if parentheses:
            continue
        if character == "{":
            if depth == 0:
                declarations.append(body[start:position])
            depth += 1
        elif character == "}":
            depth -= 1
            start = position + 1
        elif character == ";" and depth == 0:
            declarations.append(body[start:position])
            start = position + 1
    access = re.compile(r"^\s*(?:(?:public|protected|private)\s*:)?\s*;?\s*")
    return [access.sub("", declaration).strip() for declaration in declarations]


def _parse(declaration: str) -> Function | None:
    match = re.match(
        r"virtual\s+(?P<returns>[^()]+?)\s*\b(?P<name>\w+)\s*\((?P<parameters>.*)\)\s*(?P<const>const)?\s*"
        r"(?:noexcept)?\s*(?:=\s*0)?$",
        declaration,
        re.DOTALL,
    )
    if match:
        parameters = tuple(_type_of(text) for text in _split(match["parameters"]))
        return Function(" ".join(match["returns"].split()), match["name"], parameters, bool(match["const"]))
    if "~" in declaration:
        return None
    raise HeaderError(f"can't read the declaration '{' '.join(declaration.split())}'")


def _split(parameters: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts = [""]
    depth = 0
    for character in parameters:
        depth += {"<": 1, "(": 1, "{": 1, ">": -1, ")": -1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def _type_of(parameter: str) -> str:
    """A parameter without its default and its name."""
    words = " ".join(parameter.split("=")[0].split())
    match = re.match(r"^(?P<type>.*[\s&*>])(?P<name>[A-Za-z_]\w*)$", words)
    if not match or match["type"].strip() in {"const", "unsigned", "std::"}:
        return words
    return match["type"].strip()
