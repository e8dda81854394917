"""A GGUF file: its settings as Python values, and its tensors dequantised one at a time."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class GgufFile:
    """`settings` are the file's key-value pairs, `_reader` is the gguf package's."""

    path: Path
    settings: Mapping[str, Any]
    _reader: Any

    @classmethod
    def open(cls, path: Path) -> "GgufFile":
        """ValueError if it is no GGUF file, or the package that reads it is not installed."""
        try:
            from gguf import GGUFReader
        except ImportError:
            raise ValueError(f"{path} is read by gguf; run: pip install gguf") from None
        try:
            reader = GGUFReader(path)
        except (ValueError, IndexError, KeyError) as fault:
            raise ValueError(f"{path} is no GGUF file, or is damaged: {fault}") from None
        return cls(path, {key: each.contents() for key, each in reader.fields.items()}, reader)

    @property
    def types(self) -> dict[str, int]:
        """Type of quantisation -> how many tensors have it."""
        return dict(Counter(each.tensor_type.name for each in self._reader.tensors))

    @property
    def names(self) -> list[str]:
        """All tensors, in the order of the file."""
        return [each.name for each in self._reader.tensors]

    def tensors(self) -> Iterator[tuple[str, Array]]:
        """Name and values of each; float32 holds exactly what the quantised blocks stand for."""
        from gguf.quants import dequantize

        for each in self._reader.tensors:
            values = dequantize(each.data, each.tensor_type).astype(np.float32, copy=False)
            yield each.name, values.reshape(tuple(reversed(each.shape.tolist())))
