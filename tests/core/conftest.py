"""One finished run of the small recipe, shared by the tests that only look at it."""

from pathlib import Path

import pytest

from tests.core.runs import SMALL, posttrain, write


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the small recipe was run."""
    folder = tmp_path_factory.mktemp("finished")
    done = posttrain(folder, "run", str(write(folder, SMALL)))
    assert done.returncode == 0, done.stderr
    return folder
