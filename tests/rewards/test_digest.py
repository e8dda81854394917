"""A version digest changes with whatever may change verdicts, and with nothing else."""

import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from rewards.verifiers.digest import closure, version_digest


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A verifier package `graded`, with a helper, data, and a module it does not use."""
    root = tmp_path / "graded"
    root.mkdir()
    for name, text in {
        "__init__.py": "def verify():\n    from graded.rules import RULES\n    return RULES\n",
        "rules.py": "from rewards.schema import Item\nRULES = 1\n",
        "other.py": "OTHER = 1\n",
        "words.txt": "one two\n",
    }.items():
        (root / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield root
    for name in [name for name in sys.modules if name.partition(".")[0] == "graded"]:
        del sys.modules[name]


def test_the_closure_follows_imports_wherever_they_stand(package: Path) -> None:
    found = closure("graded")
    assert {"graded", "graded.rules", "rewards", "rewards.schema"} <= set(found)
    assert not {"graded.other", "rewards.client"} & set(found)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda root: (root / "rules.py").write_text("RULES = 2\n"), True),
        (lambda root: (root / "words.txt").write_text("one\n"), True),
        (lambda root: (root / "more.txt").write_text("three\n"), True),
        (lambda root: (root / "other.py").write_text("OTHER = 2\n"), False),
        (lambda root: (root / "__pycache__").mkdir(), False),
    ],
)
def test_what_changes_it(package: Path, change: Callable[[Path], object], differs: bool) -> None:
    before = version_digest("graded", ["pydantic"])
    assert version_digest("graded", ["pydantic"]) == before
    change(package)
    assert (version_digest("graded", ["pydantic"]) != before) == differs


def test_settings_that_decide_count(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for model in ("a", "b", "a"):
        monkeypatch.setenv("JUDGE_MODEL", model)
        found.add(version_digest("graded", ["pydantic"], ["JUDGE_MODEL"]))
    assert len(found) == 2


def test_versions_of_distributions_count(package: Path) -> None:
    assert version_digest("graded", ["pydantic"]) != version_digest("graded", ["pytest"])
    with pytest.raises(PackageNotFoundError):
        version_digest("graded", ["no-such-distribution"])
