"""Store and registry against simple models, in any order of what can be done to them."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from posttrain.gates import Finding
from posttrain.registry import Refused, Registry
from posttrain.store import Draft, Store

ALIASES = st.sampled_from(["candidate", "release"])
STAGES = st.sampled_from(["sft", "rl"])
KEYS = st.sampled_from(["k1", "k2", "k3"])
HOLDS = Finding("answers", True, "0.9 >= 0.8")


class InFolder(RuleBasedStateMachine):
    """A machine with a store in a folder of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


class Aliases(InFolder):
    """An alias is the top of a stack: promote pushes, rollback pops."""

    def __init__(self) -> None:
        super().__init__()
        self.stacks: dict[str, list[str]] = {}
        self.made = []
        for number in range(3):
            draft = self.store.draft("r", "sft", f"k{number}")
            self.made.append(
                self.store.commit(draft, kind="sft", identity={}, inputs={}, metrics={}, facts={})
            )

    @rule(alias=ALIASES, number=st.integers(0, 2))
    def promote(self, alias: str, number: int) -> None:
        checkpoint, stack = self.made[number], self.stacks.setdefault(alias, [])
        moved = Registry(self.store).promote(checkpoint, alias, [HOLDS])
        assert moved == (stack[-1:] != [checkpoint.address])
        if moved:
            stack.append(checkpoint.address)

    @rule(alias=ALIASES)
    def rollback(self, alias: str) -> None:
        stack = self.stacks.get(alias, [])
        if len(stack) < 2:
            with pytest.raises(ValueError, match="no earlier checkpoint"):
                Registry(self.store).rollback(alias)
        else:
            assert Registry(self.store).rollback(alias) == (stack.pop(), stack[-1])

    @rule(alias=ALIASES, number=st.integers(0, 2))
    def refuse(self, alias: str, number: int) -> None:
        fails = Finding("answers", False, "0.1 < 0.2")
        with pytest.raises(Refused):
            Registry(self.store).promote(self.made[number], alias, [HOLDS, fails])

    @rule(cut=st.sampled_from(['{"event": "promote", "alias": "release", "to": "r/s', "{", ""]))
    def crash_while_moving(self, cut: str) -> None:
        folder = self.folder / "registry/history"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".event.prepared").write_text(cut)

    @invariant()
    def aliases_are_the_tops(self) -> None:
        tops = {alias: stack[-1] for alias, stack in self.stacks.items() if stack}
        assert Registry(self.store).aliases() == tops


class Artifacts(InFolder):
    """A committed key keeps its address and its files for ever; numbers have no gaps."""

    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[tuple[Draft, str]] = []
        self.committed: dict[str, tuple[str, str]] = {}

    @rule(stage=STAGES, key=KEYS, text=st.text(max_size=3))
    def draft(self, stage: str, key: str, text: str) -> None:
        draft = self.store.draft("r", stage, f"{stage}-{key}")
        (draft.output / "weights").write_bytes(text.encode())
        self.drafts.append((draft, text))

    @precondition(lambda self: self.drafts)
    @rule(which=st.integers(0, 9))
    def commit(self, which: int) -> None:
        draft, text = self.drafts.pop(which % len(self.drafts))
        made = self.store.commit(draft, kind="sft", identity={}, inputs={}, metrics={}, facts={})
        assert self.committed.setdefault(draft.key, (made.address, text))[0] == made.address
        assert not draft.output.exists()

    @rule()
    def crash(self) -> None:
        self.drafts.clear()
        self.store.clear("r")
        assert not list(self.folder.glob("drafts/*"))

    @invariant()
    def what_is_visible_is_what_was_committed(self) -> None:
        found = Store(self.folder).by_key()
        assert {key: artifact.address for key, artifact in found.items()} == {
            key: address for key, (address, _) in self.committed.items()
        }
        for key, artifact in found.items():
            artifact.verify()
            written = (artifact.path / "weights").read_bytes().decode()
            assert written == self.committed[key][1]

    @invariant()
    def numbers_have_no_gaps(self) -> None:
        for stage in ("sft", "rl"):
            numbers = [a.record.number for a in self.store.artifacts() if a.record.stage == stage]
            assert numbers == list(range(1, len(numbers) + 1))


LIGHT = settings(max_examples=20, stateful_step_count=20, deadline=None)
TestAliases = Aliases.TestCase
TestAliases.settings = LIGHT
TestArtifacts = Artifacts.TestCase
TestArtifacts.settings = LIGHT
