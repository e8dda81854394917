"""Services that are started for a while: they come ready, and go with whoever needed them."""

import signal
import subprocess
import sys

import pytest

from rewards.audit.hosting import HostingFault, rewards_service
from tests.rewards.service import alive, descendants
from tests.waiting import eventually

NEEDY = """
import time
from rewards.audit.hosting import rewards_service
with rewards_service(["answer"], workers=1) as url:
    print(url, flush=True)
    time.sleep(120)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_service_outlives_who_needed_it(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", NEEDY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as needy:
        assert needy.stdout is not None
        assert needy.stdout.readline().startswith("http://127.0.0.1:")
        started = descendants(needy.pid)
        assert len(started) >= 2
        needy.send_signal(number)
        assert eventually(lambda: not alive(started))


def test_a_service_that_does_not_start_is_told_at_once() -> None:
    with (
        pytest.raises(HostingFault, match=r"rewards service ended \(exit 2\); its reason is above"),
        rewards_service(["oracle"]),
    ):
        pytest.fail("there is no such verifier")
