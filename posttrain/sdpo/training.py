"""An SDPO run: sample, judge, re-prompt, distil.

The result is a function of the starting checkpoint, the prompts, the settings, the seed and the
judge's verdicts. What a step sampled and what was said of it is kept before it is trained on, so a
run killed at any instant continues from its training state and ends bit-equal to an undisturbed
one, without asking the judge again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from transformers import PreTrainedModel

from posttrain import digest
from posttrain.data.chat import ChatFormat
from posttrain.judging.opinions import Judge
from posttrain.objectives.sdpo import distil
from posttrain.sdpo import samples
from posttrain.sdpo.config import SdpoConfig
from posttrain.sdpo.samples import Span
from posttrain.sdpo.sampling import Sampling
from posttrain.sdpo.teacher import Teacher
from posttrain.training import checkpoint, loop, xielu
from posttrain.training.engine import Engine, rows, tensors
from posttrain.training.loop import Line, Report
from posttrain.training.process import single_process_group, threads
from posttrain.training.prompts import read_prompts
from posttrain.training.rollouts.opening import Limits, opened
from posttrain.training.sft import Start

_LAST = 10


@dataclass(frozen=True)
class Asked:
    """Whom a run asks, as it goes into the archive: the judge, and the charter's digest."""

    judge: Judge
    identity: Mapping[str, str]


def train(
    start: Start, data: Path, anchor: Path | None, config: SdpoConfig, asked: Asked, seed: int,
    *, backend: str, work: Path, output: Path, report: Report,
) -> tuple[dict[str, float], dict[str, Any]]:  # fmt: skip
    """Train and write `output`; returns metrics and facts. ValueError if inputs do not fit.

    `data` and `anchor` are files of prompts, as the config says.
    """
    model = _model(start)
    tokenizer = checkpoint.load_tokenizer(start.path, start.facts)
    chat = ChatFormat.from_tokenizer(tokenizer)
    prompts = read_prompts(data, chat, config.lengths.prompt)
    anchors = read_prompts(anchor, chat, config.lengths.prompt) if anchor else []
    check_sizes(config, model, len(prompts))
    with threads(config.threads), single_process_group(backend):
        engine = Engine(
            model, start.path / "model", config.optimizer, config.schedule,
            config.steps * config.updates, backend,
        )  # fmt: skip
        with opened(
            config.rollouts, start.path, start.facts, engine, _limits(chat, config),
            seed=seed, backend=backend, work=work,
        ) as policy:  # fmt: skip
            sampling = Sampling(policy, chat, prompts, anchors, config, asked.judge, seed, work)
            run = Run(engine, _teacher(start, config), sampling, config)
            history = loop.train(
                engine, config.steps * config.updates, run.update, work=work,
                save_every=config.save_every, report=report, beside=run.teacher,
            )  # fmt: skip
        facts = checkpoint.save_model(engine.trained_model(), tokenizer, output / "model")
    _archive(sampling, asked, output / "spans.jsonl")
    (output / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in history))
    facts |= {"steps": config.steps, "world_size": 1, "threads": config.threads}
    facts |= {
        "rollouts": config.rollouts.engine,
        "branch": config.objective.branch,
        "judge": dict(asked.identity),
    }
    return summary(history), facts | {"optimised_tokens": sum(int(h["targets"]) for h in history)}


def check_sizes(config: SdpoConfig, model: PreTrainedModel, prompts: int) -> None:
    """ValueError if lengths exceed the model's context, or top_k its vocabulary."""
    context, vocabulary = model.config.max_position_embeddings, model.config.vocab_size
    longest = max(config.lengths.prompt, config.reprompt.length) + config.lengths.response
    if longest > context:
        raise ValueError(
            f"a prompt with its response may have {longest} tokens, the context {context}: lower "
            "lengths or reprompt.length"
        )
    if config.objective.mode == "top_k" and config.objective.top_k > vocabulary:
        raise ValueError(
            f"objective.top_k is {config.objective.top_k}, the vocabulary {vocabulary}: lower it, "
            "or use mode full"
        )
    if prompts < config.prompts_per_step:
        raise ValueError(
            f"{prompts} prompts are fewer than prompts_per_step = {config.prompts_per_step}"
        )


def _model(start: Start) -> PreTrainedModel:
    model = checkpoint.load_model(start.path, start.facts)
    xielu.quicken(model)
    return model


def _teacher(start: Start, config: SdpoConfig) -> Teacher:
    near = config.teacher.regularization == "trust_region"
    return Teacher(_model(start), config.teacher, _model(start) if near else None)


def _limits(chat: ChatFormat, config: SdpoConfig) -> Limits:
    lengths = config.lengths
    return Limits(lengths.prompt, lengths.response, chat.stop_ids, config.objective.temperature)


@dataclass(frozen=True)
class Run:
    """What the steps of a run have in common."""

    engine: Engine
    teacher: Teacher
    sampling: Sampling
    config: SdpoConfig

    def update(self, number: int) -> Line:
        """Update `number`: one of those that its step's samples give."""
        step, part = divmod(number, self.config.updates)
        weights = self.engine.weights()
        mine = self.sampling.of(step, weights)[part :: self.config.updates]
        judged = [each for drawn in mine for each in drawn if each.outcome != "anchored"]
        spans = [
            self.sampling.span(each)
            for drawn in mine for each in drawn
            if each.outcome in samples.TRAINED
        ]  # fmt: skip
        self.teacher.look(weights)
        line = self._learn(spans)
        figures = samples.figures(judged, self.config.group, self.config.reprompt)
        figures |= self.sampling.figures(step)
        targets = sum(each.targets for each in spans)
        return {"loss": line["loss"], **figures, **line, "targets": float(targets)}

    def _learn(self, spans: Sequence[Span]) -> Line:
        """One optimizer step on the spans; without any the rate moves on and nothing else."""
        if not spans:
            rate = self.engine.lr_scheduler.factor
            self.engine.lr_scheduler_step()
            return {"loss": 0.0, "gradient_norm": 0.0, "rate": rate}
        packed = _packed(spans)
        batch = tensors([[each.student for each in row] for row in packed], with_logits=True)
        line, told = loop.update(self.engine, batch, partial(self._loss, packed))
        self.teacher.follow(self.engine.weights())
        tokens = sum(told["tokens"])
        means = {name: sum(told[name]) / tokens for name in told if name in _MEANS}
        return line | means

    def _loss(
        self, packed: Sequence[Sequence[Span]], model_output: Mapping[str, torch.Tensor],
        data: TensorDict, dp_group: Any = None,
    ) -> tuple[torch.Tensor, dict[str, float]]:  # fmt: skip
        """This row's share in the mean over the targets of the whole batch."""
        row = packed[int(data["row"].item())]
        student = model_output["logits"]
        teacher = self.teacher.logits([each.teacher for each in row]).to(student.device)
        found = distil(
            student, teacher, _sampled(row).to(student.device),
            torch.ones(len(student), dtype=torch.bool, device=student.device),
            self.config.objective, old_log_probs=_old(row, student.device),
        )  # fmt: skip
        tokens = len(found.loss)
        sums = {name: value * tokens for name, value in found.metrics().items()}
        return found.mean(data["batch_num_tokens"]) * data["dp_size"], {**sums, "tokens": tokens}


_MEANS = ("weight", "log_ratio", "log_ratio_size")


def _packed(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans in their order, several to a row where the teacher's documents are short."""
    left, found = list(spans), []
    for row in rows([each.teacher for each in spans]):
        found.append(left[: len(row)])
        del left[: len(row)]
    return found


def _sampled(row: Sequence[Span]) -> torch.Tensor:
    """The targets' ids, (targets,)."""
    documents = [each.student for each in row]
    return torch.tensor(
        [t for each in documents for t, own in zip(each.ids, each.mask, strict=True) if own]
    )


def _old(row: Sequence[Span], device: torch.device) -> torch.Tensor | None:
    """The targets' log-probabilities when they were sampled, (targets,), if they are known."""
    if row[0].old is None:
        return None
    return torch.tensor([value for each in row for value in each.old or ()], device=device)


def _archive(sampling: Sampling, asked: Asked, path: Path) -> None:
    """Every response with its origin: charter, article, judge, and both prompts.

    `prompt` is the student's; the teacher's has `told` as its last message.
    """
    with path.open("w", encoding="utf-8") as stream:
        for step in range(sampling.config.steps):
            for each in chain.from_iterable(sampling.of(step, {})):
                prompt = sampling.prompt(each)["messages"]
                line = {"step": step + 1, **asked.identity, "article": each.opinion.article}
                line |= {"prompt": prompt, "prompt_sha256": digest.of_value(prompt)}
                stream.write(json.dumps(line | each.as_json(), ensure_ascii=False) + "\n")


def summary(history: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over the last steps, and over all how often each article was taught."""
    last = history[-_LAST:]
    names = ("loss", "score", "taught", *samples.FAULTS)
    means = {name: sum(line[name] for line in last) / len(last) for name in names}
    articles = sorted({name for line in history for name in line if name.startswith("article.")})
    return means | {name: sum(line.get(name, 0.0) for line in history) for name in articles}
