"""Keys of training stages on which no bit of the result depends are no part of the node's key."""

import pytest

from posttrain import stages


@pytest.mark.parametrize("kind", stages.KINDS)
def test_how_often_a_state_is_saved_is_no_part_of_the_key(kind: str) -> None:
    config = stages.module(kind).Config
    assert config.model_fields.keys() >= config.UNKEYED
    assert "save_every" not in config.model_fields.keys() - config.UNKEYED
