"""A stage kind for tests of the controller: waits for a file, then has the reward service judge.

Importing this module registers the kind, here and in each worker that is sent a stage of it.
"""

import sys
import time
from pathlib import Path

from posttrain import stages
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from rewards.client import BlockingRewardClient
from rewards.schema import Item

VERSION = 1


class Config(StageConfig):
    """`go` is the file it waits for."""

    go: str

    def services(self) -> tuple[str, ...]:
        return ("rewards",)


def run(context: StageContext[Config]) -> Outcome:
    """The score of a right answer."""
    context.report(Progress(0, 1, phase="waiting"))
    deadline = time.monotonic() + 120
    while not Path(context.config.go).exists():
        assert time.monotonic() < deadline, "nobody said go"
        context.report(Progress(0, 1, phase="waiting"))
        time.sleep(0.05)
    item = Item(id="1", verifier="answer", response=None, answers=["4"], gold=["4"])
    with BlockingRewardClient(context.services["rewards"]) as client:
        (verdict,) = client.score([item])
    assert verdict.score is not None, verdict
    return Outcome({"score": verdict.score})


stages.KINDS = (*stages.KINDS, "probe")
sys.modules["posttrain.stages.probe"] = sys.modules[__name__]
