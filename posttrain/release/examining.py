"""The release suite and the rendering parity of one checkpoint, on a server of its own."""

from typing import Any

from posttrain.equivalence.served import served_faults
from posttrain.release.check import Result
from posttrain.release.endpoint import Endpoint, Gone, Unanswered
from posttrain.release.probe import Probe
from posttrain.release.suite import CHECKS, Report, run
from posttrain.serving.checkpoints import served
from posttrain.serving.server import ServerDied
from posttrain.serving.side_by_side import serving
from posttrain.stages import ProcessLost, Progress, StageContext


def examined(context: StageContext[Any]) -> tuple[Report, list[str]]:
    """The suite's report, and where the server renders otherwise than training.

    ProcessLost if the server dies or never answers.
    """
    artifact = context.inputs["from"]
    checkpoint = served(artifact.address, artifact.path)
    steps = len(CHECKS)

    def starting(line: str) -> None:
        context.report(Progress(0, steps, phase="serve"))

    try:
        with serving(
            [checkpoint], host="127.0.0.1", port=None, folder=context.work,
            backend=context.backend, told=starting,
        ) as [server]:  # fmt: skip
            endpoint = Endpoint(server.url, checkpoint.name)
            faults = list(served_faults(checkpoint.folder, endpoint))
            return _checked(context, endpoint), faults
    except (ServerDied, Gone, Unanswered) as lost:
        raise ProcessLost(str(lost)) from None


def _checked(context: StageContext[Any], endpoint: Endpoint) -> Report:
    made = 0

    def told(result: Result) -> None:
        nonlocal made
        made += 1
        context.report(Progress(made, len(CHECKS), phase="checks"))

    config = context.config
    return run(
        Probe(endpoint, config.modalities), CHECKS, model_checks=config.model_checks,
        within=config.within, told=told,
    )  # fmt: skip
