"""Installed packages as sources: identity by content, licence in their own words."""

import hashlib
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from posttrain.data.packaged.distribution import Installed, resource


def install(site: Path, about: str, **files: str) -> None:
    """A package `mossy` as pip leaves it: files, metadata, a record with their digests."""
    info = site / "mossy-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    written = {f"mossy/{name.replace('__', '.')}": text for name, text in files.items()}
    lines = []
    for path, text in written.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        sha256 = urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={sha256},{len(text)}")
    (info / "LICENSE").write_text("\n  The Moss License\n\nGrow.\n")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mossy\nVersion: 1.0\n{about}")
    lines += ["mossy/__pycache__/a.pyc,,", "mossy-1.0.dist-info/LICENSE,,"]
    lines += ["mossy-1.0.dist-info/INSTALLER,sha256=abc,4", "mossy-1.0.dist-info/RECORD,,"]
    (info / "RECORD").write_text("\n".join(lines))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_equal_files_have_equal_digests_and_other_files_another(site: Path) -> None:
    install(site, "", a__txt="moss", b__txt="fern")
    first = Installed.find("mossy")
    install(site, "Summary: said otherwise\n", b__txt="fern", a__txt="moss")
    assert Installed.find("mossy") == first
    install(site, "", a__txt="moss", b__txt="ferns")
    assert Installed.find("mossy").sha256 != first.sha256


@pytest.mark.parametrize(
    ("about", "licence"),
    [
        ("License-Expression: MIT\n", "MIT"),
        ("Classifier: License :: OSI Approved :: Apache Software License\n", "Apache Software"),
        ("License:       Apache License\n", "Apache License"),
        ("", "The Moss License"),
    ],
)
def test_the_licence_is_what_the_package_says(site: Path, about: str, licence: str) -> None:
    install(site, about, a__txt="moss")
    assert licence in Installed.find("mossy").licence


def test_what_is_not_there_is_told_with_what_to_do(site: Path) -> None:
    with pytest.raises(ValueError, match="mossy is not installed; run: pip install --no-deps m"):
        Installed.find("mossy", "--no-deps mossy")
    install(site, "", a__txt="moss")
    assert resource("mossy", "mossy/a.txt").read_text() == "moss"
    with pytest.raises(ValueError, match=r"the package mossy has no file mossy/b\.txt"):
        resource("mossy", "mossy/b.txt")


def test_a_package_without_a_record_has_no_identity(site: Path) -> None:
    install(site, "")
    (site / "mossy-1.0.dist-info" / "RECORD").unlink()
    with pytest.raises(ValueError, match="no record says what its files are"):
        Installed.find("mossy")
