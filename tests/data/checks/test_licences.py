"""Licences: what is not known to be allowed goes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from posttrain.data.checks.licences import Parameters, judged
from posttrain.data.checks.spdx import _IDENTIFIERS, identifier, permitted
from tests.data.checks.samples import checked, dataset, removed

ALLOW = ["CC-BY-4.0", "MIT", "apache 2.0"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Apache License, Version 2.0", "Apache-2.0"),
        ("apache-2.0", "Apache-2.0"),
        ("Apache2.0", "Apache-2.0"),
        ("The MIT License", "MIT"),
        ("mit license (MIT)", "MIT"),
        ("MIT (see GPL-3.0)", None),
        ("Creative Commons Attribution 4.0 International (CC BY 4.0)", "CC-BY-4.0"),
        ("Attribution-NonCommercial 4.0 International", "CC-BY-NC-4.0"),
        ("Attribution 4.0 (CC BY-NC 4.0)", None),
        ("cc_by_sa_4_0", "CC-BY-SA-4.0"),
        ("cc-by-4.0", "CC-BY-4.0"),
        ("CC BY 4.0", "CC-BY-4.0"),
        ("Creative Commons Attribution 4.0 International", "CC-BY-4.0"),
        ("Creative Commons Attribution-NonCommercial-ShareAlike 3.0", "CC-BY-NC-SA-3.0"),
        ("https://creativecommons.org/licenses/by-nc/4.0/", "CC-BY-NC-4.0"),
        ("http://creativecommons.org/licenses/by-sa/3.0/legalcode", "CC-BY-SA-3.0"),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
        ("CC0", "CC0-1.0"),
        ("odc-by", "ODC-By-1.0"),
        ("ODC-BY-1.0", "ODC-By-1.0"),
        ("BSD 3-Clause", "BSD-3-Clause"),
        ("New BSD License", "BSD-3-Clause"),
        ("GPLv3", "GPL-3.0-only"),
        ("GNU General Public License v3.0", "GPL-3.0-only"),
        ("LGPL-2.1", "LGPL-2.1-only"),
        ("cdla-permissive-2.0", "CDLA-Permissive-2.0"),
        ("cc-by", None),
        ("CC-BY-5.0", None),
        ("GPL", None),
        ("Apache", None),
        ("other", None),
        ("unknown", None),
        ("proprietary MIT-like", None),
        ("", None),
    ],
)
def test_common_spellings(written: str, meant: str | None) -> None:
    assert identifier(written) == meant


@given(st.sampled_from(_IDENTIFIERS), st.sampled_from([str.lower, str.upper, str.title]))
def test_identifiers_are_known_in_any_case(name: str, change: Any) -> None:
    assert identifier(change(name)) == name
    assert identifier(change(name).replace("-", " ")) == name


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT OR GPL-3.0-only", True),
        ("GPL-3.0-only or mit", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT AND CC-BY-4.0", True),
        ("MIT AND GPL-3.0-only OR GPL-2.0-only", False),
        ("MIT OR something", True),
        ("MIT AND something", False),
        ("(MIT OR Apache-2.0)", True),
        ("(MIT OR X) AND GPL-3.0-only", False),
        ("MIT OR (X AND Y)", False),
        ("Apache-2.0 WITH LLVM-exception", False),
    ],
)
def test_expressions(expression: str, allowed: bool) -> None:
    assert permitted(expression, frozenset({"MIT", "CC-BY-4.0", "Apache-2.0"}))[0] == allowed


def test_rows_stay_only_if_all_that_is_stated_is_allowed() -> None:
    rows: list[dict[str, Any]] = [
        {"text": "a", "licence": "CC BY 4.0"},
        {"text": "b"},
        {"text": "c", "license": "cc-by-nc-4.0"},
        {"text": "d", "source": "forum"},
        {"text": "e", "source": "lab", "licence": "MIT"},
        {"text": "f", "source": "elsewhere"},
        {"text": "g", "licence": ["MIT", "other"]},
        {"text": "h", "source": "banned", "licence": "MIT"},
        {"text": "i", "licence": 7},
        {"text": "j", "licence": ""},
    ]
    outcome = checked(
        "licences", dataset(rows), allow=ALLOW, exclude_sources=["banned"],
        sources={"forum": "Apache 2.0", "lab": "GPL-3.0-only"},
    )  # fmt: skip
    assert removed(outcome) == [2, 3, 5, 6, 7, 8, 9, 10]
    assert outcome.report.reasons == {
        "unstated": 2, "not_allowed": 2, "unknown": 3, "excluded_source": 1,
    }  # fmt: skip
    assert [(e.row, e.field, e.detail) for e in outcome.report.examples][1] == (
        3, "license", "cc-by-nc-4.0",
    )  # fmt: skip


def test_a_dataset_of_unknown_licence_goes_whole_and_of_a_known_one_stays() -> None:
    rows = [{"text": "a"}, {"text": "b", "licence": "MIT"}]
    assert removed(checked("licences", dataset(rows, licence="other"), allow=ALLOW)) == [1, 2]
    assert removed(checked("licences", dataset(rows, licence="MIT"), allow=ALLOW)) == []


@given(st.text(max_size=20))
def test_nothing_stays_that_is_not_known(name: str) -> None:
    asked = Parameters(allow=frozenset({"MIT"}))
    found = list(judged({"licence": name}, None, asked))
    assert bool(found) == (not permitted(name, asked.allow)[0])
    if identifier(name) is None and " or " not in name.casefold():
        assert found


def test_what_to_allow_must_be_known_itself() -> None:
    with pytest.raises(ValidationError, match=r"no SPDX licence: CC-BY; write e.g. CC-BY-4.0"):
        Parameters(allow=frozenset({"CC-BY", "MIT"}))
