"""The bill of materials of a release: which libraries are compiled into its files, as CycloneDX.

The libraries are linked statically, so no scanner finds them in a wheel. What is known of each comes from
tools/third_party.toml and cmake/deps.cmake.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from source_files import ROOT
from steps import StepFailed

DOWNLOAD = re.compile(r"vram_dependency\((\S+)\s+(https://\S+)\s+([0-9a-f]{64})")
VERSION = re.compile(r"(\d+(?:\.\d+)+)(?:\.tar\.\w+)$")


@dataclass(frozen=True)
class Library:
    name: str
    license: str  # an SPDX identifier
    purl: str
    version: str | None = None  # known where deps.cmake names one release
    url: str = ""
    sha256: str = ""
    minimum: str = ""


def libraries(table: str, cmake: str) -> list[Library]:
    """Returns the libraries of third_party.toml with the releases that deps.cmake names.

    Raises:
        StepFailed: A library has neither a release in deps.cmake nor a minimum version.
    """
    releases = {name: (url, sha256) for name, url, sha256 in DOWNLOAD.findall(cmake)}
    found = []
    for name, known in tomllib.loads(table).items():
        url, sha256 = releases.get(known.get("cmake", ""), ("", ""))
        version = VERSION.search(url)
        minimum = known.get("minimum", "")
        if not version and not minimum:
            raise StepFailed(
                f"third_party.toml: {name}: expected a release of it in cmake/deps.cmake, or `minimum`; found neither"
            )
        found.append(
            Library(name, known["license"], known["purl"], version[1] if version else None, url, sha256, minimum)
        )
    return found


def bill_of_materials(version: str, files: Sequence[Path], contained: Sequence[Library]) -> str:
    """Returns the bill of materials as CycloneDX 1.6 in JSON, valid by its schema.

    Args:
        version: That of vram.
        files: The wheels and the source distribution that it describes.
        contained: The libraries compiled into them.
    """
    product = Component(
        name="vram",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref="vram",
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
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
        bom.components.add(_component(library))
    bom.register_dependency(product, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem:
        raise StepFailed(f"the bill of materials is not valid CycloneDX: {problem}")
    return text + "\n"


def _component(library: Library) -> Component:
    purl = PackageURL.from_string(library.purl)
    if library.version:
        purl = PackageURL(purl.type, purl.namespace, purl.name, library.version)
    component = Component(
        name=library.name,
        version=library.version,
        type=ComponentType.LIBRARY,
        bom_ref=library.name,
        scope=ComponentScope.REQUIRED,
        licenses=[LicenseFactory().make_from_string(library.license)],
        purl=purl,
    )
    if library.url:
        source = HashType(alg=HashAlgorithm.SHA_256, content=library.sha256)
        component.external_references.add(
            ExternalReference(type=ExternalReferenceType.SOURCE_DISTRIBUTION, url=XsUri(library.url), hashes=[source])
        )
    if library.minimum:
        component.properties.add(Property(name="vram:minimum_version", value=library.minimum))
    return component


def of_this_repository(version: str, files: Sequence[Path]) -> str:
    """Returns the bill of materials of these files, built from this checkout."""
    table = (ROOT / "tools" / "third_party.toml").read_text()
    cmake = (ROOT / "cmake" / "deps.cmake").read_text()
    return bill_of_materials(version, files, libraries(table, cmake))
