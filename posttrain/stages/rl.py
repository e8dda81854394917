"""RL: trains a checkpoint on verifiable prompts with asynchronous verl and vLLM."""

import json
import os
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from posttrain.rl.checkpoints import announce, latest, recover, step_of
from posttrain.rl.config import Place, RlConfig
from posttrain.stages import Outcome, Progress, StageConfig, StageContext

VERSION = 2


class Config(RlConfig, StageConfig):
    """An RL run and the checkpoint it starts from."""

    source: str = Field(alias="from")

    def inputs(self) -> dict[str, str]:
        """The checkpoint to start from and the data of each source."""
        data = {source.data for source in self.sources.values()}
        return {"from": self.source, **{f"data.{name}": name for name in sorted(data)}}

    def suites(self) -> tuple[str, ...]:
        """Those measured while it trains."""
        return self.watch.suites if self.watch else ()

    def services(self) -> tuple[str, ...]:
        """Rewards come from a service."""
        return ("rewards",)

    def ahead(self, backend: str) -> object | None:
        """Import what the run's processes need while earlier stages leave a core idle."""
        from posttrain.backends import profile
        from posttrain.rl.workers import warm

        return warm(profile(backend))

    def cores(self) -> int:
        """One for the trainer, one for rollouts."""
        return 2


def run(context: StageContext[Config]) -> Outcome:
    """Train inside this process's Ray session and write the checkpoint."""
    from posttrain.backends import profile

    backend = profile(context.backend)
    os.environ.update(backend.environment)  # verl picks its platform when first imported
    from posttrain.rl import capacity, export, session
    from posttrain.rl.workers import workers

    config, start = context.config, context.inputs["from"]
    with workers(backend) as executable:
        place = _place(context)
        log = export.Log(context.work / "metrics.jsonl", step_of(place.resume))

        def report(step: int, metrics: Mapping[str, float]) -> None:
            log.add(step, metrics)
            if step % config.checkpoint_every == 0 or step == config.steps:
                announce(place.checkpoints, step)
            context.report(Progress(step, config.steps, metrics=metrics))

        def alive() -> None:
            last = dict(log.rows[-1]) if log.rows else {"step": 0}
            done = int(last.pop("step"))
            phase = "train" if done > step_of(place.resume) else "start"
            context.report(Progress(done, config.steps, phase=phase, metrics=last))

        if step_of(place.resume) < config.steps:
            took = log.rows[-1]["seconds"] if log.rows else None
            context.report(Progress(step_of(place.resume), config.steps, phase="capacity"))
            capacity.trial(
                config, place.prompts, context.services["rewards"], context.seed, took,
                place.capacity,
            )  # fmt: skip
            session.train(config, place, backend, report, alive, executable)
    trained = latest(place.checkpoints)
    assert trained is not None
    assert step_of(trained) == config.steps
    facts = export.export(start.path, start.record.facts, trained, context.output)
    facts |= export.records(place, context.output)
    (context.output / "metrics.jsonl").write_text((context.work / "metrics.jsonl").read_text())
    tokens = sum(row["tokens"] for row in log.rows)
    return Outcome(
        export.summary(log.rows) | export.watched(place, context.output),
        {**facts, "steps": config.steps, "optimised_tokens": int(tokens)},
    )


def _place(context: StageContext[Config]) -> Place:
    """Freeze the prompts and lay out the work folder; continues where it left off."""
    from posttrain.data.chat import ChatFormat
    from posttrain.rl import prompts
    from posttrain.training.checkpoint import load_tokenizer

    start, work = context.inputs["from"], context.work
    chat = ChatFormat.from_tokenizer(load_tokenizer(start.path, start.record.facts))
    names = {source.data for source in context.config.sources.values()}
    data = {name: context.inputs[f"data.{name}"].path for name in names}
    held_out = {f"suite.{name}": context.inputs[f"suite.{name}"].path for name in context.suites}
    place = Place(start.path / "model", work, recover(work / "checkpoints"), context.seed)
    prompts.freeze(context.config, data, chat, context.seed, place.prompts)
    prompts.hold_out(context.config, context.suites, data | held_out, chat, place.held_out)
    place.agents.write_text(json.dumps([_loop(context)]))
    return place


def _loop(context: StageContext[Config]) -> dict[str, Any]:
    """verl's entry of the agent loop; ValueError if one of its tools has no service."""
    from posttrain.rl.tools import SANDBOX_URL, Toolbox

    config, sandbox = context.config, os.environ.get(SANDBOX_URL, "")
    loop: dict[str, Any] = {
        "name": "answer",
        "_target_": "posttrain.rl.agent.AnswerLoop",
        "rewards": context.services["rewards"],
        "room": config.lengths.response,
    }
    if config.turns:
        Toolbox(config.turns.tools, sandbox)
        loop |= {"turns": config.turns.model_dump_json(), "sandbox": sandbox}
    if config.degeneration:
        loop |= {"degeneration": config.degeneration.model_dump_json()}
    return loop
