"""Which tests are measured, against which limit, and what is printed about them."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from vram import VramError
from vram._sizes import format_size, parse_limit
from vram._texts import columns_of, tr, tr_later
from vram.dry._gpu import find_gpu
from vram.dry._values import Values, assumption

if TYPE_CHECKING:
    from pytest_vram._measure import DryRunPeak, GpuPeak

_LISTED = 10
MEASURED = tr_later("measured on {}")
PREDICTED = tr_later("predicted by dry runs on {}")


class TestPeak:
    """The peak of a running test's GPU memory."""

    __test__ = False  # no test, whatever its name

    def __init__(self, measured: GpuPeak | DryRunPeak) -> None:
        self._measured = measured

    @property
    def bytes(self) -> int:
        """The peak until now of what the test allocated in addition to what was there before its setup, on the device with the most."""
        return self._measured.peak_bytes()

    def assume(self, value: Any) -> contextlib.AbstractContextManager[None]:
        """Assume a value, or a size, for what the ``with`` block reads from the GPU in a dry run; on a GPU it has no effect.

        Args:
            value: As of ``DryRun.assume()``.
        """
        return self._measured.assuming(value)


@dataclass(frozen=True)
class Result:
    """A test that was measured."""

    peak_bytes: int
    limit_bytes: int | None
    mode: str
    failure: str | None


class Gate:
    """Measures one test at a time."""

    def __init__(self, limit: str | None, is_dry: bool, gpu: str, assumed: Mapping[str, Sequence[str]]) -> None:
        self._limit_bytes = None if limit is None else _parsed(limit, "--vram-max")
        with _blaming("--vram-gpu"):
            find_gpu(gpu)
        self._is_dry, self._gpu = is_dry, gpu
        self._assumed: dict[str, Any] = {}  # for all tests, by line
        for name, texts in assumed.items():
            with _blaming(name):
                self._assumed.update(_checked(dict(map(assumption, texts))))
        self._measured: GpuPeak | DryRunPeak | None = None
        self._running_limit_bytes: int | None = None

    def limit_of(self, item: pytest.Item) -> int | None:
        """Return the limit of a test: that of its closest marker that has one, else that of --vram-max."""
        for marker in item.iter_markers("vram"):
            if "peak" in marker.kwargs:
                return _parsed(marker.kwargs["peak"], f"{item.nodeid}: @pytest.mark.vram: peak")
        return self._limit_bytes

    def assumed_of(self, item: pytest.Item) -> dict[str, Any]:
        """Return what a dry run of a test assumes, by line: by its markers, the closest first, else by --vram-assume, else by the file."""
        assumed = dict(self._assumed)
        for marker in reversed([*item.iter_markers("vram")]):
            with _blaming(f"{item.nodeid}: @pytest.mark.vram"):
                assumed.update(_checked(marker.kwargs.get("assume", {})))
        return assumed

    def check(self, item: pytest.Item) -> None:
        """Raise UsageError if a marker of a test is wrong."""
        for marker in item.iter_markers("vram"):
            if marker.args or not marker.kwargs or not set(marker.kwargs) <= {"peak", "assume"}:
                raise pytest.UsageError(
                    tr("{}: expected @pytest.mark.vram with peak, assume or both, such as {}, found {}").format(
                        item.nodeid, 'vram(peak="2GiB", assume={"model.py:42": 0.5})', _call(marker)
                    )
                )
        self.limit_of(item)
        self.assumed_of(item)

    def begin(self, limit_bytes: int | None, assumed: Mapping[str, Any]) -> None:
        if importlib.util.find_spec("torch") is None:
            pytest.fail(tr("vram measures the GPU memory of PyTorch, which is not installed"), pytrace=False)
        import torch

        from pytest_vram._measure import DryRunPeak, GpuPeak

        self._running_limit_bytes = limit_bytes
        is_dry = self._is_dry or not torch.cuda.is_available()
        measured = DryRunPeak(self._gpu, assumed) if is_dry else GpuPeak(finds_holders=limit_bytes is not None)
        try:
            measured.begin()
        except VramError as error:
            reason = str(error)
        else:
            self._measured = measured
            return
        pytest.fail(tr("vram cannot measure the test: {}").format(reason), pytrace=False)

    def peak_of_running_test(self) -> TestPeak:
        assert self._measured is not None  # begun in the setup of the test that uses the fixture
        return TestPeak(self._measured)

    def end(self) -> Result | None:
        """Return the result; None: no test is measured."""
        measured, self._measured = self._measured, None
        if measured is None:
            return None
        measured.end()
        peak_bytes, limit_bytes = measured.peak_bytes(), self._running_limit_bytes
        failure = None
        if limit_bytes is not None and peak_bytes > limit_bytes:
            failure = _failure(measured, peak_bytes, limit_bytes)
        return Result(peak_bytes, limit_bytes, measured.mode, failure)


@contextlib.contextmanager
def _blaming(name: str) -> Iterator[None]:
    """Turn errors about a value into one that ends the run and names the option, or the test and its marker."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{name}: {error}") from None


def _parsed(size: Any, name: str) -> int:
    with _blaming(name):
        return parse_limit(size)


def _checked(assumed: Any) -> Mapping[str, Any]:
    if not isinstance(assumed, Mapping):
        raise TypeError(tr("assume: expected a dict such as {{'train.py:42': 0.5}}, found {!r}").format(assumed))
    Values(assumed)
    return assumed


def _call(marker: pytest.Mark) -> str:
    words = [repr(value) for value in marker.args]
    words += [f"{name}={value!r}" for name, value in marker.kwargs.items()]
    return f"vram({', '.join(words)})"


def _failure(measured: GpuPeak | DryRunPeak, peak_bytes: int, limit_bytes: int) -> str:
    lines = [
        tr("the test's peak of GPU memory is {}, above its limit of {} ({})").format(
            format_size(peak_bytes), format_size(limit_bytes), shown_mode(measured.mode)
        )
    ]
    holders = measured.holders()
    if isinstance(holders, str):
        return f"{lines[0]}; {holders}"
    lines.append(tr("the largest holders at the peak:"))
    for holder in holders:
        blocks = (tr("{} block") if holder.blocks == 1 else tr("{} blocks")).format(holder.blocks)
        lines.append(f"  {format_size(holder.bytes):>9}  {holder.name}  ({blocks})")
    return "\n".join(lines)


def shown_mode(mode: str) -> str:
    """Return how tests were measured, in the user's language. Files have the English text."""
    for text in (MEASURED, PREDICTED):
        begin = text.format("")
        if mode.startswith(begin):
            return tr(text).format(mode.removeprefix(begin))
    return mode


def summary(measured: list[dict[str, Any]]) -> list[str]:
    """Return the lines about all measured tests, those with the largest peaks first."""
    modes = sorted({test["vram_mode"] for test in measured})
    count = tr("{} test measured: {}") if len(measured) == 1 else tr("{} tests measured: {}")
    lines = [count.format(len(measured), tr(", ").join(map(shown_mode, modes)))]
    titles = ((tr("peak"), 9), (tr("limit"), 9), (tr("of limit"), 8))
    lines.append("".join(f"{' ' * (width - columns_of(title))}{title}  " for title, width in titles) + tr("test"))
    ordered = sorted(measured, key=lambda test: (-test["vram_peak_bytes"], test["nodeid"]))
    for test in ordered[:_LISTED]:
        peak, limit = test["vram_peak_bytes"], test["vram_limit_bytes"]
        share = "-" if limit is None else f"{100 * peak / limit:.0f} %"
        size = "-" if limit is None else format_size(limit)
        lines.append(f"{format_size(peak):>9}  {size:>9}  {share:>8}  {test['nodeid']}")
    if len(ordered) > _LISTED:
        lines.append(tr("and {} with smaller peaks").format(len(ordered) - _LISTED))
    return lines
