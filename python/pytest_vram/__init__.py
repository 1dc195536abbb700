"""The pytest plug-in of vram: limits for the peak of GPU memory of tests. See docs/pytest.md.

pytest imports this module in every run of an environment that has vram, so it is a package of its own that imports neither
``vram`` nor PyTorch until a test is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_vram._gate import Gate, TestPeak


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("vram", "GPU memory of tests (vram)")
    group.addoption("--vram-max", metavar="SIZE", help="fail each test whose peak of GPU memory is above, such as 2GiB")
    group.addoption(
        "--vram-dry",
        action="store_true",
        help="predict the memory by dry runs even if there is a GPU (without one, this is the default)",
    )
    group.addoption(
        "--vram-gpu",
        metavar="GPU",
        default="H200",
        help='the GPU that dry runs pretend to have: a name ("RTX 4090") or its memory (default: H200)',
    )
    group.addoption(
        "--vram-assume",
        action="append",
        default=[],
        metavar="FILE:LINE=VALUE",
        help="what dry runs assume where a test reads values of the GPU, such as model.py:42=0.5; may be repeated",
    )
    parser.addini(
        "vram_assume",
        "what dry runs assume where tests read values of the GPU: lines FILE:LINE=VALUE (vram)",
        "linelist",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the options."""
    config.addinivalue_line(
        "markers",
        'vram(peak="2GiB", assume={"model.py:42": 0.5}): fail if the test\'s peak of GPU memory is above; replaces --vram-max; what a dry run '
        "assumes where it reads values of the GPU (vram)",
    )
    config.pluginmanager.register(_Hooks(config), "vram-gate")


@pytest.fixture
def vram_peak(request: pytest.FixtureRequest) -> TestPeak:
    """Return the peak of the test's GPU memory: ``vram_peak.bytes`` is the peak until now, since the test's setup began."""
    hooks = request.config.pluginmanager.get_plugin("vram-gate")
    assert isinstance(hooks, _Hooks)
    return hooks.gate.peak_of_running_test()


class _Hooks:
    """Creates the gate when the first test needs it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._gate: Gate | None = None
        self._measured: dict[str, dict[str, Any]] = {}  # by node
        if config.getoption("vram_max") is not None or config.getoption("vram_dry"):
            _ = self.gate  # checks the options now

    @property
    def gate(self) -> Gate:
        if self._gate is None:
            from pytest_vram._gate import Gate

            option = self._config.getoption
            assumed = {"vram_assume": self._config.getini("vram_assume"), "--vram-assume": option("vram_assume")}
            self._gate = Gate(option("vram_max"), option("vram_dry"), option("vram_gpu"), assumed)
        return self._gate

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("vram") is not None:
                self.gate.check(item)  # a wrong marker ends the run before the first test

    # After what skips a test, and before pytest's own implementation, which sets up its fixtures.
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        uses_fixture = "vram_peak" in getattr(item, "fixturenames", ())
        if self._gate is None and not uses_fixture:
            return
        limit_bytes = self.gate.limit_of(item)
        if limit_bytes is not None or uses_fixture:
            self.gate.begin(limit_bytes, self.gate.assumed_of(item))

    # After pytest's own implementation, which calls the test function.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._end(item, fails=True)

    # A test or a fixture failed.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self._end(item, fails=False)

    def _end(self, item: pytest.Item, *, fails: bool) -> None:
        result = self._gate.end() if self._gate is not None else None
        if result is None:
            return
        # Reports carry it from the workers of pytest-xdist, and into JUnit XML.
        item.user_properties += [
            ("vram_peak_bytes", result.peak_bytes),
            ("vram_limit_bytes", result.limit_bytes),
            ("vram_mode", result.mode),
        ]
        if fails and result.failure is not None:
            pytest.fail(result.failure, pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)  # those of a call come again with its teardown
        if "vram_peak_bytes" in properties:
            self._measured[report.nodeid] = {"nodeid": report.nodeid, **properties}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._measured:
            from pytest_vram._gate import summary

            terminalreporter.section("GPU memory (vram)")
            for line in summary(list(self._measured.values())):
                terminalreporter.line(line)
