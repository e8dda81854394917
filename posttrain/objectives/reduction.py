"""From tokens to completions and batches: sums and counts under a mask.

What the mask excludes has no influence, whatever it holds: it may be NaN.
"""

import torch


def precise(values: torch.Tensor) -> torch.Tensor:
    """`values` in float32, or in float64 if they are."""
    return values if values.dtype == torch.float64 else values.float()


def same_shape(*tensors: torch.Tensor) -> None:
    """ValueError unless all have one shape: a broadcast would hide a mistake."""
    shapes = {tuple(each.shape) for each in tensors}
    if len(shapes) > 1:
        raise ValueError(f"shapes {sorted(shapes)} differ: give one value for each")


def only(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`values` where `mask` is true and 0 elsewhere, with a gradient of 0; any one shape."""
    same_shape(values, mask)
    return torch.where(mask.bool(), precise(values), 0.0)


def row_sums(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Sum over the last dimension where `mask` is true; both (rows, tokens), result (rows,)."""
    return only(values, mask).sum(-1)


def row_lengths(mask: torch.Tensor) -> torch.Tensor:
    """Tokens of each row: (rows, tokens) to (rows,). ValueError if a row has none."""
    lengths = mask.bool().sum(-1)
    empty = (lengths == 0).nonzero().flatten().tolist()
    if empty:
        raise ValueError(f"row {empty[0]} has no token that counts: leave it out of the batch")
    return lengths


def share(losses: torch.Tensor, of: int | None = None) -> torch.Tensor:
    """This part's share in the mean over `of` losses of the whole batch (without it, all here).

    Zero, with a gradient of zero, for an empty part; `of` counts as at least 1.
    """
    return losses.sum() / max(losses.numel() if of is None else of, 1)
