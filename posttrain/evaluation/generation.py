"""Batched sampling from a model with a key-value cache, on whatever device the model is.

Always holds: the responses come back in the order of their prompts, each ends with its first stop
id or has `max_new_tokens` ids, and the same seed and batch limits give the same responses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel


@dataclass
class _Batch:
    """The unfinished rows of a batch: what they were given, and where each is to be written."""

    rows: torch.Tensor  # (live,) index of each live row in the batch
    attention: torch.Tensor  # (live, length) 0 on left padding
    position: torch.Tensor  # (live, 1) position of the next token
    cache: DynamicCache

    def keep(self, live: torch.Tensor) -> None:
        """Drop the rows where `live` is False."""
        index = live.nonzero()[:, 0]
        self.cache.batch_select_indices(index)
        self.rows, self.position = self.rows[index], self.position[index]
        self.attention = self.attention[index]


@torch.no_grad()
def sample(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    temperature: float,
    stop_ids: Sequence[int],
    seed: int,
    top_p: float = 1.0,
    batch_size: int = 128,
    batch_tokens: int = 2**18,
) -> list[list[int]]:
    """A response for each prompt, stop id included; temperature 0 takes the likeliest token.

    Below 1, `top_p` keeps the likeliest tokens that together have at least that probability.
    Prompts of like length share a batch, of at most `batch_tokens` with padding (a longer prompt
    is alone): its cache must fit into memory. The model is left in the mode it was in.
    """
    generator = torch.Generator(model.device).manual_seed(seed)
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    responses: list[list[int]] = [[] for _ in prompts]
    training = model.training
    model.eval()
    try:
        for chosen in _batches(order, prompts, batch_size, batch_tokens):
            batch = [prompts[index] for index in chosen]
            made = _respond(model, batch, max_new_tokens, temperature, top_p, stop_ids, generator)
            for index, response in zip(chosen, made, strict=True):
                responses[index] = response
    finally:
        model.train(training)
    return responses


def _batches(
    order: Sequence[int], prompts: Sequence[Sequence[int]], size: int, tokens: int
) -> Iterator[list[int]]:
    """`order`, in which prompts get longer, cut where a batch would exceed `size` or `tokens`."""
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) == size or (len(batch) + 1) * len(prompts[index]) > tokens):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _respond(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    limit: int,
    temperature: float,
    top_p: float,
    stop_ids: Sequence[int],
    generator: torch.Generator,
) -> list[list[int]]:
    tokens, batch = _begin(model, prompts)
    stops = torch.tensor(stop_ids, device=tokens.device)
    responses: list[list[int]] = [[] for _ in prompts]
    for step in range(limit):
        logits = _advance(model, tokens, batch)
        tokens = _draw(logits, temperature, top_p, generator)
        for row, token in zip(batch.rows.tolist(), tokens[:, 0].tolist(), strict=True):
            responses[row].append(token)
        live = ~torch.isin(tokens[:, 0], stops)
        if step == limit - 1 or not live.any():
            break
        if not live.all():
            tokens = tokens[live]
            batch.keep(live)
    return responses


def _begin(model: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, _Batch]:
    """The prompts, padded on the left, and the batch before any of them was read."""
    longest = max(map(len, prompts))
    tokens = torch.zeros(len(prompts), longest, dtype=torch.long)
    attention = torch.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, longest - len(prompt) :] = torch.tensor(prompt)
        attention[row, longest - len(prompt) :] = 1
    attention = attention.to(model.device)
    position = (attention.cumsum(1) - 1).clamp(min=0)
    rows = torch.arange(len(prompts), device=model.device)
    cache = DynamicCache(config=model.config)
    return tokens.to(model.device), _Batch(rows, attention, position, cache)


def _advance(model: PreTrainedModel, tokens: torch.Tensor, batch: _Batch) -> torch.Tensor:
    """Read `tokens` (live, n); logits (live, vocabulary) of the token after the last."""
    output = model(
        input_ids=tokens,
        # Without padding the causal mask is enough, and attention takes its fast path.
        attention_mask=None if bool(batch.attention.all()) else batch.attention,
        position_ids=batch.position,
        past_key_values=batch.cache,
        use_cache=True,
        logits_to_keep=1,
    )
    one = batch.attention.new_ones(len(tokens), 1)
    batch.attention = torch.cat([batch.attention, one], 1)
    batch.position = batch.position[:, -1:] + 1
    logits: torch.Tensor = output.logits[:, -1].float()
    return logits


def _draw(
    logits: torch.Tensor, temperature: float, top_p: float, generator: torch.Generator
) -> torch.Tensor:
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    chances = (logits / temperature).softmax(-1)
    if top_p < 1:
        chances = _nucleus(chances, top_p)
    return torch.multinomial(chances, 1, generator=generator)


def _nucleus(chances: torch.Tensor, top_p: float) -> torch.Tensor:
    """`chances` (live, vocabulary) without what lies beyond the likeliest that reach `top_p`."""
    ordered, index = chances.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(chances).scatter(-1, index, ordered.masked_fill(before >= top_p, 0.0))
