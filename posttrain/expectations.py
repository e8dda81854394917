"""How long the stages of a plan will take, where the recipe says what was measured of them.

RL stages are simulated. Of a stage that trains on accelerators and of which nothing was measured it
is said which figures are missing; on a CPU nobody asks.
"""

from posttrain.plan import Node, Plan
from posttrain.simulation.measurements import Expectation, Measured, expected

_TRAINING = ("sft", "rl", "dpo", "qrpo", "sdpo", "followups")


def of(plan: Plan) -> dict[str, Expectation]:
    """Node -> what is expected of it, for those that are to run."""
    return {
        node.name: expected(node.kind, node.identity["config"], measured)
        for node in plan.pending()
        if (measured := _measured(plan, node)) or _asked(plan, node)
    }


def _asked(plan: Plan, node: Node) -> bool:
    return plan.recipe.backend == "gpu" and node.kind in _TRAINING


def _measured(plan: Plan, node: Node) -> Measured | None:
    """The figures of the node, or of the stage of which it is a variant."""
    found = plan.recipe.measured
    return found.get(node.name) or found.get(node.name.partition(".")[0])
