"""Events: what can happen to checkpoints. Each is written once and never changed."""

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from posttrain.names import Name
from posttrain.store import Artifact

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class Version(BaseModel):
    """A checkpoint as the registry names it: its address, and what lay there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str
    key: str
    digest: str


class _Event(BaseModel):
    """`author` is who did it; `number`, `time` and `previous` are the history's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = 0
    time: str = ""
    previous: str = ""
    author: Text
    checkpoint: Version


class Move(_Event):
    """An alias now points to `checkpoint`; `gates` are the findings that let it."""

    event: Literal["promote", "rollback"]
    alias: Name
    gates: tuple[dict[str, Any], ...] = ()


class Removal(_Event):
    """Nobody may use `checkpoint` any more (`retire`), or its files are gone (`collect`)."""

    event: Literal["retire", "collect"]
    reason: Text


class _Decision(_Event):
    """What a person answers for, with a reason, up to the end of the day `expires` (UTC)."""

    reason: Text
    expires: date

    def valid(self, now: datetime) -> bool:
        """Whether it holds at `now`."""
        return now.astimezone(UTC).date() <= self.expires


class Waiver(_Decision):
    """`checkpoint` may be promoted although `gate` (as a recipe's findings name it) fails."""

    event: Literal["waive"]
    gate: Text


class SignOff(_Decision):
    """A person has looked at `checkpoint` and lets it become `alias`, or refuses that."""

    event: Literal["sign"]
    alias: Name
    approves: bool


Event = Annotated[Move | Removal | Waiver | SignOff, Field(discriminator="event")]
EVENT: TypeAdapter[Move | Removal | Waiver | SignOff] = TypeAdapter(Event)


def version(checkpoint: Artifact) -> Version:
    """The version that a committed checkpoint is."""
    record = checkpoint.record
    return Version(address=checkpoint.address, key=record.key, digest=record.digest)
