"""Whether a server renders, tokenises and ends as training does: asked over its HTTP API.

What is compared are token ids: those that `/tokenize` tells, those that a generation started from,
and those of the rendered text sent without the chat API, where a tokenizer may add a second begin
of text.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.data.chat import ChatFormat
from posttrain.equivalence.rendering import conversations, difference, load_tokenizer
from posttrain.release.endpoint import Endpoint

_FORCE = 100.0
"""A bias under which a token is always taken."""


def served_faults(folder: Path, endpoint: Endpoint) -> Iterator[str]:
    """What the server of a folder does otherwise than training; what it does not tell is a fault.

    Gone if nobody answers there.
    """
    tokenizer = load_tokenizer(folder)
    chat = ChatFormat.from_tokenizer(tokenizer)
    for number, row in enumerate(conversations(chat), 1):
        for path, trained, told in _ways(chat, endpoint, row):
            if isinstance(told, str):
                yield f"conversation {number}: {path}: {told}"
            elif told != trained:
                yield f"conversation {number}: {path} renders {difference(chat, trained, told)}"
    yield from _end_faults(chat, endpoint)


Told = list[int] | str
"""Ids, or why there are none."""


def _ways(
    chat: ChatFormat, endpoint: Endpoint, row: Mapping[str, Any]
) -> Iterator[tuple[str, list[int], Told]]:
    """Each way to have a conversation rendered: its name, the ids of training, and those told."""
    whole, asked = chat.render(row).ids, _asked(row)  # type: ignore[arg-type]
    prompt = chat.prompt(asked).ids  # type: ignore[arg-type]
    body = _body(endpoint, row)
    yield "the server", whole, _tokenized(endpoint, {**body, "add_generation_prompt": False})
    yield "the server's prompt", prompt, _tokenized(endpoint, _body(endpoint, asked))
    yield "a generation", prompt, _started(endpoint, "/chat/completions", _body(endpoint, asked))
    text = chat.tokenizer.decode(prompt, clean_up_tokenization_spaces=False)
    sent = {"model": endpoint.model, "prompt": text}
    yield "a completion", prompt, _started(endpoint, "/completions", sent)


def _asked(row: Mapping[str, Any]) -> dict[str, Any]:
    """The conversation before its last answer."""
    return {**row, "messages": row["messages"][:-1]}


def _body(endpoint: Endpoint, row: Mapping[str, Any]) -> dict[str, Any]:
    kwargs = {"enable_thinking": row["deliberation"]}
    body = {"model": endpoint.model, "messages": row["messages"], "chat_template_kwargs": kwargs}
    return {**body, "tools": row["tools"]} if row["tools"] else body


def _tokenized(endpoint: Endpoint, body: Mapping[str, Any]) -> Told:
    answer = endpoint.beside("/tokenize", body)
    return answer.body["tokens"] if answer.status == 200 else f"/tokenize: {answer.told}"


def _started(endpoint: Endpoint, path: str, body: Mapping[str, Any]) -> Told:
    """The ids that a generation of one token started from."""
    answer = endpoint.post(path, {**body, "max_tokens": 1, "return_token_ids": True})
    if answer.status != 200:
        return f"{path}: {answer.told}"
    found = answer.body.get("prompt_token_ids") or answer.body["choices"][0].get("prompt_token_ids")
    return found or "the server does not tell from which ids it generates"


def _end_faults(chat: ChatFormat, endpoint: Endpoint) -> Iterator[str]:
    """Where a generation goes on after an id that ends a turn."""
    messages: Sequence[Mapping[str, str]] = [{"role": "user", "content": "Hello"}]
    for stop in chat.stop_ids:
        answer = endpoint.post(
            "/chat/completions",
            {
                "model": endpoint.model, "messages": messages, "max_tokens": 4, "temperature": 0,
                "logit_bias": {str(stop): _FORCE},
            },
        )  # fmt: skip
        name = chat.tokenizer.convert_ids_to_tokens(stop)
        if answer.status != 200:
            yield f"whether the server ends at {name} is not known: {answer.told}"
        elif answer.body["choices"][0]["finish_reason"] != "stop":
            yield f"the server does not end at {name} ({stop})"
