# SPDX-License-Identifier: BSD-2-Clause
"""Which part talks to which (docs/architecture.md): a room uses the clients of the parts it may ask, and no other."""

import pytest
from parsed_tree import told

CLIENTS = {
    "ganeti.calls.luxi_client": "LuxiD",
    "ganeti.calls.wconfd_client": "WConfD",
    "ganeti.calls.node_client": "NodeD",
}
ASKS = {
    "rapi": set(),
    "luxid": {"WConfD"},
    "job": {"LuxiD", "WConfD", "NodeD"},
    "maintd": {"LuxiD"},
    "wconfd": set(),
    "noded": set(),
    "confd": set(),
    "mond": set(),
    "metad": set(),
    "mirrord": set(),
}
"""Rooms by what their modules ask; RapiD speaks LUXI by `system`, as the commands do by `cli`."""
WIRED = {
    "ganeti.daemons.luxid": {"WConfD", "NodeD"},
    "ganeti.daemons.master_start": {"WConfD", "NodeD"},
    "ganeti.daemons.wconfd": {"NodeD"},
    "ganeti.daemons.maintd": {"LuxiD", "WConfD"},
}
"""Daemons that give their room a client; no other does."""


def asked(module):
    return {part for _, name in module.imports() for client, part in CLIENTS.items() if name.startswith(client)}


@pytest.mark.requirement("S2.2")
def test_each_part_asks_those_it_may(modules):
    faults = [
        f"{module.place}: {module.layer} may not ask {', '.join(sorted(surplus))}"
        for module in modules
        if module.layer in ASKS and (surplus := asked(module) - ASKS[module.layer])
    ]
    wired = {module.name: asked(module) for module in modules if module.layer == "daemons" and asked(module)}
    assert not faults, told(faults)
    assert {name: parts - WIRED.get(name, set()) for name, parts in wired.items()} == {name: set() for name in wired}


@pytest.mark.requirement("S2.18")
def test_luxid_wconfd_and_jobs_call_nodes_and_who_begins_on_the_master_asks_for_votes(modules):
    callers = {
        module.name.split(".")[2] if module.layer == "daemons" else module.layer
        for module in modules
        if "NodeD" in asked(module) and module.layer in {*ASKS, "daemons"}
    }
    assert callers == {"luxid", "wconfd", "job", "master_start"}
