# SPDX-License-Identifier: BSD-2-Clause
"""Whether instances are as they should be."""

from ganeti.node.collectors.instances import states
from ganeti.node.collectors.interface import ConfiguredInstance
from ganeti.node.hypervisors.interface import Sighting


def state(runs: bool, known: list[ConfiguredInstance] | None):
    seen = [Sighting(name="web1", started_s=100.0)] if runs else []
    [found] = states(seen, known, 3825.0)["instances"]
    return found["actualState"], found["uptime"], found["status"]["code"]


def test_as_it_should_be():
    assert state(True, [ConfiguredInstance("web1", "u", "up", 1.0)]) == ("running", "1:02:05", 0)
    assert state(False, [ConfiguredInstance("web1", "u", "down", 1.0)]) == ("shutdown", None, 0)
    assert state(False, [ConfiguredInstance("web1", "u", "offline", 1.0)]) == ("shutdown", None, 0)


def test_not_as_it_should_be():
    assert state(False, [ConfiguredInstance("web1", "u", "up", 1.0)])[2] == 1
    assert state(True, [ConfiguredInstance("web1", "u", "down", 1.0)])[2] == 4


def test_not_known():
    assert state(True, None)[2] == 2
    assert state(True, [])[2] == 2


def test_the_worst_is_told_of_all():
    known = [
        ConfiguredInstance("down", "u1", "up", None),
        ConfiguredInstance("well", "u2", "down", None),
        ConfiguredInstance("web1", "u3", "down", None),
    ]
    found = states([Sighting(name="web1", started_s=0.0)], known, 10.0)
    assert found["status"] == {"code": 4, "message": "web1"}
    assert states([], [], 0.0) == {"instances": [], "status": {"code": 0, "message": ""}}


def test_what_a_guest_says_of_itself() -> None:
    known = [ConfiguredInstance("web1", "u1", "up", 7.0)]
    for told, code, message in (
        ("running", 0, ""),
        ("paused", 4, "it is paused"),
        ("incoming", 1, "it is in a migration"),
        ("shutdown", 1, "it does not run and should"),
    ):
        found = states([Sighting(name="web1", started_s=0.0)], known, 10.0, {"web1": told})["instances"][0]
        assert (found["actualState"], found["status"]["code"]) == (told, code)
        assert found["status"]["message"].startswith(message)
    assert states([], known, 10.0, {"web1": "paused"})["instances"][0]["actualState"] == "shutdown"
