"""``vram.jax.import_profile()``: reads JAX's device memory profile, site by site.

The format is that of pprof (a gzipped protocol buffer, profile.proto of github.com/google/pprof): samples of a count
and bytes, each with a stack and labels; texts are indices of a table.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from vram._error import VramError
from vram._sizes import format_size
from vram._texts import tr
from vram.jax._wire import Value, fields, number, numbers, signed, submessage

_MAX_LENGTH = 64 << 20  # bytes, unpacked: a real one has a few millions
_GZIP = b"\x1f\x8b"
_INSIDE = ("/jax/", "/jaxlib/", "<frozen ")  # where no program's own code lies
_FIRST_SITES = 10


@dataclass(frozen=True)
class Frame:
    """A line of a source file; line 0: unknown."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({os.path.basename(self.file)}:{self.line})"


@dataclass(frozen=True)
class Site:
    """The memory that one stack has allocated and not freed, on one device."""

    bytes: int
    count: int
    kind: str  # "buffer", "executable"
    device: str  # "gpu:0"; "" where it is none's
    stack: tuple[Frame, ...]  # the innermost first

    @property
    def frame(self) -> Frame | None:
        """The innermost frame outside JAX itself, or None if none is known."""
        own = (frame for frame in self.stack if not any(inside in frame.file for inside in _INSIDE))
        return next(own, self.stack[0] if self.stack else None)

    def __str__(self) -> str:
        where = self.frame or tr("no stack")
        kind = self.kind or tr("allocation")
        return tr("{} in {} {}s on {}: {}").format(format_size(self.bytes), self.count, kind, self.device or "?", where)


@dataclass(frozen=True)
class JaxProfile:
    """The sites of a profile, largest first. ``str()`` shows the first ten, one per line."""

    sites: tuple[Site, ...]

    @property
    def bytes(self) -> int:
        """The sum over all sites."""
        return sum(site.bytes for site in self.sites)

    def __str__(self) -> str:
        count = len(self.sites)
        lines = [
            (tr("{} at {} site") if count == 1 else tr("{} at {} sites")).format(format_size(self.bytes), count),
            *map(str, self.sites[:_FIRST_SITES]),
        ]
        return "\n".join(lines + (["…"] if len(self.sites) > _FIRST_SITES else []))


Source = Union[bytes, str, "os.PathLike[str]", None]


def import_profile(source: Source = None) -> JaxProfile:
    """Return the memory in use on JAX's devices, by the stack that allocated it.

    Counts buffers and executables that are alive at that moment. Any thread may call this.

    Args:
        source: The result of ``jax.profiler.device_memory_profile()``, or the path of a file that
            ``jax.profiler.save_device_memory_profile()`` wrote, gzipped or not. None: the current profile.

    Raises:
        VramError: The source is not a profile, or has more than 64 MiB uncompressed; or it is None and the program has
            not imported jax.
        OSError: The file cannot be read.

    >>> import vram
    >>> vram.jax.import_profile(b"")
    JaxProfile(sites=())
    """
    if source is None:
        source = _asked()
    packed = source if isinstance(source, bytes) else Path(source).read_bytes()
    profile = _Profile()
    profile.read(memoryview(_unpacked(packed)))
    return JaxProfile(tuple(sorted(profile.sites(), key=lambda site: -site.bytes)))


def _asked() -> bytes:
    jax = sys.modules.get("jax")
    if jax is None:
        raise VramError(
            tr("vram.jax.import_profile() asks JAX, but the program has not imported jax; name a file, or import it")
        )
    return bytes(jax.profiler.device_memory_profile())


def _unpacked(packed: bytes) -> bytes:
    if packed[:2] != _GZIP:
        return packed
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(packed, _MAX_LENGTH)
    except zlib.error as error:
        raise VramError(tr("not a profile: its gzip can't be unpacked ({}); save it again").format(error)) from error
    if not unpacker.eof:
        what = (
            tr("it has more than 64 MiB")
            if len(unpacked) == _MAX_LENGTH
            else tr("its gzip ends too soon; save it again")
        )
        raise VramError(tr("not a profile that can be read: {}").format(what))
    return unpacked


@dataclass
class _Sample:
    locations: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    labels: dict[int, int] = field(default_factory=dict)  # texts, by number


class _Profile:
    """The message; references between its parts are still numbers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.units: list[int] = []
        self.samples: list[_Sample] = []
        self.locations: dict[int, list[tuple[int, int]]] = {}  # function and line, the innermost first
        self.functions: dict[int, tuple[int, int]] = {}  # name and file

    def read(self, message: memoryview) -> None:
        for field_number, value in fields(message):
            if field_number == 1:
                self.units.append(_one(value, 2))
            elif field_number == 2:
                self.samples.append(_sample(submessage(value)))
            elif field_number == 4:
                lines = [(_one(line, 1), _one(line, 2)) for number_, line in fields(submessage(value)) if number_ == 4]
                self.locations[_one(value, 1)] = lines
            elif field_number == 5:
                self.functions[_one(value, 1)] = (_one(value, 2), _one(value, 4))
            elif field_number == 6:
                self.texts.append(bytes(submessage(value)).decode(errors="replace"))

    def sites(self) -> Iterable[Site]:
        """Return the sites; samples with the same stack, kind and device are merged."""
        units = [self._text(unit) for unit in self.units]
        if self.samples and "bytes" not in units:
            raise VramError(
                tr("a profile of memory counts bytes; this one counts {}").format(", ".join(units) or "nothing")
            )
        sums: dict[tuple[str, str, tuple[Frame, ...]], list[int]] = {}
        for sample in self.samples:
            if len(sample.values) != len(units):
                raise VramError(
                    tr("not a profile: a sample has {} values for {} columns").format(len(sample.values), len(units))
                )
            labels = {self._text(key): self._text(text) for key, text in sample.labels.items()}
            stack = tuple(frame for location in sample.locations for frame in self._frames(location))
            sum_ = sums.setdefault((labels.get("kind", ""), labels.get("device", ""), stack), [0, 0])
            sum_[0] += sample.values[units.index("bytes")]
            sum_[1] += sample.values[units.index("count")] if "count" in units else 1
        return [Site(sizes, count, kind, device, stack) for (kind, device, stack), (sizes, count) in sums.items()]

    def _frames(self, location: int) -> Iterable[Frame]:
        for function, line in self.locations.get(location, ()):
            name, file = self.functions.get(function, (0, 0))
            yield Frame(self._text(name), self._text(file), line)

    def _text(self, index: int) -> str:
        if index >= len(self.texts):
            raise VramError(tr("not a whole profile: it names text {}, and has {}").format(index, len(self.texts)))
        return self.texts[index]


def _sample(message: memoryview) -> _Sample:
    sample = _Sample()
    for field_number, value in fields(message):
        if field_number == 1:
            sample.locations += numbers(value)
        elif field_number == 2:
            sample.values += [signed(each) for each in numbers(value)]
        elif field_number == 3:
            sample.labels[_one(value, 1)] = _one(value, 2)
    return sample


def _one(message: Value, wanted: int) -> int:
    """Return the number in a field of a message, or 0 if the field is missing, as protocol buffers define it."""
    return next((number(value) for field_number, value in fields(submessage(message)) if field_number == wanted), 0)
