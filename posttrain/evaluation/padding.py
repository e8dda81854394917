"""Documents of different lengths as one batch."""

from collections.abc import Sequence

import torch

from posttrain.data.chat import Rendered


def padded(
    documents: Sequence[Rendered], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids, and the mask of the targets: both (documents, tokens), padded on the right by zeros."""
    longest = max(len(document.ids) for document in documents)
    ids = torch.zeros(len(documents), longest, dtype=torch.long, device=device)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for row, document in enumerate(documents):
        ids[row, : len(document.ids)] = torch.tensor(document.ids)
        mask[row, : len(document.ids)] = torch.tensor(document.mask, dtype=torch.bool)
    return ids, mask
