"""The tiers that tests run programs in."""

from collections.abc import Iterator

import pytest

from sandbox.tiers.namespaces import Namespaces
from tests.sandbox.tiers.stand import Stand


@pytest.fixture(scope="session")
def stand() -> Iterator[Stand]:
    """The namespaces tier with one slot, shared: a program leaves nothing to the next."""
    made = Stand(Namespaces())
    yield made
    made.close()


@pytest.fixture
def own_stand() -> Iterator[Stand]:
    """The same, for a test that breaks it."""
    made = Stand(Namespaces())
    yield made
    made.close()
