import pytest
import torch
import torch.distributed as dist

from posttrain.training.process import single_process_group, threads


def test_a_group_lives_only_inside_its_block_and_can_be_made_again() -> None:
    for _ in range(2):
        with single_process_group("cpu"):
            total = torch.ones(2)
            dist.all_reduce(total)
            assert (dist.get_world_size(), total.tolist()) == (1, [1.0, 1.0])
        assert not dist.is_initialized()


def test_it_ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), single_process_group("cpu"):
        raise KeyError
    assert not dist.is_initialized()


def test_a_second_group_beside_the_first_is_refused() -> None:
    second = single_process_group("cpu")
    with single_process_group("cpu"), pytest.raises(ValueError, match="start a fresh process"):
        second.__enter__()


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
