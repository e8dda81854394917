"""The tracks of a QRPO stage: completions, their scores and the reference's log-probabilities.

Always holds: a track's completions were made by the checkpoint that training starts from, its
scores were given to these completions, and so were its log-probabilities.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from posttrain.data.pairs import Groups, tokens
from posttrain.data.scored import Sampled, read_scored
from posttrain.judging.completions import COMPLETIONS
from posttrain.store import Artifact
from posttrain.training import reference
from posttrain.training.policy import Policy
from posttrain.training.reference import Known

NAME = "completions"
"""What a reference stage calls the source that it computed."""


@dataclass(frozen=True)
class Usable:
    """Which completions are trained on; see the stage's config."""

    length: int | None
    select: Literal["extremes", "all"]
    drop_at_most: float


@dataclass(frozen=True)
class Track:
    """The artifacts that a track is made of."""

    completions: Artifact
    scores: Artifact
    reference: Artifact | None


def of(inputs: Mapping[str, Artifact], name: str) -> Track:
    """The track `name` among a stage's inputs."""
    return Track(
        inputs[f"completions.{name}"], inputs[f"scores.{name}"], inputs.get(f"reference.{name}")
    )


def read(
    tracks: Mapping[str, Track], policy: Policy, usable: Usable
) -> tuple[dict[str, Groups], Known | None]:
    """Of each track the groups and, if they were computed ahead, the log-probabilities."""
    groups, known = {}, {}
    for name, track in tracks.items():
        _check(name, track, policy.facts)
        groups[name] = read_scored(
            track.completions.path, track.scores.path, policy.chat,
            usable.length or policy.context,
            select=usable.select, drop_at_most=usable.drop_at_most,
        )  # fmt: skip
        if track.reference is not None:
            known[name] = _known(track, track.reference, policy, groups[name])
    return groups, known or None


def _check(name: str, track: Track, facts: Mapping[str, Any]) -> None:
    if track.scores.record.inputs["completions"] != track.completions.address:
        raise ValueError(
            f"track {name}: {track.scores.address} scored other completions than "
            f"{track.completions.address}"
        )
    if (made := track.completions.record.facts["policy"]) != facts["weights_sha256"]:
        raise ValueError(
            f"track {name}: {track.completions.address} was made by the weights {made[:12]}, this "
            f"stage starts from {facts['weights_sha256'][:12]}: the reference must make them"
        )


def _known(
    track: Track, computed: Artifact, policy: Policy, groups: Groups
) -> Sequence[Sequence[float]]:
    path = track.completions.path / COMPLETIONS
    belongs = reference.identity(policy.facts, {NAME: path})
    reference.check(computed.path, computed.record.facts, belongs)
    texts = (computed.path / f"{NAME}.jsonl").read_text("utf-8").splitlines()
    lines = {line["row"]: line for line in map(json.loads, texts)}
    found = []
    for row, group in zip(groups.rows, cast(Sequence[Sampled], groups.groups), strict=True):
        there = [lines[row]["tokens"][sample] for sample in group.samples]
        assert there == tokens(group.sides), "completions of one digest have one rendering"
        found.append([lines[row]["log_probs"][sample] for sample in group.samples])
    return found
