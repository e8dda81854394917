"""The registry: immutable checkpoints, and aliases that move over them by recorded events only.

The history and the artifacts' records are all there is: what an alias points to, what is retired
and who signed what are read from them each time, so there is no index that could be stale or lost.
"""

from posttrain.registry.kinds import CHECKPOINT_KINDS
from posttrain.registry.registry import Refused, Registry

__all__ = ["CHECKPOINT_KINDS", "Refused", "Registry"]
