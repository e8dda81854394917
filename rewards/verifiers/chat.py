"""One question to an OpenAI-compatible chat endpoint, and its answer or why there is none.

Overload, faults of the endpoint and replies that are none are tried again, up to `tries` times and
to the deadline. Nothing is made of a reply here but its text and the log-probs of its first token.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import aiohttp
from pydantic import BaseModel, Field, SecretStr, ValidationError

from rewards.verifiers import Unavailable

DEADLINE = 600.0
"""Seconds an item may take in all, waiting for a place included."""

TRIES = 5
ALTERNATIVES = 20
"""Most probable tokens asked for; the usual limit of endpoints."""

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
GRADE = 4
"""Tokens of an answer: enough to tell a bare digit from the beginning of a sentence."""


class Settings(BaseModel):
    """Where the endpoint is: base `url` up to /v1, `model`, and its `token` if it wants one.

    `timeout` bounds one try and `deadline` all of them, in seconds; `concurrency` the requests
    under way at once.
    """

    url: str = Field(pattern=r"^https?://")
    model: str = Field(min_length=1)
    token: SecretStr | None = None
    concurrency: int = Field(default=32, ge=1)
    timeout: float = Field(default=30.0, gt=0)
    deadline: float = Field(default=60.0, gt=0, le=DEADLINE)


class Alternative(BaseModel):
    """A token that could have come first."""

    token: str
    logprob: Annotated[float, Field(le=1e-3, allow_inf_nan=False)]


class _Position(BaseModel):
    top_logprobs: list[Alternative] = Field(min_length=1)


class _Logprobs(BaseModel):
    content: list[_Position] | None = None


class _Message(BaseModel):
    content: str


class _Choice(BaseModel):
    message: _Message
    logprobs: _Logprobs | None = None


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1, max_length=1)


class Answer(BaseModel):
    """The text of a reply, and the alternatives to its first token where the endpoint tells."""

    text: str
    alternatives: Sequence[Alternative]


class Chat:
    """Asks one endpoint over a pooled session."""

    def __init__(
        self, settings: Settings, session: aiohttp.ClientSession, *, tries: int = TRIES
    ) -> None:
        self._settings = settings
        self._session = session
        self._tries = tries
        self._gate = asyncio.Semaphore(settings.concurrency)

    async def ask(self, system: str, user: str, *, longest: int = GRADE) -> Answer:
        """The answer of at most `longest` tokens at temperature 0.

        Unavailable if there is none within the deadline.
        """
        body = {
            "model": self._settings.model,
            "messages": [
                {"role": "system", "content": system}, {"role": "user", "content": user},
            ],
            "temperature": 0,
            "max_tokens": longest,
            "logprobs": True,
            "top_logprobs": ALTERNATIVES,
        }  # fmt: skip
        async with self._gate:  # Waiting here counts for the caller's deadline, not for ours.
            return await self._persistently(body)

    async def _persistently(self, body: dict[str, object]) -> Answer:
        fault = Unavailable("judge_timeout", "no answer came within the deadline")
        try:
            async with asyncio.timeout(self._settings.deadline):
                for attempt in range(self._tries):
                    try:
                        return await self._once(body)
                    except _Again as again:
                        fault = again.fault
                        await asyncio.sleep(again.pause(attempt))
        except TimeoutError:
            pass
        raise fault

    async def _once(self, body: dict[str, object]) -> Answer:
        url = f"{self._settings.url.rstrip('/')}/chat/completions"
        try:
            async with self._session.post(url, json=body, allow_redirects=False) as reply:
                content = await reply.read()
        except (aiohttp.ClientError, TimeoutError) as fault:
            told = str(fault) or "timed out"
            raise _Again(Unavailable("judge_unreachable", f"{url}: {told}")) from None
        if reply.status == 200:
            return _answer(content)
        said = f"{url}: HTTP {reply.status}: {content[:200]!r}"
        if reply.status == 429 or reply.status >= 500:
            rest = reply.headers.get("Retry-After", "")
            asked = float(rest) if rest.isascii() and rest.isdigit() else None
            raise _Again(Unavailable("judge_overload", said), asked)
        raise Unavailable("judge_refused", said)


class _Again(Exception):
    """Worth another try, after `asked` seconds if the endpoint said so."""

    def __init__(self, fault: Unavailable, asked: float | None = None) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.asked = asked

    def pause(self, attempt: int) -> float:
        """Seconds before the try after number `attempt`, which counts from 0."""
        growing = min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE)
        return growing if self.asked is None else self.asked


def _answer(content: bytes) -> Answer:
    try:
        choice = _Reply.model_validate_json(content).choices[0]
    except ValidationError as fault:
        said = f"not a chat completion: {fault.errors(include_url=False)[0]['msg']}"
        raise _Again(Unavailable("judge_malformed", said)) from None
    positions = choice.logprobs.content if choice.logprobs else None
    first = positions[0].top_logprobs if positions else []
    return Answer(text=choice.message.content, alternatives=first)
