#!/usr/bin/env python3
"""Writes the bill of materials of the wheels in dist/ to build/release-files/vram.cdx.json: what is compiled into them.

The libraries are linked statically, so no scanner finds them in a wheel. tools/third_party.toml names them; their versions
are those of the sources and packages on the machine that built the wheels, so this runs there, after `make wheels`.
"""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

import release
from source_files import ROOT
from steps import StepFailed

SOURCES = ROOT / "build" / "wheels" / "sources"  # one folder for each source package that the wheels are built from
CHANGELOG = re.compile(r"^\S+ \((\S+)\)")


@dataclass(frozen=True)
class Library:
    name: str
    license: str  # an SPDX expression
    origin: PackageURL  # with the version


def version_of_sources(source: str, sources: Path) -> str | None:
    """Returns the version of an unpacked source package, or None if it is not among the sources of the wheels."""
    for changelog in (sources / source).glob("*/debian/changelog"):
        found = CHANGELOG.match(changelog.read_text(errors="replace"))
        if found:
            return found[1]
    return None


def installed_version(package: str) -> str | None:
    """Returns the source version of an installed Debian package, or None if it is not installed."""
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${source:Version}\n", package],
        capture_output=True,
        text=True,
        check=False,
    )
    states = [line.split() for line in asked.stdout.splitlines()]
    return next((state[1] for state in states if state[0] == "ii"), None)


def libraries(
    table: str,
    sources: Path,
    requirements: str,
    *,
    installed: Callable[[str], str | None] = installed_version,
    system: dict[str, str] | None = None,
) -> list[Library]:
    """Returns the libraries of a third_party.toml, with the versions that the wheels were built from.

    Args:
        table: The text of third_party.toml.
        sources: The folder with the source packages that the wheels were built from.
        requirements: The text of requirements-wheels.txt.
        installed: Looks up the version of an installed package.
        system: What /etc/os-release says.

    Raises:
        StepFailed: A version can't be found.
    """
    system = platform.freedesktop_os_release() if system is None else system
    found = []
    for name, known in tomllib.loads(table).items():
        if python := known.get("python"):
            pinned = re.search(rf"^{re.escape(python)}==([^\s;\\]+)", requirements, re.MULTILINE)
            if not pinned:
                raise StepFailed(f"{name}: expected {python}==VERSION in tools/requirements-wheels.txt, found none")
            origin = PackageURL("pypi", name=python, version=pinned[1])
        else:
            version = version_of_sources(known["source"], sources) or installed(known["package"])
            if version is None:
                raise StepFailed(
                    f"{name}: expected the sources of {known['source']} in {sources}, or the package {known['package']}; found neither. "
                    "Run this after `make wheels`, on the same machine"
                )
            distribution = f"{system['ID']}-{system['VERSION_ID']}"
            qualifiers = {"arch": "source", "distro": distribution}
            origin = PackageURL("deb", system["ID"], known["source"], version, qualifiers)
        found.append(Library(name, known["license"], origin))
    return found


def bill_of_materials(version: str, files: Sequence[Path], contained: Sequence[Library]) -> str:
    """Returns the bill of materials as CycloneDX 1.6 in JSON, valid by its schema.

    Args:
        version: That of vram.
        files: The wheels and the source distribution that it describes.
        contained: The libraries compiled into the wheels.
    """
    licenses = LicenseFactory()
    product = Component(
        name="vram",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref="vram",
        licenses=[licenses.make_from_string("Apache-2.0")],
        purl=PackageURL("pypi", name="vram", version=version),
        components=[
            Component(
                name=file.name,
                type=ComponentType.FILE,
                bom_ref=file.name,
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(file.read_bytes()).hexdigest())],
            )
            for file in files
        ],
    )
    bom = Bom()
    bom.metadata.component = product
    for library in contained:
        bom.components.add(
            Component(
                name=library.name,
                version=library.origin.version,
                type=ComponentType.LIBRARY,
                bom_ref=library.name,
                scope=ComponentScope.REQUIRED,
                licenses=[licenses.make_from_string(library.license)],
                purl=library.origin,
            )
        )
    bom.register_dependency(product, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem:
        raise StepFailed(f"the bill of materials is not valid CycloneDX: {problem}")
    return text + "\n"


def main() -> int:
    requirements = ROOT / "tools" / "requirements-wheels.txt"
    try:
        version = release.version_of((ROOT / "CMakeLists.txt").read_text())
        files = release.built_files(ROOT / "dist", version)
        table = (ROOT / "tools" / "third_party.toml").read_text()
        contained = libraries(table, SOURCES, requirements.read_text() if requirements.is_file() else "")
        text = bill_of_materials(version, files, contained)
    except StepFailed as failure:
        print(f"sbom: {failure}", file=sys.stderr)
        return 1
    release.OUT.mkdir(parents=True, exist_ok=True)
    (release.OUT / release.BILL).write_text(text)
    print(f"{release.OUT / release.BILL}: {len(contained)} libraries in {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
