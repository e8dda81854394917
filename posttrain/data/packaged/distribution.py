"""An installed package as a source: its files, version, licence, and the digest of it all.

Always holds: the package's code is not run. Its digest is over the digests that pip recorded of
its files, so that it costs no reading and changes with any of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from posttrain import digest

_CLASSIFIER = "License :: OSI Approved :: "
_BESIDE = (".dist-info", ".data", "__pycache__", "..")


@dataclass(frozen=True)
class Installed:
    """An installed package, by its name in the package index."""

    name: str
    version: str
    licence: str
    sha256: str

    @classmethod
    def find(cls, name: str, install: str | None = None) -> "Installed":
        """The package of that name; ValueError with the command that installs it, if there is none.

        `install` is what pip is to be told, where the name alone is not enough.
        """
        found = _distribution(name, install)
        files = {path.as_posix(): sha256 for path, sha256 in _recorded(found)}
        if not files:
            raise ValueError(f"{name} was not installed by pip: no record says what its files are")
        return cls(name, found.version, _licence(found), digest.of_value(files))

    def told(self) -> dict[str, str]:
        """What goes into the record of an artifact."""
        return dict(self.__dict__)


def resource(name: str, path: str, install: str | None = None) -> Path:
    """The file `path` of an installed package; ValueError if either is not there."""
    file = Path(str(_distribution(name, install).locate_file(path)))
    if not file.is_file():
        raise ValueError(f"the package {name} has no file {path}")
    return file


def _distribution(name: str, install: str | None) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise ValueError(
            f"the package {name} is not installed; run: pip install {install or name}"
        ) from None


def _recorded(found: metadata.Distribution) -> Iterator[tuple[metadata.PackagePath, str]]:
    """Files that came with the package, and their digests as pip recorded them."""
    for path in found.files or ():
        top = path.parts[0]
        if path.hash and not top.endswith(_BESIDE) and "__pycache__" not in path.parts:
            yield path, path.hash.value


def _licence(found: metadata.Distribution) -> str:
    """In the words of the package: an SPDX expression, a classifier, or its licence's title."""
    stated = found.metadata.get_all("License-Expression") or ()
    listed = [
        text.removeprefix(_CLASSIFIER)
        for text in found.metadata.get_all("Classifier") or ()
        if text.startswith(_CLASSIFIER)
    ]
    titles = (line.strip() for text in _licences(found) for line in text.splitlines())
    return ", ".join(stated or listed) or next(filter(None, titles), "not stated")


def _licences(found: metadata.Distribution) -> Iterator[str]:
    yield from found.metadata.get_all("License") or ()
    for path in found.files or ():
        if "LICENSE" in path.name:
            yield path.read_text("utf-8")
