import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from verl.workers.rollout.replica import TokenOutput

from posttrain.data.chat import ChatFormat
from posttrain.rl import agent
from posttrain.rl.agent import AnswerLoop, RewardFaultError
from posttrain.rl.degeneration import DegenerationConfig
from posttrain.rl.tools import ToolFaultError, TurnsConfig
from rewards.client import RewardClient
from tests.rewards.service import serving
from tests.rl.policy import Policy, ids_of

ROW = {
    "ids": [1, 2, 3], "verifier": "answer", "gold": ["09"], "parameters": {}, "source": "sums",
    "task": "sum", "deliberation": True, "answer_tool": True,
}  # fmt: skip


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the loops tell the runner: the sign, and all that goes with it."""
    signs: list[tuple[Any, ...]] = []

    async def tell(*sign: Any) -> None:
        signs.append(sign)

    monkeypatch.setattr(agent, "_tell", tell)
    return signs


class Server:
    """Stands for verl's client of the rollout servers: gives the same response each time."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
        self.asked: dict[str, Any] = {}

    async def generate(self, request_id: str, **asked: Any) -> TokenOutput:
        self.asked = asked
        return TokenOutput(
            token_ids=self.ids, log_probs=[-0.5] * len(self.ids),
            extra_fields={"min_global_steps": 3, "max_global_steps": 4},
        )  # fmt: skip


def _response(chat: ChatFormat, *, given: str | None = "09", thinks: bool = True) -> list[int]:
    message: dict[str, Any] = {"role": "assistant"}
    if thinks:
        message["thoughts"] = "a03 b09"
    if given is not None:
        message["tool_calls"] = [{"name": "display_answers", "arguments": {"answers": [given]}}]
    asked = {"messages": [{"role": "user", "content": "x"}], "tools": [], "deliberation": True}
    prompt = chat.render(asked, add_generation_prompt=True).ids  # type: ignore[arg-type]
    asked["messages"] = [*asked["messages"], message]  # type: ignore[misc]
    return chat.render(asked).ids[len(prompt) :]  # type: ignore[arg-type]


async def _run(
    url: str, chat: ChatFormat, ids: list[int], patience: float = 20.0, **row: Any
) -> tuple[Any, Server]:
    server = Server(ids)
    loop = AnswerLoop(server, chat.tokenizer, rewards=url, room=64, processor=None)
    async with RewardClient(url, patience=patience) as client:
        agent._clients[url] = client
        asked = {"item": json.dumps(ROW | row), "uid": "17", "session_id": 2}
        return await loop.run({"temperature": 1.0}, **asked), server


@pytest.mark.parametrize(
    ("response", "reward", "thinking"),
    [
        ({"given": "09"}, 1.0, 1.0),
        ({"given": "08"}, 0.0, 1.0),
        ({"given": "09", "thinks": False}, 1.0, 0.0),
        ({"given": None}, 0.0, 1.0),
    ],
)
def test_a_trajectory_gets_the_score_of_the_service(
    tmp_path: Path, chat: ChatFormat, told: list[Any],
    response: dict[str, Any], reward: float, thinking: float,
) -> None:  # fmt: skip
    ids = _response(chat, **response)
    with serving(tmp_path, "--verifiers", "answer") as service:
        output, server = asyncio.run(_run(service.url, chat, ids))
    assert output.reward_score == reward
    reason = "" if reward else told[-1][5]
    assert [sign[:-1] for sign in told] == [
        ("generating",),
        ("generated", 17, 2, len(ids)),
        ("scored", 17, 2, "sums", "scored", reason, reward),
    ]
    assert told[0] == ("generating", 17)
    assert told[1][-1] == [3, 4]
    assert told[2][-1] > 0
    assert (output.prompt_ids, output.response_ids) == (ROW["ids"], ids)
    assert output.response_mask == [1] * len(ids)
    assert output.extra_fields["reward_extra_info"] == {"thinking": thinking, "complete": 1.0}
    assert output.extra_fields["min_global_steps"] == 3
    assert server.asked["sampling_params"]["stop_token_ids"] == chat.stop_ids


def test_a_response_cut_short_answers_nothing(tmp_path: Path, chat: ChatFormat) -> None:
    ids = _response(chat)[:-1]
    with serving(tmp_path, "--verifiers", "answer") as service:
        output, _ = asyncio.run(_run(service.url, chat, ids))
    assert output.reward_score == 0.0
    assert output.extra_fields["reward_extra_info"]["complete"] == 0.0


def _verdict(status: str, score: float | None) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.Response:
        items = (await request.json())["items"]
        named = [{"id": item["id"], "verifier": item["verifier"]} for item in items]
        verdict = {"status": status, "score": score, "reason": "worker_lost"}
        return web.json_response({"verdicts": [name | verdict for name in named]})

    return answer


async def _broken(request: web.Request) -> web.Response:
    return web.Response(status=500)


@pytest.mark.parametrize(
    "handler",
    [_verdict("failed", None), _verdict("abstained", None), _verdict("failed", 1.0), _broken],
    ids=["failed", "abstained", "failed-with-a-score", "http-500"],
)
def test_a_fault_of_the_service_is_never_a_reward(
    handler: Callable[[web.Request], Any], chat: ChatFormat, told: list[Any]
) -> None:
    async def against_it() -> None:
        application = web.Application()
        application.router.add_post("/v1/score", handler)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        with pytest.raises(RewardFaultError, match="source sums, verifier answer"):
            await _run(url, chat, _response(chat), patience=0.3)
        await runner.cleanup()

    asyncio.run(against_it())
    sign, _, _, source, status, _, score, _ = told[-1]
    assert (sign, source, score) == ("scored", "sums", None)
    assert status in {"failed", "abstained"}


def test_a_service_that_is_gone_is_a_fault(chat: ChatFormat) -> None:
    with pytest.raises(RewardFaultError, match="unreachable"):
        asyncio.run(_run("http://127.0.0.1:1", chat, _response(chat), patience=0.3))


@pytest.mark.parametrize("verifier", ["answer", "math", "constraints"])
@pytest.mark.parametrize("offered", [True, False])
@pytest.mark.parametrize("given", ["09", None])
def test_what_a_verifier_gets(
    chat: ChatFormat, verifier: str, offered: bool, given: str | None
) -> None:
    """Text with its control tokens but the last, not for `answer`; answers where they count."""
    ids = _response(chat, given=given)
    row = ROW | {"verifier": verifier, "answer_tool": offered, "parameters": {"a": 1}}
    item = agent.to_verify(chat, row, ids, None if given is None else [given])
    assert (item.verifier, item.gold, item.parameters) == (verifier, ["09"], {"a": 1})
    answers = [] if given is None else [given]
    if verifier == "answer":
        assert (item.answers, item.response) == (answers, None)
        return
    assert item.answers == (answers if offered else None)
    assert item.response is not None
    assert item.response.startswith("<|inner_prefix|>")
    assert ("<|tools_prefix|>" in item.response) == (given is not None)
    assert ids[-1] in chat.stop_ids
    assert chat.tokenizer.encode(item.response, add_special_tokens=False) == ids[:-1]


def _turns(chat: ChatFormat, tool: str, arguments: str) -> Policy:
    called = ("<|tools_prefix|>", f'[{{"{tool}": {arguments}}}]', "<|tools_suffix|>")
    return Policy([ids_of(chat, *called), _response(chat, thinks=False)])


def _talk(chat: ChatFormat, policy: Policy, url: str, **asked: Any) -> Any:
    loop = AnswerLoop(policy, chat.tokenizer, rewards=url, room=400, processor=None, **asked)

    async def talk() -> Any:
        async with RewardClient(url, patience=20) as client:
            agent._clients[url] = client
            row = {"item": json.dumps(ROW), "uid": "17", "session_id": 2}
            return await loop.run({"temperature": 1.0}, **row)

    return asyncio.run(talk())


def test_a_trajectory_of_several_turns_is_scored_by_its_answer(
    tmp_path: Path, chat: ChatFormat, told: list[Any]
) -> None:
    policy = _turns(chat, "calculator", '{"expression": "4+5"}')
    turns = TurnsConfig(most=3, tools=("calculator",)).model_dump_json()
    looked = DegenerationConfig(every=7).model_dump_json()
    with serving(tmp_path, "--verifiers", "answer") as service:
        output = _talk(chat, policy, service.url, turns=turns, degeneration=looked)
    assert output.reward_score == 1.0
    own = sum(output.response_mask)
    assert own == len(policy.said) < len(output.response_ids)
    requests = len(policy.requests)
    versions = [1, requests + 1]
    assert told[1] == ("counted", {"calls.sums.calculator.ok": 1})
    assert told[2] == ("generated", 17, 2, own, versions)
    assert [output.extra_fields[f"{end}_global_steps"] for end in ("min", "max")] == versions
    assert output.extra_fields["reward_extra_info"] == {
        "thinking": 0.0, "complete": 1.0, "turns": 2.0, "degenerate": 0.0,
        "output_tokens": float(len(output.response_ids) - own),
    }  # fmt: skip
    assert output.num_turns == 4


def test_a_tool_that_is_gone_loses_the_sample_and_is_counted(
    chat: ChatFormat, told: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posttrain.rl.tools._PATIENCE", 0.2)
    turns = TurnsConfig(most=2, tools=("python",)).model_dump_json()
    gone = "http://127.0.0.1:1"
    with pytest.raises(ToolFaultError):
        _talk(chat, _turns(chat, "python", '{"code": "1"}'), gone, turns=turns, sandbox=gone)
    assert [sign[0] for sign in told] == ["generating", "counted"]
    assert told[1][1] == {"tool_faults.sums": 1}


def test_one_client_serves_all_trajectories_of_a_process() -> None:
    async def twice() -> bool:
        first = await agent._client("http://127.0.0.1:2")
        same = first is await agent._client("http://127.0.0.1:2")
        await first.__aexit__(None, None, None)
        return same

    assert asyncio.run(twice())
