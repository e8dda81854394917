"""The tokenizer in a GGUF file: byte-level BPE as GPT-2's, with the file's merges and tokens.

Always holds: token ids are those of the file; how text is cut before merging is known by name, and
a name that is not known is refused, since it would change ids unseen.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PREFIX = "tokenizer."
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4


def _gpt2() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> Any:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


CUTS: Mapping[str, Callable[[], Any]] = {"gpt-2": _gpt2, "smollm": _smollm}
"""How text is cut into pieces, by the name that GGUF has for it."""

_READ = {
    "ggml.model", "ggml.pre", "ggml.tokens", "ggml.token_type", "ggml.merges", "chat_template",
    "ggml.bos_token_id", "ggml.eos_token_id", "ggml.unknown_token_id", "ggml.padding_token_id",
    "ggml.add_bos_token", "ggml.add_space_prefix",
}  # fmt: skip
_SPECIAL = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}


def tokenizer(settings: Mapping[str, Any], template: str) -> PreTrainedTokenizerFast:
    """The tokenizer with this chat template; ValueError names what is not understood."""
    given = {
        key.removeprefix(PREFIX): value for key, value in settings.items() if key.startswith(PREFIX)
    }
    _check(given)
    tokens = given["ggml.tokens"]
    core = Tokenizer(
        models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=[tuple(merge.split(" ")) for merge in given["ggml.merges"]],
        )
    )
    core.pre_tokenizer = CUTS[given["ggml.pre"]]()
    core.decoder = decoders.ByteLevel()
    kinds = list(zip(tokens, given["ggml.token_type"], strict=True))
    core.add_special_tokens(
        [AddedToken(token, normalized=False) for token, kind in kinds if kind == _CONTROL]
    )
    core.add_tokens(
        [AddedToken(token, normalized=False) for token, kind in kinds if kind == _USER_DEFINED]
    )
    named = {
        f"{ours}_token": tokens[given[key]]
        for name, ours in _SPECIAL.items()
        if (key := f"ggml.{name}_token_id") in given
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=core, chat_template=template, clean_up_tokenization_spaces=False, **named
    )


def _check(given: Mapping[str, Any]) -> None:
    if unknown := sorted(given.keys() - _READ):
        raise ValueError(f"settings of the tokenizer that are not understood: {unknown}"[:300])
    if given.get("ggml.model") != "gpt2" or given.get("ggml.pre") not in CUTS:
        found = f"{given.get('ggml.model')!r} cut as {given.get('ggml.pre')!r}"
        raise ValueError(f"a tokenizer {found} is not read, only 'gpt2' cut as {', '.join(CUTS)}")
    if given.get("ggml.add_bos_token") or given.get("ggml.add_space_prefix"):
        raise ValueError("a tokenizer that adds to its text is not read: only the chat format may")
    if others := set(given["ggml.token_type"]) - {_NORMAL, _CONTROL, _USER_DEFINED}:
        raise ValueError(f"tokens of types {sorted(others)} are not read")
