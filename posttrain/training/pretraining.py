"""The local upstream job: pretrains a small model in its own process.

    python -m posttrain.training.pretraining JOB.json

Plain torch, as an upstream trainer would be foreign to the pipeline. The loss counts the
continuation of each document; documents come in the corpus's own order. Killed at any instant and
started again it ends bit-equal to an undisturbed run; its marker, written last, is its success.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.tokenizer import load
from posttrain.evaluation import measuring
from posttrain.training import checkpoint, jobs, model, optimizers, xielu
from posttrain.training.attention import use_documents, whole_rows
from posttrain.training.batches import in_order
from posttrain.training.checkpoint import TrainingState
from posttrain.training.examples import documents, targets
from posttrain.training.jobs import Job, Training
from posttrain.training.optimizers import Optimizers
from posttrain.training.process import threads

_CORPUS = "corpus"


def main() -> None:
    """Run the job file named on the command line."""
    run(Job.model_validate_json(Path(sys.argv[1]).read_text(encoding="utf-8")))


def run(job: Job) -> None:
    """Train, write the result, and last the marker."""
    tokenizer = load(job.tokenizer)
    examples = documents(job.corpus, tokenizer, job.training.model.context)
    with threads(job.training.threads):
        trainer = Trainer(job, tokenizer, examples)
        trainer.train()
        metrics = {"loss": trainer.history[-1]["loss"]} | trainer.measured()
    facts = _write(trainer, tokenizer, job.work / jobs.RESULT)
    jobs.finish(job.work, metrics, facts)


class Trainer:
    """A run as it stands: model, optimizer and one line of metrics for every step taken."""

    def __init__(self, job: Job, tokenizer: Tokenizer, examples: list[Rendered]) -> None:
        self.job, self.examples = job, examples
        self.chat = ChatFormat.from_tokenizer(tokenizer)
        self.config: Training = job.training
        self.model = model.build(self.config.model, tokenizer, job.seed)
        xielu.quicken(self.model)
        self.optimizer = optimizers.build(self.model.named_parameters(), self.config.optimizer)
        use_documents(self.model)
        places = in_order(_CORPUS, len(examples))
        count = self.config.steps.at_most
        self.plan = [list(islice(places, self.config.batch)) for _ in range(count)]
        self.history: list[dict[str, float]] = []
        self._restore()

    @property
    def ended(self) -> bool:
        """Whether every step is taken, or the stop rule holds."""
        reading = self.history[-1].get("accuracy") if self.history else None
        return self.config.steps.ended(len(self.history), reading)

    def train(self) -> None:
        """Take the steps that are missing."""
        self.model.train()
        with (self.job.work / jobs.PROGRESS).open("a", encoding="utf-8") as progress:
            while not self.ended:
                self.history.append(self._step(len(self.history)))
                line = {**self.history[-1], "steps": self.config.steps.at_most}
                progress.write(json.dumps(line) + "\n")
                progress.flush()
                if len(self.history) % self.config.save_every == 0:
                    self._save()

    def measured(self) -> dict[str, float]:
        """`accuracy` on the suite of the stop rule, if the job has one."""
        if (measure := self.job.measure) is None:
            return {}
        rows = measuring.read_rows(measure.suite, measure.data)
        with whole_rows(self.model):
            found = measuring.evaluate(
                self.model, self.chat, measure.suite, rows, seed=self.job.seed
            )
        return {"accuracy": found["accuracy"]}

    def _step(self, done: int) -> dict[str, float]:
        """The step after `done`, and with it the metric of the stop rule where it is due."""
        batch = [self.examples[place.row] for place in self.plan[done]]
        factor = self.config.schedule.factor(done, self.config.steps.at_most)
        loss = _update(self.model, self.optimizer, batch, factor, self.config.optimizer.clip)
        line = {"step": done + 1, "loss": loss, "rate": factor, "targets": sum(map(targets, batch))}
        if self.config.steps.reads(self.config.schedule, done + 1):
            line |= self.measured()
        return line

    def _save(self) -> None:
        state = TrainingState(
            len(self.history), self.model.state_dict(), self.optimizer.state_dict(),
            torch.get_rng_state(), self.history,
        )  # fmt: skip
        checkpoint.save_state(self.job.work, state)

    def _restore(self) -> None:
        if (state := checkpoint.load_state(self.job.work)) is not None:
            self.model.load_state_dict(state.model)
            self.optimizer.load_state_dict(state.optimizer)
            torch.set_rng_state(state.random)
            self.history = state.history


def predictions(
    model: PreTrainedModel, examples: Sequence[Rendered]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (targets, vocabulary) and labels (targets,) of the examples' targets, in order.

    The examples lie end to end in one row; the first token of each is never a target.
    """
    lengths = [len(example.ids) for example in examples]
    ids = torch.tensor([token for example in examples for token in example.ids])
    wanted = torch.tensor([bit for example in examples for bit in example.mask]).bool()[1:]
    hidden = model.base_model(
        input_ids=ids[None], position_ids=torch.cat([torch.arange(n) for n in lengths])[None],
        documents=lengths, use_cache=False,
    ).last_hidden_state[0, :-1]  # fmt: skip
    return model.get_output_embeddings()(hidden[wanted]), ids[1:][wanted]


def _update(
    model: PreTrainedModel,
    optimizer: Optimizers,
    batch: Sequence[Rendered],
    factor: float,
    clip: float,
) -> float:
    loss = functional.cross_entropy(*predictions(model, batch))
    torch.autograd.backward(loss)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    if not torch.isfinite(norm):
        raise ValueError(f"gradient norm {norm.item()}: training diverged; lower the learning rate")
    optimizer.scale(factor)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def _write(trainer: Trainer, tokenizer: Tokenizer, result: Path) -> dict[str, object]:
    """Write the result afresh; returns its facts."""
    shutil.rmtree(result, ignore_errors=True)
    result.mkdir()
    facts = checkpoint.save_model(trainer.model, tokenizer, result / "model")
    lines = "".join(json.dumps(line) + "\n" for line in trainer.history)
    (result / "metrics.jsonl").write_text(lines, encoding="utf-8")
    return facts | {
        "steps": len(trainer.history),
        "optimised_tokens": sum(int(line["targets"]) for line in trainer.history),
        "world_size": 1,
        "threads": trainer.config.threads,
    }


if __name__ == "__main__":
    main()
