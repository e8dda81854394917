"""What the matrix of a run is made of: the scores its plan's evaluations left in the store."""

from posttrain.gates import Scores
from posttrain.journal import Journal
from posttrain.promotion import scores_of
from posttrain.store import Store


def measured(store: Store, run: str) -> dict[str, dict[str, Scores]]:
    """Checkpoint -> suite -> scores, in the order of the plan; of suites that may steer.

    ValueError if the run is unknown, or nothing of it was measured yet.
    """
    plan, keys = Journal(store, run).archived().stages, store.by_key()
    found: dict[str, dict[str, Scores]] = {}
    for stage in plan:
        evaluation = keys.get(stage.key) if stage.kind == "evaluate" else None
        if evaluation is None:
            continue
        suites = evaluation.record.identity.get("suites", {})
        seen = {
            name: scores
            for name, scores in scores_of(evaluation).items()
            if suites[name].get("may_steer", True)
        }
        if seen:
            found.setdefault(stage.inputs["from"], {}).update(seen)
    if not found:
        raise ValueError(
            f"no checkpoint of run {run} has scores that may be shown; give its recipe an "
            "`evaluate` stage and run it"
        )
    return {stage.name: found[stage.name] for stage in plan if stage.name in found}
