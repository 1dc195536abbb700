"""What Python runs at its start in programs under ``vram run``: this folder is first on their PYTHONPATH.

Right after torch or cupy has been imported, the pool is put under it, and the recording begins. Until then nothing of
vram is loaded. Whatever goes wrong here is one line on standard error, said once by a program and its children, and the
program continues without the pool, or without being recorded; under ``vram run --strict`` the process ends with exit code 3.
The user's own sitecustomize, if there is one, runs as it would have. Under ``vram run --dry``, the package is there for
``python -m vram.dry``, also where the program runs in another environment.
"""

import atexit
import contextlib
import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))
POOLED = ("torch", "cupy")
FRAMEWORKS = (*POOLED, "jax", "tensorflow")
_begun: "set[str]" = set()  # the frameworks that were met
# Translated when they are printed (tools/catalogue.py finds them here).
_NO_POOL = "the program runs without the pool: {}"
_NOT_RECORDED = "the program is not recorded: {}"
_NO_FLIGHT_RECORDER = "the program has no flight recorder: {}"
ENVIRONMENT = 3  # the exit code of vram's own commands where the environment lacks something


class _State:
    is_recorded_in_part = False  # under --strict


def _load_vram() -> ModuleType:
    """The package that this file belongs to, also where the program runs in another environment."""
    if "vram" not in sys.modules:
        package = os.path.dirname(FOLDER)
        spec = importlib.util.spec_from_file_location(
            "vram", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["vram"] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules["vram"]
            raise
    return sys.modules["vram"]


def _warn(text: str) -> None:
    """One line, once: the children of a program that has said it stay silent."""
    if os.environ.get("VRAM_SAID") == text:
        return
    os.environ["VRAM_SAID"] = text
    _print("vram: " + text)


def _print(line: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a closed standard error is no reason to fail
        print(line, file=sys.stderr, flush=True)


def _is_strict() -> bool:
    return os.environ.get("VRAM_STRICT") == "1"


def tr(text: str) -> str:
    """The text in the user's language; English if the package cannot be imported."""
    try:
        _load_vram()
        return str(importlib.import_module("vram._texts").tr(text))
    except Exception:
        return text


def _fail(text: str, error: Exception) -> None:
    """Says what could not be set up; under --strict that ends the process, whatever the program would catch."""
    line = tr(text).format(_first_line(error))
    if not _is_strict():
        _warn(line)
        return
    _print(tr("vram: error: {}; --strict ends it").format(line))
    _end()


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    with contextlib.suppress(Exception):  # what C code printed
        import ctypes

        ctypes.CDLL(None).fflush(None)
    os._exit(ENVIRONMENT)


def _enable(framework: str) -> None:
    try:
        import warnings

        vram = _load_vram()
        limit = os.environ.get("VRAM_LIMIT")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if framework == "cupy":
                vram.cupy.enable()
                return
            enabled = vram.enable(device_limit=int(limit) if limit else None)
        if enabled.notes:
            _warn("; ".join(enabled.notes))
    except Exception as error:
        _fail(_NO_POOL, error)


def _record() -> None:
    try:
        recording = _load_vram().recording
        recording.record_from_environment(requires_driver=_is_strict())
        atexit.register(_finish, recording, _is_first())
    except Exception as error:
        _fail(_NOT_RECORDED, error)


def _attach_flight_recorder() -> None:
    try:
        _load_vram().recording.attach_flight_recorder()  # importing the package starts it
    except Exception as error:
        _fail(_NO_FLIGHT_RECORDER, error)


def _finish(recording: ModuleType, is_first: bool) -> None:
    """Finish at the end of the process; the program's first process reports that it had nothing to record."""
    try:
        if recording.finish_recording() is None and is_first:
            _warn(recording.nothing_recorded())
    except Exception as error:
        _warn(_first_line(error))
        if _is_strict():
            _State.is_recorded_in_part = True


def _is_first() -> bool:
    """Whether this process is the first Python process of the program."""
    return os.environ.get("VRAM_RECORD_FIRST") == str(os.getpid())


def _report_if_empty() -> None:
    """A program that imports no framework may still have used the driver, or started processes that did."""
    if "VRAM_RECORD" not in os.environ or _begun or not _is_first():
        return
    with contextlib.suppress(Exception):
        recording = _load_vram().recording
        # A recording that still runs, as that of a pool, may not have a file yet.
        if not recording.is_recording() and recording.file_of_program() is None:
            _warn(recording.nothing_recorded())


def _check_at_exit() -> None:
    """The last of the program's own functions at exit: the exit code can be changed only by ending here."""
    _report_if_empty()
    if not _is_strict():
        return
    if _State.is_recorded_in_part:
        _end()
    text = _NO_POOL if os.environ.get("VRAM_POOL") == "1" else _NOT_RECORDED
    for framework in FRAMEWORKS:
        if _is_loaded(framework) and framework not in _begun:
            _fail(text, RuntimeError(f"{framework} was loaded past Python's import system"))
    if os.environ.get("VRAM_POOL") == "1" and _begun and _begun.isdisjoint(POOLED):
        _fail_for_others()


def _is_loaded(framework: str) -> bool:
    """From a file: not a stand-in that the program made, a folder of that name, or what only its first use will load."""
    module = sys.modules.get(framework)
    if module is None or type(module).__name__ == "_LazyModule":  # importlib's: to ask it for anything would load it
        return False
    return getattr(module, "__file__", None) is not None


def _is_installed(framework: str) -> bool:
    try:
        spec = importlib.util.find_spec(framework)
    except (ImportError, ValueError):  # ValueError: a module without a spec was put in its place
        return framework in sys.modules
    return spec is not None and spec.loader is not None


def _fail_for_others() -> None:
    imported = " and ".join(sorted(_begun))
    _fail(_NO_POOL, RuntimeError(f"it is PyTorch's and CuPy's, and the program imports {imported}"))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _begin(framework: str) -> None:
    _begun.add(framework)
    if os.environ.get("VRAM_POOL") == "1":
        if framework in POOLED:
            _enable(framework)
        elif _is_strict() and not any(map(_is_installed, POOLED)):
            _fail_for_others()  # else it may import one of those later: _check_at_exit()
    if "VRAM_RECORD" in os.environ:
        _record()
    elif "VRAM_FLIGHT" in os.environ:
        _attach_flight_recorder()


class _ThenBegin(Loader):
    """A framework's own loader, and vram after it."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> "ModuleType | None":
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        _begin(module.__name__)


class _Finder(MetaPathFinder):
    """Finds a framework as the finders behind it do, with another loader."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> "ModuleSpec | None":
        if fullname not in FRAMEWORKS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)  # type: ignore[arg-type]
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _ThenBegin(spec.loader)
                return spec
        return None


def _run_the_users_own() -> None:
    others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != FOLDER]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("VRAM_POOL") == "1" or "VRAM_RECORD" in os.environ or "VRAM_FLIGHT" in os.environ:
    sys.meta_path.insert(0, _Finder())
    if "VRAM_RECORD" in os.environ:
        os.environ.setdefault("VRAM_RECORD_FIRST", str(os.getpid()))
    atexit.register(_check_at_exit)  # the first to be registered is the last to run
    for _framework in filter(_is_loaded, FRAMEWORKS):  # a .pth file's import came before
        _begin(_framework)
if os.environ.pop("VRAM_DRY", "") == "1":  # not for the program's children
    _load_vram()
_run_the_users_own()
