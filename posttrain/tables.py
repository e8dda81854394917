"""Tables of what stands still: a plan before its run, scores after it."""

from collections.abc import Mapping

from rich.table import Table

from posttrain.explained import Reason
from posttrain.plan import Plan


def plan_table(plan: Plan, why: Mapping[str, Reason]) -> Table:
    """The plan as a table: state and why, inputs, cores and key of each node."""
    table = Table(title=f"plan of {plan.recipe.name}", title_justify="left")
    for column in ("stage", "kind", "state", "why", "inputs", "cores", "key"):
        table.add_column(column, overflow="fold")
    for node in plan.nodes.values():
        inputs, reason = ", ".join(dict.fromkeys(node.inputs.values())), why[node.name]
        table.add_row(
            node.name, node.kind, reason.state, _why(reason), inputs, str(node.config.cores()),
            node.key[:12],
        )  # fmt: skip
    return table


def _why(reason: Reason) -> str:
    """In a few words; lines below the table have the fields."""
    if reason.state == "reuse":
        return f"is {reason.against}"
    if reason.against is None:
        return "first time"
    behind = [f"behind {', '.join(reason.behind)}"] if reason.behind else []
    return "; ".join(["changed"] * bool(reason.changes) + behind)


def suite_table(scores: Mapping[str, Mapping[str, float]]) -> Table:
    """Accuracy by suite (rows) and checkpoint (columns, in the order they were made)."""
    table = Table(title="accuracy by suite and checkpoint", title_justify="left")
    table.add_column("suite")
    for checkpoint in scores:
        table.add_column(checkpoint, justify="right")
    metrics = dict.fromkeys(name for values in scores.values() for name in values)
    for metric in metrics:
        suite, _, name = metric.partition(".")
        # An accuracy by context length is a figure of its own; other groups are in the record.
        if name == "accuracy" or name.removeprefix("accuracy.").isdigit():
            row = [f"{v[metric]:.3f}" if metric in v else "-" for v in scores.values()]
            table.add_row(f"{suite} {name.removeprefix('accuracy')}".replace(" .", " at "), *row)
    return table
