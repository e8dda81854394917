"""Kinds of errors: the catalogue and its page agree, and each fault has the code it should."""

import errno
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from posttrain import errors
from posttrain.errors import CATALOGUE, Exit, Kind, told
from posttrain.liveness import Stalled
from posttrain.registry import Refused
from posttrain.services import ServiceFailed
from tests.core.runs import SMALL, ended, write

PAGE = Path("docs/errors.md")


def test_the_page_has_the_catalogue_and_nothing_else() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| E")]
    assert rows == [
        f"| {kind.code} | {kind.exit.value} | {kind.cause} | {kind.remedy} |" for kind in CATALOGUE
    ]


def test_codes_are_unique_and_tell_the_exit_code() -> None:
    assert len({kind.code for kind in CATALOGUE}) == len(CATALOGUE)
    assert {int(kind.code[1]) for kind in CATALOGUE} == {each.value for each in Exit} - {0}
    for kind in CATALOGUE:
        assert re.fullmatch(r"E\d{3}", kind.code)
        assert int(kind.code[1]) == kind.exit.value
        assert kind.cause
        assert kind.remedy


def test_every_kind_of_the_module_is_in_the_catalogue() -> None:
    kinds = {name: each for name, each in vars(errors).items() if isinstance(each, Kind)}
    assert set(kinds.values()) == set(CATALOGUE)


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(int).validate_python("x")
    return caught.value


FAULTS = [
    (RuntimeError("stage sft failed"), errors.STAGE_FAILED),
    (RuntimeError("interrupted; run it again"), errors.INTERRUPTED),
    (ValueError("r.yaml:1: no"), errors.WRONG_INPUT),
    (invalid(), errors.WRONG_VALUE),
    (PermissionError(errno.EACCES, "Permission denied", "x"), errors.UNUSABLE_PATH),
    (FileNotFoundError(errno.ENOENT, "No such file", "no_folder/x.svg"), errors.UNUSABLE_PATH),
    (FileNotFoundError(errno.ENOENT, "No such file"), errors.SYSTEM),
    (ModuleNotFoundError("no torch", name="torch"), errors.NOT_INSTALLED),
    (ModuleNotFoundError("no such", name="posttrain.nothing"), errors.INTERNAL),
    (Refused("gate"), errors.GATE_REFUSED),
    (ServiceFailed("dead"), errors.SERVICE_FAILED),
    (Stalled("rl"), errors.STALLED),
    (OSError(errno.ENOSPC, "No space left"), errors.DISK_FULL),
    (ConnectionResetError(errno.ECONNRESET, "reset"), errors.SYSTEM),
    (ZeroDivisionError("division"), errors.INTERNAL),
]


@pytest.mark.parametrize(("fault", "kind"), FAULTS, ids=lambda each: str(each)[:20])
def test_each_fault_has_its_kind(fault: Exception, kind: Kind) -> None:
    message, found = told(fault)
    assert found is kind
    assert message


def test_an_error_line_ends_with_its_code(tmp_path: Path) -> None:
    wrong = ended(tmp_path, "plan", str(write(tmp_path, SMALL.replace("seed: 1", "seed: x"))))
    assert (wrong.code, wrong.err.endswith(" (E201)\n")) == (2, True)
    nowhere = ended(tmp_path, "plan", str(write(tmp_path, SMALL)), "--svg", "no_folder/x.svg")
    assert (nowhere.code, nowhere.err.endswith(" (E204)\n")) == (2, True)
    misused = ended(tmp_path, "plan")
    assert (misused.code, misused.err.endswith(" (E202)\n")) == (2, True)
