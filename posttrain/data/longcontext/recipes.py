"""What a recipe's long-context data become: rows by split, and figures of them.

`folders` holds the folder of each input by its role: the tokenizer and the sources.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.data.longcontext.conversation import Row
from posttrain.data.longcontext.dictionaries import Lookups, lookups
from posttrain.data.longcontext.probes import Probes, probes
from posttrain.data.longcontext.section_orders import section_orders
from posttrain.data.longcontext.sources import FromDocuments, SplitTexts, Task, made
from posttrain.data.longcontext.word_counts import word_counts

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

Folders = Mapping[str, Path]
Made = tuple[Mapping[str, list[Row]], Mapping[str, float]]


def make_word_counts(seed: int, asked: FromDocuments, folders: Folders) -> Made:
    """Questions on how often words occur; see `word_counts`."""
    return _of_documents("word counts", word_counts, seed, asked, folders)


def make_section_orders(seed: int, asked: FromDocuments, folders: Folders) -> Made:
    """Questions on the order of sections; see `section_orders`."""
    return _of_documents("section orders", section_orders, seed, asked, folders)


def make_lookups(seed: int, asked: Lookups, folders: Folders) -> Made:
    """Questions on a key in a list of dictionaries; the figures are those of `train`."""
    chat, seed = _chat(folders), seed if asked.seed is None else asked.seed
    train, figures = lookups(chat, asked, asked.rows, seed)
    holdout, _ = lookups(chat, asked, asked.holdout, seed, holdout=True)
    return {"train": train} | ({"holdout": holdout} if holdout else {}), figures


def make_probes(seed: int, asked: Probes, folders: Folders) -> Made:
    """Rows of the long-context suite, all held out."""
    return {"holdout": probes(_chat(folders), asked, seed)}, {}


def _of_documents(name: str, task: Task, seed: int, asked: FromDocuments, folders: Folders) -> Made:
    # The target is part of the seed: rows for one length must not repeat those for another.
    draw = random.Random(f"{name} {seed if asked.seed is None else asked.seed} {asked.target}")
    sources = {
        name: SplitTexts(folders[f"data.{name}"] / "train.jsonl") for name in asked.documents
    }
    rows, figures = made(task, sources, _chat(folders), asked, draw)
    return {"train": rows}, figures


def _chat(folders: Folders) -> "ChatFormat":
    from posttrain.data.tokenizer import chat_format

    return chat_format(folders["tokenizer"])
