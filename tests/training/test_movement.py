import pytest
import torch

from posttrain.training.movement import Movement


def test_updates_lost_in_rounding_are_a_frozen_policy() -> None:
    """bfloat16 weights near 1 and a rate of 1e-6: Adam steps, and nothing moves."""
    for dtype, share in ((torch.bfloat16, 0.0), (torch.float32, 1.0)):
        model = torch.nn.Linear(8, 8, bias=False, dtype=dtype)
        torch.nn.init.ones_(model.weight)
        movement = Movement(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0)
        for _ in range(5):
            model(torch.ones(2, 8, dtype=dtype)).sum().backward()
            optimizer.step()
        assert movement.share() == share
        if share == 0:
            with pytest.raises(ValueError, match=r"0\.00% of the weights moved in 5 steps"):
                movement.check(5)
        else:
            movement.check(5)


def test_parameters_that_are_not_trained_do_not_count() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[0].requires_grad_(False)
    movement = Movement(model)
    torch.nn.init.zeros_(model[0].weight)
    assert movement.share() == 0
