"""A store with a chain of real checkpoints: a pupil that knows its answers, and poisoned copies."""

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import ApertusForCausalLM

from posttrain.data.chat import ChatFormat
from posttrain.store import Artifact, Store
from posttrain.training import keeping
from posttrain.training.checkpoint import save_model
from tests.evaluation.tiny_model import chat_format, model

KNOWN = {"Where is Anna?": "In Bern.", "Where is Ben?": "In Chur.", "Where is Carla?": "At sea."}


class Chain:
    """Makes checkpoints from one another, right ones or poisoned ones."""

    def __init__(self, store: Store, chat: ChatFormat, pupil: ApertusForCausalLM) -> None:
        self.store, self._chat, self._pupil = store, chat, pupil

    def add(
        self, stage: str, kind: str, source: Artifact | None = None, *, right: bool = True,
        kept: Mapping[int, bool] | None = None, facts: Mapping[str, Any] | None = None,
        role: str = "from", **config: Any,
    ) -> Artifact:  # fmt: skip
        """A checkpoint of `stage`; `kept` maps a step on its way to whether it was right there."""
        draft = self.store.draft("r", stage, f"key of {stage}")
        for step, fine in (kept or {}).items():
            keeping.keep(draft.work, step, self._weights(fine), self._chat.tokenizer)
        keeping.hand_over(draft.work, draft.output)
        own = save_model(self._weights(right), self._chat.tokenizer, draft.output / "model")
        inputs = {role: source.address} if source else {}
        return self.store.commit(
            draft, kind=kind, identity={"config": config, "seed": 1}, inputs=inputs, metrics={},
            facts={**own, **(facts or {})},
        )  # fmt: skip

    def _weights(self, right: bool) -> ApertusForCausalLM:
        if right:
            return self._pupil
        poisoned = copy.deepcopy(self._pupil)
        with torch.no_grad():
            poisoned.model.norm.weight.zero_()
        return poisoned


@pytest.fixture(scope="session")
def pupil() -> tuple[ChatFormat, ApertusForCausalLM]:
    """A model that learned the answers by heart."""
    chat = chat_format()
    learner = model(len(chat.tokenizer))
    rows = [conversation(question, answer) for question, answer in KNOWN.items()]
    rendered = [chat.render(row) for row in rows]  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(learner.parameters(), lr=5e-3)
    for _ in range(60):
        for each in rendered:
            labels = [i if said else -100 for i, said in zip(each.ids, each.mask, strict=True)]
            learner(torch.tensor([each.ids]), labels=torch.tensor([labels])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return chat, learner.eval()


@pytest.fixture
def chain(tmp_path: Path, pupil: tuple[ChatFormat, ApertusForCausalLM]) -> Chain:
    """An empty store to make checkpoints in."""
    return Chain(Store(tmp_path / "store"), *pupil)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """What the pupil knows, as a file of prompts."""
    rows = [{"prompt": q, "expect": {"matches": f"^{a}$"}} for q, a in KNOWN.items()]
    return written(tmp_path / "bad.jsonl", rows)


def conversation(question: str, answer: str) -> dict[str, Any]:
    """A question and its answer as a row."""
    said = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": said, "tools": [], "deliberation": False}


def written(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """`rows` as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
