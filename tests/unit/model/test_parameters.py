# SPDX-License-Identifier: BSD-2-Clause
"""Parameters: what nothing acts on is refused, and its default is not."""

from __future__ import annotations

import pytest

from ganeti.base.errors import TypeEnforcementError
from ganeti.model.parameters import NODE_PARAMETERS, accept_all


def test_what_nothing_acts_on_is_refused_by_name() -> None:
    with pytest.raises(TypeEnforcementError, match="Parameter 'ovs' cannot be 'True' yet: switches are not set up"):
        accept_all(NODE_PARAMETERS, {"ovs": "yes"}, "node")
    with pytest.raises(TypeEnforcementError, match="'ovs_link' cannot be 'eth1' yet"):
        accept_all(NODE_PARAMETERS, {"ovs_link": "eth1"}, "node")


def test_where_there_are_no_parameters_that_is_said() -> None:
    with pytest.raises(TypeEnforcementError, match=r"^Unknown file parameter 'x': there are none$"):
        accept_all((), {"x": 1}, "file")


def test_defaults_of_what_nothing_acts_on_are_accepted() -> None:
    given = {"ovs": False, "ovs_name": "switch1", "ovs_link": ""}
    assert accept_all(NODE_PARAMETERS, given, "node") == given


@pytest.mark.parametrize("value", ["nan", "-inf", float("nan"), pytest.param(10**400, id="huge"), True, "fast"])
def test_a_number_is_one_that_the_configuration_can_hold(value: object) -> None:
    with pytest.raises(TypeEnforcementError, match=r"'cpu_speed' cannot be '.*': it must be a number"):
        accept_all(NODE_PARAMETERS, {"cpu_speed": value}, "node")


@pytest.mark.parametrize("value", [float("inf"), "1e3", 10**30])
def test_a_count_is_one_that_the_configuration_can_hold(value: object) -> None:
    with pytest.raises(TypeEnforcementError, match="'spindle_count' cannot be"):
        accept_all(NODE_PARAMETERS, {"spindle_count": value}, "node")
