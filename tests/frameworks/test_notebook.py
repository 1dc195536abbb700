"""``%load_ext vram`` in the real IPython: as a shell in this process, and in a notebook that a kernel executes."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WHY = "is not installed; tools/requirements-frameworks.txt has the versions"
interactive: Any = pytest.importorskip("IPython.core.interactiveshell", reason=f"IPython {WHY}")
nbclient: Any = pytest.importorskip("nbclient", reason=f"nbclient {WHY}")
nbformat: Any = pytest.importorskip("nbformat", reason=f"nbformat {WHY}")

from vram.monitoring import _region  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("VRAM_BINARY", ROOT / "build" / "release" / "src" / "vram"))
NO_GPU = "GPU memory unknown: no GPU here"


@pytest.fixture(name="shell")
def _shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell with the extension. It has no framework, whatever the other tests have imported."""
    monkeypatch.setattr(_region, "used_framework", lambda: None)
    monkeypatch.setattr(_region, "_unknown_reason", lambda _framework: "no GPU here")
    interactive.InteractiveShell.clear_instance()
    shell = interactive.InteractiveShell.instance(colors="nocolor")
    shell.history_manager.enabled = False
    run(shell, "%load_ext vram")
    yield shell
    run(shell, "%unload_ext vram")
    interactive.InteractiveShell.clear_instance()


def run(shell: Any, cell: str) -> Any:
    return shell.run_cell(cell, store_history=True)


Printed = Callable[[], str]


@pytest.fixture(name="printed")
def _printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """What has been printed since the last call."""
    capsys.readouterr()
    return lambda: capsys.readouterr().out


def test_a_cell_runs_as_without_it(shell: Any, printed: Printed) -> None:
    result = run(shell, "%%vram\nimport asyncio\nawait asyncio.sleep(0)\ntext = '''a\n  b'''\nlen(text)")
    assert (result.error_in_exec, result.result) == (None, 5)
    assert shell.user_ns["text"] == "a\n  b"
    lines = printed().splitlines()
    assert lines[-1].startswith("cell [2]: ")
    assert lines[-1].endswith(NO_GPU)
    assert shell.user_ns["_vram"].name == "cell [2]"


def test_an_error_is_the_cells_own(shell: Any, printed: Printed) -> None:
    error = run(shell, "%%vram\n\nraise LookupError('mine')").error_in_exec
    assert (type(error), str(error)) == (LookupError, "mine")
    places = []
    while error.__traceback__:
        places.append((error.__traceback__.tb_frame.f_code.co_filename, error.__traceback__.tb_lineno))
        error.__traceback__ = error.__traceback__.tb_next
    assert [
        line for file, line in places if "vram" in Path(file).parts or "ipython-input" in file or "ipykernel" in file
    ] == [3]
    assert "ended by LookupError" in printed()
    assert isinstance(run(shell, "%%vram\nif True\n  1").error_before_exec, SyntaxError)
    assert run(shell, "1").success


def test_the_figures_are_those_of_the_framework(shell: Any, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    class Counters:
        """A GPU with PyTorch's counters."""

        name = "counted"
        allocated = peak = 0

        def devices(self) -> list[int]:
            return [0]

        def current_device(self) -> int:
            return 0

        def figures(self, _device: int) -> Any:
            from vram._frameworks import Figures

            return Figures(self.allocated, 8 << 30, self.peak, 8 << 30)

        def reset_peaks(self, _device: int) -> None:
            self.peak = self.allocated

        def synchronize(self, _device: int) -> None: ...

        def pci_id(self, _device: int) -> None: ...

    counters = Counters()
    counters.allocated, counters.peak = 1 << 30, 7 << 30
    monkeypatch.setattr(_region, "used_framework", lambda: counters)
    shell.user_ns["gpu"] = counters
    run(shell, "%vram status on")
    run(shell, "%%vram\ngpu.peak = 4 << 30\ngpu.allocated = 3 << 30")
    out = printed()
    assert out.count("GPU 0: +2 GiB, now 3 GiB of 8 GiB reserved (62% unused), peak 4 GiB") == 2  # cell and status line
    assert shell.user_ns["_vram"].peak_bytes == 4 << 30


def test_a_statement_is_measured_and_returns_its_value(shell: Any, printed: Printed) -> None:
    run(shell, "value = %vram 6 * 7")
    assert shell.user_ns["value"] == 42
    run(shell, "%vram other = value + 1")
    assert shell.user_ns["other"] == 43
    assert printed().count("statement: ") == 2
    assert isinstance(run(shell, "%vram 1 / 0").error_in_exec, ZeroDivisionError)
    assert "ended by ZeroDivisionError" in printed()
    run(shell, "%vram")
    assert "allocator" in printed()


def test_other_magics_and_nested_cells(shell: Any, printed: Printed) -> None:
    run(shell, "%%vram\n%%capture captured\nprint('hidden')")
    assert shell.user_ns["captured"].stdout == "hidden\n"
    assert printed().startswith("cell [2]: ")
    run(shell, "%%vram\nget_ipython().run_cell('%%vram\\ninner = 1')\nprint('between')")
    inner, between, outer = printed().splitlines()
    assert (between, shell.user_ns["inner"]) == ("between", 1)
    assert inner.startswith("cell [")
    assert outer.startswith("cell [")
    shell.run_cell_magic("vram", "", "by_program = 2")
    assert shell.user_ns["by_program"] == 2
    assert printed().count("cell [") == 1


def test_quiet_prints_nothing(shell: Any, printed: Printed) -> None:
    run(shell, "%%vram --quiet\nx = 1")
    assert printed() == ""
    assert shell.user_ns["_vram"].error is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%%vram --loud\n1", "unrecognized arguments: --loud"),
        ("%%vram --stacks python\n1", "add --record FILE"),
        ("%%vram --record 'a\n1", "No closing quotation"),
        ("%vram status maybe", "expected on or off"),
    ],
)
def test_wrong_options_are_usage_errors(
    shell: Any, line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(shell, f"{line}\nran = True")
    assert type(result.error_in_exec).__name__ == "UsageError"
    assert message in "".join(capsys.readouterr())
    assert "ran" not in shell.user_ns


def test_unloading_leaves_no_hook(shell: Any, printed: Printed) -> None:
    run(shell, "%unload_ext vram")
    before = hooks_of(shell)
    run(shell, "%load_ext vram")
    assert hooks_of(shell) != before
    run(shell, "%reload_ext vram")
    run(shell, "%vram status on")
    run(shell, "%unload_ext vram")
    assert hooks_of(shell) == before
    printed()
    run(shell, "%load_ext vram")
    run(shell, "%%vram\n%unload_ext vram")
    assert hooks_of(shell) == before
    assert printed().startswith("cell [")
    run(shell, "%load_ext vram")


def hooks_of(shell: Any) -> tuple[list[Any], dict[str, list[Any]], list[str]]:
    magics = shell.magics_manager.magics
    names = [f"{kind} {name}" for kind in ("line", "cell") for name in sorted(magics[kind]) if "vram" in name]
    return list(shell.input_transformers_cleanup), {k: list(v) for k, v in shell.events.callbacks.items()}, names


def test_importing_vram_imports_no_ipython() -> None:
    code = "import sys, vram; print(sorted({'IPython', 'tensorboard', 'werkzeug'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[]\n"


def executed(cells: list[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[list[dict[str, Any]]]:
    """The outputs of the cells of a notebook that a kernel executes."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(folder / "jupyter"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    kernels: Any = importlib.import_module("jupyter_client.kernelspec")
    manager: Any = importlib.import_module("jupyter_client.manager").AsyncKernelManager()
    manager._kernel_spec = kernels.KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python", name="here"
    )
    client = nbclient.NotebookClient(
        notebook, km=manager, timeout=120, allow_errors=True, resources={"metadata": {"path": folder}}
    )
    asyncio.run(client.async_execute())
    return [cell["outputs"] for cell in notebook["cells"]]


def test_a_notebook_shows_cells_and_a_status_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cells = [
        "%load_ext vram",
        "%vram status on",
        "%%vram\n1 + 1",
        "raise KeyError",
        "%%vram\n[][1]",
        "%vram status off",
        "2",
    ]
    loaded, status, cell, _, failed, _, _ = executed(cells, monkeypatch, tmp_path)
    assert loaded == []
    assert [output["output_type"] for output in status] == [
        "display_data"
    ]  # one line, which every later cell has updated
    assert status[0]["data"]["text/plain"] == "vram: status off"
    assert [output["output_type"] for output in cell] == ["execute_result", "stream"]
    assert cell[0]["data"]["text/plain"] == "2"
    assert cell[1]["text"].startswith("cell [3]: ")
    assert "GPU memory unknown: no framework that vram knows is imported" in cell[1]["text"]
    assert [(output["output_type"], output.get("ename")) for output in failed] == [
        ("error", "IndexError"),
        ("stream", None),
    ]


def test_a_status_line_has_the_last_cell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, status, _ = executed(["%load_ext vram", "%vram status on", "x = 1"], monkeypatch, tmp_path)
    assert status[0]["data"]["text/plain"].startswith("vram: cell [3]: ")


def test_a_recording_is_shown_in_a_notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not PROGRAM.with_name("libvram_report.so").is_file():
        pytest.skip(f"{PROGRAM.with_name('libvram_report.so')}: not built")
    monkeypatch.setenv("VRAM_LIBRARY", str(PROGRAM.with_name("libvram.so")))
    monkeypatch.setenv("VRAM_PROGRAM", str(PROGRAM))
    leak = ROOT / "demo" / "leak.stacks.pickle.xz"
    cells = [
        "%load_ext vram",
        "%%vram --record run.vtrace\npass",
        f"import vram\nvram.load({str(leak)!r})",
        f"vram.load({str(leak)!r}).show(max_size=10)",
    ]
    _, recorded, shown, limited = executed(cells, monkeypatch, tmp_path)
    assert (tmp_path / "run.vtrace").is_file()
    assert "recorded 0 events: vram report " in "".join(output.get("text", "") for output in recorded)
    report = shown[0]["data"]
    assert report["text/plain"].startswith("<vram.Report '")
    assert 'sandbox="allow-scripts"' in report["text/html"]
    assert "vnd.vram.block" in report["text/html"]
    assert "larger than the limit of 10 B" in limited[0]["data"]["text/html"]
