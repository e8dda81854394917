"""The samples of each step: drawn prompts, responses, and what a judge says of them.

Always holds: what a step sampled and what was said of it is kept before anybody trains on it, and
what is kept is not sampled or judged again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress, islice
from pathlib import Path
from typing import Any

import torch

from posttrain import digest
from posttrain.data.chat import ChatFormat
from posttrain.judging.opinions import Judge, Opinion
from posttrain.judging.speech import said
from posttrain.sdpo import samples
from posttrain.sdpo.config import SdpoConfig
from posttrain.sdpo.reprompt import own_tokens
from posttrain.sdpo.samples import Sample, Span
from posttrain.store import write_durably
from posttrain.training.batches import shuffled
from posttrain.training.prompts import Prompts
from posttrain.training.rollouts.checked import Checked
from posttrain.training.rollouts.source import Response, Rollouts


@dataclass(frozen=True)
class Sampling:
    """A run's sampling; `prompts` are judged, `anchors` are not."""

    policy: Rollouts
    chat: ChatFormat
    prompts: Prompts
    anchors: Prompts
    config: SdpoConfig
    judge: Judge
    seed: int
    work: Path

    def of(self, step: int, weights: Mapping[str, torch.Tensor]) -> list[list[Sample]]:
        """The samples of a step by draw of a prompt: those kept, or new ones, which are kept.

        New ones are sampled from `weights`. RuntimeError if too many are lost; then none are kept.
        """
        path = self._path(step)
        if path.is_file():
            kept = self._kept(step)["drawn"]
            return [[Sample.from_json(each) for each in drawn] for drawn in kept]
        self.policy.follow(weights)
        judged = self._judged(step)
        samples.check(judged, self.config.limits.untaught, step + 1)
        found = [*judged, *self._anchored(step)]
        size = self.config.group
        first = len(judged)
        groups = [found[start : start + size] for start in range(0, first, size)]
        groups += [[each] for each in found[first:]]
        path.parent.mkdir(exist_ok=True)
        drawn = [[each.as_json() for each in group] for group in groups]
        write_durably(path, json.dumps({"drawn": drawn, "figures": self._agreed()}))
        return groups

    def figures(self, step: int) -> dict[str, float]:
        """`rollout_gap` of a step that was sampled by an engine which is not the trainer's."""
        found: dict[str, float] = self._kept(step)["figures"]
        return found

    def _agreed(self) -> dict[str, float]:
        return {"rollout_gap": self.policy.gap} if isinstance(self.policy, Checked) else {}

    def _kept(self, step: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._path(step).read_text("utf-8"))
        return found

    def _path(self, step: int) -> Path:
        return self.work / "samples" / f"{step}.json"

    def prompt(self, sample: Sample) -> Mapping[str, Any]:
        """The prompt that a sample is a response to."""
        return (self.anchors if sample.outcome == "anchored" else self.prompts)[sample.row]

    def span(self, sample: Sample) -> Span:
        """The span of a sample that is taught or anchored."""
        return samples.span(self.chat, self.prompt(sample), sample)

    def _judged(self, step: int) -> list[Sample]:
        drawn = self._drawn(self.prompts, self.config.prompts_per_step, step)
        asked = [self.prompts[row] for row in drawn for _ in range(self.config.group)]
        responses = self._respond(asked, step, "judged")
        opinions = self.judge.opinions(asked, [said(self.chat, each.ids) for each in responses])
        found = samples.samples(
            self.chat, dict(enumerate(self.prompts)), drawn, self.config.group,
            [each.ids for each in responses], opinions, self.config.reprompt,
        )  # fmt: skip
        return list(map(self._remembering, found, responses))

    def _anchored(self, step: int) -> list[Sample]:
        if (anchor := self.config.anchor) is None:
            return []
        drawn = self._drawn(self.anchors, anchor.prompts_per_step, step)
        responses = self._respond([self.anchors[row] for row in drawn], step, "anchored")
        return [
            self._remembering(Sample(row, response.ids, Opinion(None), "anchored"), response)
            for row, response in zip(drawn, responses, strict=True)
            if any(own_tokens(self.chat, response.ids))
        ]

    def _respond(self, asked: Prompts, step: int, what: str) -> list[Response]:
        ids = [self.chat.render(row, add_generation_prompt=True).ids for row in asked]  # type: ignore[arg-type]
        seed = int(digest.of_value([self.seed, what, step])[:15], 16)
        needed = samples.needs_old(self.config.objective, self.config.updates)
        return self.policy.respond(ids, seed, with_log_probs=needed)

    def _drawn(self, rows: Prompts, count: int, step: int) -> list[int]:
        """The rows of a step's prompts: each epoch is a new permutation."""
        places = shuffled({"": [1] * len(rows)}, {"": 1.0}, self.seed)
        return [place.row for place in islice(places, step * count, (step + 1) * count)]

    def _remembering(self, sample: Sample, response: Response) -> Sample:
        """With its log-probabilities under the policy that sampled, where the loss needs them."""
        needed = samples.needs_old(self.config.objective, self.config.updates)
        if not needed or sample.outcome not in samples.TRAINED:
            return sample
        assert response.log_probs is not None
        own = own_tokens(self.chat, response.ids)
        return replace(sample, old=list(compress(response.log_probs, own)))
