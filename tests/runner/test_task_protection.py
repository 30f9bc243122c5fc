"""A worker on ECS asks to be spared while it holds leases, and no more often than it must."""

import json
from urllib.error import URLError

from tidemill.runner.log import Log
from tidemill.runner.protection import Protection


class Agent:
    def __init__(self) -> None:
        self.heard: list[dict[str, object]] = []
        self.is_down = False
        self.now = 1_000.0

    def put(self, url: str, body: bytes) -> None:
        if self.is_down:
            raise URLError("down")
        assert url == "http://agent/task-protection/v1/state"
        self.heard.append(json.loads(body))


def protection(agent: Agent) -> Protection:
    return Protection("http://agent/", 60, Log("error"), put=agent.put, clock=lambda: agent.now)


def test_protection_is_asked_for_with_the_first_lease_and_given_up_with_the_last() -> None:
    agent = Agent()
    told = protection(agent)
    for holds in (False, True, True, True, False, False):
        told.tell(holds)
    assert agent.heard == [{"ProtectionEnabled": True, "ExpiresInMinutes": 60}, {"ProtectionEnabled": False}]


def test_protection_is_renewed_after_half_its_time() -> None:
    agent = Agent()
    told = protection(agent)
    for at in (0, 1_700, 1_900, 2_000):
        agent.now = 1_000 + at
        told.tell(True)
    assert agent.heard == [{"ProtectionEnabled": True, "ExpiresInMinutes": 60}] * 2


def test_an_agent_that_is_down_is_asked_again_with_the_next_beat() -> None:
    agent = Agent()
    told = protection(agent)
    agent.is_down = True
    told.tell(True)
    agent.is_down = False
    told.tell(True)
    assert agent.heard == [{"ProtectionEnabled": True, "ExpiresInMinutes": 60}]
