"""From a GGUF file to a Hugging Face folder, in float32.

Always holds: each tensor of the file goes to one of the model, and each of the model comes from
one of the file.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.gguf import llama, template, tokens
from posttrain.gguf.file import Array, GgufFile

Report = Callable[[int, int], None]
"""Called with the number of tensors done, and of all."""


def convert(path: Path, folder: Path, report: Report) -> dict[str, Any]:
    """Write `folder`; returns what the file said of itself. ValueError says what is not read."""
    source = GgufFile.open(path)
    try:
        model = _config(source)
        weights = _weights(source, model, report)
        chat = template.marked(source.settings.get("tokenizer.chat_template", ""))
        tokenizer = tokens.tokenizer(source.settings, chat)
    except ValueError as fault:
        raise ValueError(f"{path.name}: {fault}") from None
    if (count := len(tokenizer)) != model["vocab_size"]:
        raise ValueError(f"{path.name}: {count} tokens, the model has {model['vocab_size']}")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    _write(folder, weights, model, tokenizer)
    general = {key: value for key, value in source.settings.items() if key.startswith("general.")}
    return {"tensors": len(weights), "types": source.types, **general}


def _config(source: GgufFile) -> dict[str, Any]:
    architecture = source.settings.get("general.architecture")
    if architecture != "llama":
        raise ValueError(f"architecture {architecture!r} is not read, only 'llama'")
    return llama.config(source.settings, tied="output.weight" not in source.names)


def _weights(source: GgufFile, model: dict[str, Any], report: Report) -> dict[str, Array]:
    wanted = llama.targets(model)
    if odd := sorted(wanted.keys() ^ set(source.names)):
        raise ValueError(f"tensors that are missing or not understood: {', '.join(odd)[:200]}")
    weights: dict[str, Array] = {}
    for name, values in source.tensors():
        weights[wanted[name].name] = wanted[name].take(values)
        report(len(weights), len(wanted))
    return weights


def _write(folder: Path, weights: dict[str, Array], model: dict[str, Any], tokenizer: Any) -> None:
    from safetensors.numpy import save_file

    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in _SPECIAL}
    (folder / "config.json").write_text(json.dumps(model | ids, indent=1))
    (folder / "generation_config.json").write_text(json.dumps(ids, indent=1))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


_SPECIAL = ("bos", "eos", "pad")
