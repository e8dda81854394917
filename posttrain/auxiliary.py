"""Auxiliary checkpoints: their verdicts chose data (`kind: filter`), and their weights go nowhere.

A checkpoint is auxiliary as soon as the store holds data that it chose, and so is whatever was
trained from it: only data may carry over from one to the other.
"""

from posttrain.stages.filter import AUXILIARY
from posttrain.store import Artifact, Store


def fault(store: Store, checkpoint: Artifact) -> str | None:
    """Why the weights of `checkpoint` may not be promoted; None if no auxiliary's are in them."""
    chosen = {
        artifact.record.facts[AUXILIARY]: artifact.address
        for artifact in store.artifacts()
        if artifact.record.kind == "filter"
    }
    waiting = [checkpoint]
    while waiting:
        weights = waiting.pop()
        if data := chosen.get(weights.address):
            made = "is" if weights.address == checkpoint.address else "was trained from"
            return (
                f"{checkpoint.address} {made} an auxiliary checkpoint ({weights.address} chose the "
                f"prompts of {data}): its verdicts may be used, its weights never"
            )
        waiting += [
            store.get(address)
            for role, address in weights.record.inputs.items()
            if role.partition(".")[0] == "from"
        ]
    return None
