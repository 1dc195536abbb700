"""Gets the sources of libraries, and small root folders for tests of packages, from Debian or Ubuntu.

The archive is that of the system's apt, whose configuration and state do not change.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import steps
from steps import StepFailed

# The variables of the caller's environment that the build of packages gets: paths and network settings. Others, such as
# CFLAGS or CMAKE_ARGS, would change what is built.
PASSED = {"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "APT_CONFIG", "SOURCE_DATE_EPOCH", "CMAKE_BUILD_PARALLEL_LEVEL"}
PASSED |= {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
# Some programs read these in upper case.
PASSED_LOWER = {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"}
PASSED_PREFIXES = ("CCACHE_", "ZIG_", "PIP_")
# Seconds after which unpacked sources are compared with the archive again.
SOURCES_AGE = 24 * 3600


def chosen_environment() -> dict[str, str]:
    """Returns the environment of every command that the build of packages runs."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED or name.lower() in PASSED_LOWER or name.startswith(PASSED_PREFIXES)
    }
    return {**passed, "LANG": "C.UTF-8"}


def call(*command: str | Path, **settings: str) -> str:
    """Runs a command as steps.call does, in the environment of the build and with these variables."""
    return steps.call(*command, env=chosen_environment() | settings)


class Lacking(Exception):
    """Names something that a check needs and this machine lacks."""


def need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise Lacking(f"{program} is missing: install {package} (tools/setup.sh wheels does)")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder while it is created: parallel tests wait, and then find it complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _archives() -> list[tuple[str, str, str]]:
    """Returns address, suite and component of each package list of the distribution that apt has, in apt's order."""
    need("apt-get", "apt")
    fields = "$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)"
    listed = call("apt-get", "indextargets", "--format", fields, "Created-By: Packages")
    own = [line.split() for line in listed.splitlines() if line.lower().startswith(f"{_os_release()['ID']} ")]
    return list(dict.fromkeys((uri.rstrip("/"), suite, component) for _, uri, suite, component in own))


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


def source_packages(names: list[str], into: Path) -> dict[str, Path]:
    """Sources of this release's packages with its patches, unpacked below `into`; signatures are checked by apt.

    Existing sources are used for a day, and after that only if the archive has nothing newer.
    """
    need("dpkg-source", "dpkg-dev")
    state = into / "apt"
    for folder in (state / "lists" / "partial", state / "archives" / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    release = _os_release().get("VERSION_CODENAME", "")
    archives = [archive for archive in _archives() if archive[1].split("-")[0] == release]
    if not archives:
        raise StepFailed(f"apt has no package lists of this release ({release or 'unnamed'}): run apt-get update first")
    lines = "".join(f"deb-src {uri} {suite} {component}\n" for uri, suite, component in archives)
    (state / "sources.list").write_text(lines)
    options = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "APT::Sandbox::User": "",  # root's apt would give up its rights, and could not write here then
    }
    apt = ["apt-get", "-q", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    stale = [name for name in names if _age(into / name / "ready") > SOURCES_AGE]
    missing = [name for name in stale if not (into / name / "ready").is_file()]
    if stale:
        try:
            call(*apt, "update")
        except StepFailed as failure:
            if missing:
                raise
            print(f"the sources of {', '.join(stale)} may be old: {failure}", file=sys.stderr)
            stale = []
    for name in stale:
        folder = into / name
        if name in missing or not _is_newest(folder, call(*apt, "source", "--print-uris", name)):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _run_in(folder, [*apt, "source", name])
        (folder / "ready").touch()
    return {name: next(path for path in (into / name).iterdir() if path.is_dir()) for name in names}


def _age(file: Path) -> float:
    """Returns the age in seconds; infinity if the file does not exist."""
    return time.time() - file.stat().st_mtime if file.is_file() else float("inf")


def _is_newest(folder: Path, uris: str) -> bool:
    """Returns whether a folder contains the sources that apt would download; lines are 'address' name size hash."""
    descriptions = [line.split()[1] for line in uris.splitlines() if line.startswith("'") and ".dsc" in line]
    return bool(descriptions) and all((folder / name).is_file() for name in descriptions)


def debian_root(root: Path, suite: str, architecture: str, packages: list[str]) -> Path:
    """Returns a root folder with a Debian release, created once. For another processor, it is unpacked but not configured."""
    with locked(root):
        if not (root / "ready").is_file():
            need("debootstrap", "debootstrap")
            if os.geteuid() != 0:
                raise Lacking("debootstrap needs root")
            _make_root(root, suite, architecture, packages)
            (root / "ready").touch()
    return root


def _make_root(root: Path, suite: str, architecture: str, packages: list[str]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    is_native = architecture == call("dpkg", "--print-architecture").strip()
    how = ["--variant=minbase", f"--arch={architecture}", f"--include={','.join(packages)}"]
    is_debian = _os_release().get("ID") == "debian"  # elsewhere debootstrap knows Debian's own archive
    mirror = [uri for uri, made, _ in _archives() if "-" not in made][:1] if is_debian else []
    call("debootstrap", *how, *([] if is_native else ["--foreign"]), suite, root, *mirror)
    if not is_native:
        for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
            _unpack(package, root)


def _unpack(package: Path, root: Path) -> None:
    """Unpacks as dpkg-deb -x does, but keeps links to folders (such as /lib)."""
    archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", root], input=archive, check=True)


def _run_in(folder: Path, command: list[str]) -> None:
    """Runs a command as steps.call does, in another folder."""
    call("env", "-C", folder, *command)
