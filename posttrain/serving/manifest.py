"""The serving manifest of a checkpoint: what a server must know, and what it must not change.

A folder made for release holds it as `serving.json`; of any other it is derived from the files. A
manifest that says something else than its folder is refused.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

FILE = "serving.json"
PARSER = "posttrain_ids"
"""Name under which the parser by token id is known to vLLM."""


class ServingManifest(BaseModel):
    """`stop_ids` end a response, `end_ids` are all that end a generation by default.

    `markers` are the ids by which the parser tells thoughts and calls apart. Digests are sha256;
    `context_length` is in tokens.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    template_sha256: str
    tokenizer_sha256: str
    bos_id: int | None
    stop_ids: tuple[int, ...]
    end_ids: tuple[int, ...]
    markers: Mapping[str, int]
    reasoning_parser: str
    tool_parser: str
    context_length: PositiveInt
    dtype: str

    def text(self) -> str:
        """As the file holds it."""
        return self.model_dump_json(indent=1) + "\n"


def derived(folder: Path) -> ServingManifest:
    """The manifest that a Hugging Face folder's own files give.

    ValueError if it lacks one of them, or if a generation would not end where a turn does.
    """
    from posttrain.data.chat import ChatFormat
    from posttrain.data.tokenizer import digests, load

    config = _json(folder / "config.json")
    generation = _json(folder / "generation_config.json")
    tokenizer = load(folder)
    chat = ChatFormat.from_tokenizer(tokenizer)
    stated = generation.get("eos_token_id")
    ends = tuple(stated) if isinstance(stated, list) else () if stated is None else (stated,)
    if missing := [stop for stop in chat.stop_ids if stop not in ends]:
        names = ", ".join(map(str, tokenizer.convert_ids_to_tokens(missing)))
        raise ValueError(
            f"{folder / 'generation_config.json'} does not end at {names}: a server would go on "
            "after the turn; state all of its ends under eos_token_id"
        )
    return ServingManifest(
        **digests(tokenizer), bos_id=chat.bos, stop_ids=tuple(chat.stop_ids), end_ids=ends,
        markers=_markers(chat), reasoning_parser=PARSER, tool_parser=PARSER,
        context_length=config["max_position_embeddings"],
        dtype=config.get("dtype") or config.get("torch_dtype") or "float32",
    )  # fmt: skip


def read(folder: Path) -> ServingManifest:
    """The manifest of a folder; ValueError if the one it holds is not that of its files."""
    found = derived(folder)
    path = folder / FILE
    if not path.is_file():
        return found
    try:
        stated = ServingManifest.model_validate_json(path.read_bytes())
    except ValidationError as fault:
        first = fault.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path}: {place}: {first['msg']}") from None
    if told := differences(stated, found):
        raise ValueError(f"{path} is not the manifest of its folder: {'; '.join(told)}")
    return found


def differences(stated: ServingManifest, found: ServingManifest) -> list[str]:
    """What a manifest states otherwise than it was found to be."""
    before, after = stated.model_dump(), found.model_dump()
    return [
        f"{name} is {after[name]!r}, it states {before[name]!r}"
        for name in after
        if before[name] != after[name]
    ]


def _markers(chat: Any) -> dict[str, int]:
    from posttrain.serving.reading import Markers

    read_by = ("<|inner_", "<|tools_", "<|tool_output_", "<|assistant_end|>")
    names = Markers.of(chat).names
    return {name: index for index, name in sorted(names.items()) if name.startswith(read_by)}


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path} is missing, and a server needs it")
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content
