"""A loaded model behind an OpenAI-compatible completions endpoint, for as long as it is measured.

It takes prompts as token ids and answers with text, or with the log-probabilities of the prompt
(`echo`). Always holds: it listens on loopback alone and on a free port, and answers one at a time.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveInt
from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.evaluation.generation import sample

_READY_WITHIN = 30.0


class Asked(BaseModel):
    """What of a completions request is heeded; a penalty or another `n`, say, is refused."""

    model_config = ConfigDict(extra="forbid")

    model: str
    prompt: list[int] | list[list[int]]
    max_tokens: PositiveInt = 16
    temperature: NonNegativeFloat = 0.0
    top_p: float = 1.0
    stop: str | list[str] | None = None
    seed: int = 0
    echo: bool = False
    logprobs: int | None = None

    @property
    def prompts(self) -> list[list[int]]:
        """One or several prompts as several."""
        several = [each for each in self.prompt if isinstance(each, list)]
        return several or [[each for each in self.prompt if isinstance(each, int)]]


@contextmanager
def served(model: PreTrainedModel, chat: ChatFormat) -> Iterator[str]:
    """The URL of the completions of `model`; it stops being served at the end."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    settings = uvicorn.Config(_app(model, chat), log_level="warning", lifespan="off")
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + _READY_WITHIN
        while not server.started:
            if time.monotonic() > deadline or not thread.is_alive():
                raise RuntimeError("the endpoint of the checkpoint did not start")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions"
    finally:
        server.should_exit = True
        thread.join(_READY_WITHIN)


def _app(model: PreTrainedModel, chat: ChatFormat) -> FastAPI:
    app = FastAPI()
    one = asyncio.Lock()

    @app.post("/v1/completions")
    async def completions(asked: Asked) -> dict[str, Any]:
        if not all(asked.prompts):
            raise HTTPException(400, "a prompt is empty")
        longest = max(map(len, asked.prompts)) + (0 if asked.echo else asked.max_tokens)
        if longest > (most := model.config.max_position_embeddings):
            raise HTTPException(400, f"{longest} tokens are asked for, the context has {most}")
        async with one:
            answer = _echoed if asked.echo else _generated
            choices = await asyncio.to_thread(answer, model, chat, asked)
        return {"object": "text_completion", "model": asked.model, "choices": choices}

    return app


def _generated(model: PreTrainedModel, chat: ChatFormat, asked: Asked) -> list[dict[str, Any]]:
    found = sample(
        model, asked.prompts, max_new_tokens=asked.max_tokens, temperature=asked.temperature,
        top_p=asked.top_p, stop_ids=chat.stop_ids, seed=asked.seed,
    )  # fmt: skip
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    choices = []
    for index, ids in enumerate(found):
        text = str(chat.tokenizer.decode(ids, skip_special_tokens=True))
        cut = min((at for stop in stops if stop and (at := text.find(stop)) >= 0), default=None)
        ended = cut is not None or ids[-1] in chat.stop_ids
        choices.append(
            {"index": index, "text": text[:cut], "finish_reason": "stop" if ended else "length"}
        )
    return choices


@torch.no_grad()
def _echoed(model: PreTrainedModel, chat: ChatFormat, asked: Asked) -> list[dict[str, Any]]:
    """Of each prompt, the log-probabilities of its tokens and of the likeliest in their places.

    A token more is answered, as the protocol has it that one is generated.
    """
    choices = []
    for index, ids in enumerate(asked.prompts):
        logits = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits
        chances = logits[0].float().log_softmax(-1)
        best, likeliest = chances.max(-1)
        given = [chances[at, token].item() for at, token in enumerate(ids[1:])]
        tops = [{str(t): v} for t, v in zip(likeliest.tolist(), best.tolist(), strict=True)]
        told = {
            "tokens": [str(token) for token in [*ids, int(likeliest[-1])]],
            "token_logprobs": [None, *given, best[-1].item()],
            "top_logprobs": [None, *tops],
        }
        choices.append({"index": index, "text": "", "finish_reason": "length", "logprobs": told})
    return choices
