"""Online DPO: a step samples from the policy, and the best response is preferred to the worst.

The result is a function of the starting checkpoint, the prompts, the settings, the seed and the
judge's verdicts. What a step sampled and what was said of it is kept before it is trained on, so a
run killed at any instant continues from its training state and ends bit-equal to an undisturbed
one, without asking the judge again.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from posttrain import digest
from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.pairs import tokens
from posttrain.data.turn import AssistantTurn
from posttrain.evaluation import preferences
from posttrain.judging.opinions import Judge
from posttrain.judging.speech import said
from posttrain.objectives.config import DPOConfig
from posttrain.store import write_durably
from posttrain.training import checkpoint, dpo, loop, preference, rivals
from posttrain.training.batches import shuffled
from posttrain.training.completions import log_probs
from posttrain.training.engine import Engine
from posttrain.training.guards import OnlineConfig, StepsConfig
from posttrain.training.loop import Line, Report
from posttrain.training.policy import Policy
from posttrain.training.preference import Watch
from posttrain.training.process import single_process_group, threads
from posttrain.training.prompts import Prompts, read_prompts
from posttrain.training.rollouts.checked import Checked
from posttrain.training.rollouts.opening import Limits, opened
from posttrain.training.rollouts.source import Rollouts, document

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Sampled:
    """What a step trains on: sides of its pairs, the reference's log-probabilities, figures."""

    sides: list[Rendered]
    reference: list[float]
    figures: dict[str, float]


class Reference:
    """A model of its own beside the policy; after every `every` steps it is the policy again."""

    def __init__(self, model: PreTrainedModel, every: int | None) -> None:
        self._model, self._every = model.eval(), every

    def fresh(self, step: int) -> bool:
        """Whether policy and reference are one before this step."""
        return step % self._every == 0 if self._every else step == 0

    def follow(self, step: int, weights: Weights) -> None:
        """Take the policy's weights over where this step is due."""
        if step and self._every and self.fresh(step):
            self._model.load_state_dict(weights)

    def log_probs(self, documents: Sequence[Rendered]) -> list[float]:
        """Summed log-probability of each document's targets, in nats."""
        return preferences.log_probs(self._model, documents)

    def state_dict(self) -> dict[str, Any]:
        """Its weights, where they may have changed."""
        return dict(self._model.state_dict()) if self._every else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        if self._every:
            self._model.load_state_dict(state)


@dataclass(frozen=True)
class _Source:
    """Where the pairs of a step come from."""

    policy: Rollouts
    engine: Engine
    reference: Reference
    chat: ChatFormat
    prompts: Prompts
    batch: int
    config: OnlineConfig
    judge: Judge
    seed: int
    work: Path

    def sampled(self, number: int, weights: Weights) -> Sampled:
        """What step `number` trains on: what was kept, or new samples, which are kept."""
        self.reference.follow(number, weights)
        if not self._path(number).is_file():
            self.policy.follow(weights)
            write_durably(self._path(number), json.dumps(self._made(number), ensure_ascii=False))
        kept = self.kept(number)
        sides = [Rendered(*each) for each in kept["sides"]]
        return Sampled(sides, kept["reference"], kept["figures"])

    def kept(self, number: int) -> dict[str, Any]:
        """What was kept of a step."""
        found: dict[str, Any] = json.loads(self._path(number).read_text("utf-8"))
        return found

    def _made(self, number: int) -> dict[str, Any]:
        """Sample, have it judged and compare with the reference.

        RuntimeError if the judge fails too often; then nothing is kept.
        """
        drawn, documents, turns = self._drawn(number), list[Rendered](), list[AssistantTurn]()
        asked = [self.prompts[row] for row in drawn for _ in range(self.config.group)]
        for prompt, response in self._responses(asked, number):
            documents.append(document(prompt, response))
            turns.append(said(self.chat, response))
        opinions = self.judge.opinions(asked, turns)
        rivals.check(opinions, self.config.unscored, number + 1)
        found = rivals.rivals(drawn, self.config.group, opinions)
        ours, theirs = log_probs(self.engine, documents), self.reference.log_probs(documents)
        kl = (math.fsum(ours) - math.fsum(theirs)) / sum(tokens(documents))
        places = [place for each in found for place in (each.best, each.worst)]
        texts = [turn.content or "" for turn in turns]
        return {
            "sides": [[documents[place].ids, documents[place].mask] for place in places],
            "reference": [theirs[place] for place in places],
            "figures": rivals.figures(drawn, opinions, found) | {"kl": kl} | self._agreed(),
            "pairs": rivals.archived(self.prompts, found, opinions, texts),
        }

    def _responses(
        self, asked: Sequence[Mapping[str, Any]], number: int
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Ids of each prompt and of the response to it."""
        prompts = [self.chat.render(row, add_generation_prompt=True).ids for row in asked]  # type: ignore[arg-type]
        seed = int(digest.of_value([self.seed, number])[:15], 16)
        found = self.policy.respond(prompts, seed, with_log_probs=False)
        return zip(prompts, (each.ids for each in found), strict=True)

    def _agreed(self) -> dict[str, float]:
        return {"rollout_gap": self.policy.gap} if isinstance(self.policy, Checked) else {}

    def _drawn(self, number: int) -> list[int]:
        """The rows of a step's prompts: each epoch is a new permutation."""
        places = shuffled({"": [1] * len(self.prompts)}, {"": 1.0}, self.seed)
        first = number * self.batch
        return [place.row for place in islice(places, first, first + self.batch)]

    def _path(self, number: int) -> Path:
        return self.work / f"rollouts.{number}.json"


def align(
    policy: Policy, artifact: Path, data: Path, config: DPOConfig, asked: StepsConfig,
    online: OnlineConfig, judge: Judge, seed: int,
    *, backend: str, work: Path, output: Path, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    """Train and write `output`; returns metrics and facts. ValueError if inputs do not fit."""
    _check_lengths(policy, online)
    prompts = read_prompts(data, policy.chat, online.lengths.prompt)
    reference = Reference(Policy.load(artifact, policy.facts).model, asked.refresh_every)
    with threads(asked.threads), single_process_group(backend):
        engine = Engine(
            policy.model, policy.folder, asked.optimizer, asked.schedule, asked.steps, backend
        )
        with opened(
            online.rollouts, artifact, policy.facts, engine, _limits(policy, online),
            seed=seed, backend=backend, work=work,
        ) as rollouts:  # fmt: skip
            source = _Source(
                rollouts, engine, reference, policy.chat, prompts, asked.batch, online, judge,
                seed, work,
            )  # fmt: skip
            steps = _Steps(
                engine, source, dpo.Objective(config), Watch(engine, asked.guards, asked.steps)
            )
            history = loop.train(
                engine, asked.steps, steps.take, work=work, save_every=asked.save_every,
                report=report, beside=reference,
            )  # fmt: skip
        facts = checkpoint.save_model(engine.trained_model(), policy.tokenizer, output / "model")
    preference.write(output / "metrics.jsonl", history)
    archive = (source.kept(step)["pairs"] for step in range(asked.steps))
    preference.write(output / "pairs.jsonl", [pair for pairs in archive for pair in pairs])
    targets = sum(line["targets"] for line in history)
    facts |= {"steps": asked.steps, "world_size": 1, "threads": asked.threads}
    facts |= {"rollouts": online.rollouts.engine, "reference": "live"}
    return summary(history), facts | {"optimised_tokens": int(targets)}


def _limits(policy: Policy, online: OnlineConfig) -> Limits:
    lengths = online.lengths
    return Limits(lengths.prompt, lengths.response, policy.chat.stop_ids, online.temperature)


def _check_lengths(policy: Policy, online: OnlineConfig) -> None:
    if (longest := online.lengths.prompt + online.lengths.response) > policy.context:
        raise ValueError(
            f"a prompt with its response may have {longest} tokens, the context is "
            f"{policy.context}: lower lengths"
        )


@dataclass(frozen=True)
class _Steps:
    """Takes one step after another."""

    engine: Engine
    source: _Source
    objective: dpo.Objective
    watch: Watch

    def take(self, number: int) -> Line:
        """Step `number` (from 0); without a pair the rate moves on and nothing else."""
        reference = self.source.reference
        sampled = self.source.sampled(number, self.engine.weights())
        if not sampled.sides:
            rate = self.engine.lr_scheduler.factor
            self.engine.lr_scheduler_step()
            return _NOTHING | sampled.figures | {"rate": rate}
        columns = {"reference": sampled.reference}
        line = preference.stepped(self.engine, sampled.sides, columns, self.objective)
        self.watch.check(number, line, fresh=reference.fresh(number))
        return {"loss": line["loss"], **sampled.figures, **line}


_NOTHING: Line = {"loss": 0.0, "accuracy": 0.0, "margin": 0.0, "gradient_norm": 0.0, "targets": 0}


def summary(history: Sequence[Line]) -> dict[str, float]:
    """Means over the last steps."""
    last = history[-10:]
    names = ("loss", "accuracy", "margin", "score", "gap", "unscored", "alike", "kl")
    return {name: math.fsum(line[name] for line in last) / len(last) for name in names}
