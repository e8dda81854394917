"""What is offered, by the options that were given."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sandbox.languages import BUILT_IN, load
from sandbox.offer import TierChoice
from sandbox.tiers import docker, namespaces


@pytest.mark.parametrize(
    ("module", "kind", "options"),
    [
        (docker, "Docker", {"image": "other", "runtime": "runsc"}),
        (namespaces, "Namespaces", {"interpreter": Path("/opt/python")}),
    ],
)
def test_options_reach_their_tier(
    module: ModuleType, kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, kind, lambda settings: settings)
    opened: Any = TierChoice(kind.lower(), **options).opened()
    assert opened == module.Settings(**options)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[go]\nsource = "a b"\nrun = ["go"]\nversion = ["go"]', "go.source: String should match"),
        ('[go]\nsource = "a"\nrun = ["go"]', "go.version: Field required"),
        ('[go]\nsource = "a"\nrun = ["go"]\nversion = ["go"]\nbinary = "a"', "go: .*or neither"),
        ("go = 1", "go: Input should be"),
        ("go", "is not TOML"),
    ],
)
def test_a_fault_in_a_languages_file_names_the_language(
    tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "languages.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=says):
        load(file)


def test_a_languages_file_adds_to_the_built_in_ones(tmp_path: Path) -> None:
    file = tmp_path / "languages.toml"
    file.write_text('[go]\nsource = "a"\nrun = ["go"]\nversion = ["go"]')
    assert set(load(file)) == {*BUILT_IN, "go"}
