"""Probes are repeatable, differ, and cover what they say."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.audit.probe import Probe, drawn
from rewards.audit.probes import MAKERS
from rewards.audit.references import opinions


def probes(verifier: str, seed: int = 0, count: int = 200) -> list[Probe]:
    makers = MAKERS[verifier]
    right = drawn(makers.right, Random(seed), count)
    return [*right, *drawn(makers.wrong, Random(seed), count)]


@pytest.mark.parametrize("verifier", MAKERS)
@given(seed=st.integers(0, 10**9))
def test_each_maker_keeps_to_its_side(verifier: str, seed: int) -> None:
    makers = MAKERS[verifier]
    for right, chosen in ((True, makers.right), (False, makers.wrong)):
        found = list(drawn(chosen, Random(seed), len(chosen)))
        assert [probe.right for probe in found] == [right] * len(chosen)
        assert {probe.item.verifier for probe in found} == {verifier}


@pytest.mark.parametrize("verifier", MAKERS)
def test_a_seed_is_a_set_of_probes(verifier: str) -> None:
    assert probes(verifier, seed=3) == probes(verifier, seed=3)
    assert probes(verifier, seed=3) != probes(verifier, seed=4)


@pytest.mark.parametrize("verifier", MAKERS)
def test_ids_differ_within_a_side(verifier: str) -> None:
    ids = [probe.item.id for probe in probes(verifier)[:200]]
    assert len(set(ids)) == 200


@pytest.mark.parametrize("verifier", MAKERS)
def test_wrong_probes_are_both_near_misses_and_attacks(verifier: str) -> None:
    wrong = [probe for probe in probes(verifier) if not probe.right]
    kinds = [probe.check for probe in wrong]
    assert min(kinds.count("metamorphic"), kinds.count("adversarial")) >= 40
    assert len({probe.rule for probe in wrong}) >= 15


def test_the_reference_of_answers_knows_what_is_plain() -> None:
    plain = [
        probe
        for probe in probes("answer")
        if probe.rule in ("number: plus one", "number: decimal zero", "text: case", "text: joined")
    ]
    assert len({probe.rule for probe in plain}) == 4
    found = opinions("answer", [probe.item for probe in plain])
    assert found == [probe.right for probe in plain]


def test_a_reference_that_stumbles_has_no_opinion() -> None:
    (attack,) = [p for p in probes("answer") if p.rule == "only said"][:1]
    assert opinions("answer", [attack.item]) == [None]
