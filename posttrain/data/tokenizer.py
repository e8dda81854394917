"""Byte-level BPE tokenizers trained on a run's own data, with the chat's control tokens.

Always holds: any text survives a round trip; no token is added that the caller did not write
(the chat format alone owns `<s>`); `</s>` is the end of text and `<|assistant_end|>` of a turn.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from posttrain import digest
from posttrain.data.apertus import BOS, EOS, MARKERS, TEMPLATE, pieces
from posttrain.data.chat import ChatFormat
from posttrain.data.templates import CHATML, CHATML_MARKERS, SPANS

UNKNOWN, PAD = "<unk>", "<pad>"

_UNITS = "|".join(
    (
        # What the chat format repeats in every row: as a unit, each line becomes one token.
        r"Deliberation: \w+\n",
        r"Tool Capabilities:[^\n]*\n?",
        r"// [^\n]*\n",
        r"type \w+ = [^;]*;\n?",
        r"""\[\{"\w+": \{"\w+": \["|"\]\}\}\]""",
        # A letter with one digit is an item such as " b4"; longer numbers go by two digits.
        r" ?[a-z]\d(?!\d)| ?[A-Za-z]+|\d{1,2}| ?[^\sA-Za-z\d]+|\s+",
    )
)


Format = Literal["apertus", "chatml"]

_FORMATS: Mapping[Format, tuple[tuple[str, ...], str]] = {
    "apertus": (MARKERS, TEMPLATE),
    "chatml": ((*CHATML_MARKERS, *SPANS), CHATML),
}
"""Chat format -> its control tokens and its template."""


def train_tokenizer(
    texts: Iterable[str], vocabulary: int, *, format: Format = "apertus"
) -> PreTrainedTokenizerFast:
    """A tokenizer of at most `vocabulary` tokens, trained on `texts` (see `row_texts`).

    ValueError when `vocabulary` cannot hold the control tokens and the 256 bytes.
    """
    markers, template = _FORMATS[format]
    controls = [UNKNOWN, BOS, EOS, PAD, *markers]
    if vocabulary < len(controls) + 256:
        raise ValueError(f"vocabulary {vocabulary} is below {len(controls) + 256}, the minimum")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_UNITS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=controls, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=template, clean_up_tokenization_spaces=False,
        unk_token=UNKNOWN, bos_token=BOS, eos_token=EOS, pad_token=PAD,
        additional_special_tokens=list(markers),
    )  # fmt: skip


def load(artifact: Path) -> PreTrainedTokenizerBase:
    """The tokenizer in the folder of a tokenizer artifact, or of a checkpoint's."""
    model = artifact / "model"
    folder = model if model.is_dir() else artifact
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return found


def chat_format(artifact: Path) -> ChatFormat:
    """The chat format over the tokenizer of an artifact."""
    return ChatFormat.from_tokenizer(load(artifact))


def digests(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """sha256 of all that decides its tokens, and of its chat template."""
    content = {
        "tokens": tokenizer.get_vocab(),
        "model": tokenizer.backend_tokenizer.to_str(),
        "special": tokenizer.special_tokens_map,
    }
    template = tokenizer.chat_template or ""
    return {
        "tokenizer_sha256": digest.of_value(content),
        "template_sha256": hashlib.sha256(str(template).encode()).hexdigest(),
    }


def row_texts(row: Mapping[str, Any]) -> list[str]:
    """The texts of a corpus or dialogue row, control tokens left out."""
    if "messages" in row:
        return [piece.text for piece in pieces(row) if not piece.control]  # type: ignore[arg-type]
    return [row["prompt"] + row["continuation"]]
