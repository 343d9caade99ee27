# SPDX-License-Identifier: BSD-2-Clause
"""gnt-network info: the text about a network."""

from ganeti.cli.commands.network.info import FIELDS

NETWORK = dict.fromkeys(FIELDS) | {
    "name": "lan",
    "uuid": "u1",
    "serial_no": 3,
    "network": "192.0.2.0/25",
    "gateway": "192.0.2.1",
    "free_count": 124,
    "reserved_count": 4,
    "map": "XXX" + "." * 124 + "X",
    "external_reservations": "192.0.2.0, 192.0.2.127",
    "group_list": [["default", "bridged", "br0", ""]],
    "inst_list": ["web"],
}
BARE = NETWORK | {"external_reservations": "", "group_list": [], "inst_list": []}
WEB = ["web", [None, "192.0.2.2"], [None, "u1"]]


def row(values):
    return [[0, value] for value in values]


def test_all_of_a_network(gnt, master):
    answers = {"network": row(NETWORK.values()), "instance": row(WEB)}
    master.answers["Query"] = lambda resource, *_: {"data": [answers[resource]]}
    assert gnt("gnt-network info lan").out.splitlines() == [
        "Network name: lan",
        "UUID: u1",
        "Serial number: 3",
        "  Subnet: 192.0.2.0/25",
        "  Gateway: 192.0.2.1",
        "  IPv6 Subnet: None",
        "  IPv6 Gateway: None",
        "  Mac Prefix: None",
        "  Size: 128",
        "  Free: 124 (96.88%)",
        "  Usage map:",
        f"        0 XXX{'.' * 61} 63",
        f"       64 {'.' * 63}X 127",
        "         (X) used    (.) free",
        "  externally reserved IPs:",
        "    192.0.2.0, 192.0.2.127",
        "  connected to node groups:",
        "    default (mode:bridged link:br0 vlan:)",
        "  used by 1 instances:",
        "    web: 1:192.0.2.2",
    ]


def test_a_small_network_has_a_line_as_long_as_others(gnt, master):
    master.answers["Query"] = {"data": [row(BARE.values())]}
    (line,) = [line for line in gnt("gnt-network info").out.splitlines() if line.startswith("        0 ")]
    assert line.endswith(" 63") and len(line) == 77


def test_a_network_that_nobody_uses(gnt, master):
    master.answers["Query"] = {"data": [row(BARE.values())]}
    lines = gnt("gnt-network info").out.splitlines()
    assert lines[-3:] == [
        "         (X) used    (.) free",
        "  not connected to any node group",
        "  not used by any instances",
    ]


def test_many_addresses_are_kept_back(gnt, master):
    kept_back = ", ".join(f"198.51.100.{last}" for last in (0, 1, 3, 5, 15))
    master.answers["Query"] = {"data": [row((BARE | {"external_reservations": kept_back}).values())]}
    assert gnt("gnt-network info").out.splitlines()[-5:-2] == [
        "  externally reserved IPs:",
        "    198.51.100.0, 198.51.100.1, 198.51.100.3, 198.51.100.5,",
        "    198.51.100.15",
    ]


def test_a_network_that_is_not_there(gnt, master):
    master.answers["Query"] = {"data": []}
    ran = gnt("gnt-network info nowhere")
    assert (ran.status, "There is no network nowhere" in ran.err) == (1, True)
