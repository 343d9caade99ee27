# SPDX-License-Identifier: BSD-2-Clause
"""What the destination of a move is asked for."""

from typing import Any

from ganeti.tools.move_instance.request import MoveRequest, creation, export

SOURCE: dict[str, Any] = {
    "name": "web1",
    "os": "noop",
    "disk_template": "plain",
    "disks": [{"size": 64, "mode": "rw", "name": None, "spindles": None, "uuid": "u"}],
    "nics": [[None, "u1", "10.0.0.1", "aa:00:00:00:00:01", "bridged", "br0", "", "lan", {}]],
    "hypervisor": "kvm",
    "hv_instance": {"acpi": False},
    "be_actual": {"maxmem": 512, "minmem": 256, "vcpus": 2},
    "os_instance": {"p": "1"},
    "config_state": "up",
}
PREPARED = {"handshake": [0, "h", "s"], "x509_key_name": ["x509-1", "h", "s"], "x509_ca": "pem"}


def asked(wanted: MoveRequest, networks: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    return creation(SOURCE, ["a"], PREPARED, wanted, networks, opportunistic=False)


def test_an_instance_keeps_what_it_has() -> None:
    body = asked(MoveRequest(primary="n1"))
    assert body["nics"] == [{"ip": "10.0.0.1", "mac": "aa:00:00:00:00:01", "mode": "bridged", "link": "br0"}]
    assert body["disks"] == [{"size": 64, "mode": "rw"}]
    assert (body["beparams"], body["hvparams"], body["osparams"]) == (
        {"maxmem": 512, "minmem": 256, "vcpus": 2},
        {"acpi": False},
        {"p": "1"},
    )
    assert (body["mode"], body["source_instance_name"], body["start"], body["tags"]) == (
        *("remote-import", "web1"),
        *(True, ["a"]),
    )
    assert (body["pnode"], "iallocator" in body, "opportunistic_locking" in body) == ("n1", False, False)


def test_a_network_is_kept_where_the_destination_has_it() -> None:
    body = asked(MoveRequest(), {"lan"})
    assert body["nics"] == [{"ip": "10.0.0.1", "mac": "aa:00:00:00:00:01", "network": "lan"}]


def test_what_is_wanted_otherwise_is_so() -> None:
    wanted = MoveRequest(
        name="web2",
        allocator="hail",
        template="file",
        beparams={"memory": 1024},
        hvparams={"acpi": True},
        nics={0: {"link": "br1"}},
        keeps_source=True,
    )
    body = asked(wanted)
    assert (body["instance_name"], body["iallocator"], body["disk_template"]) == ("web2", "hail", "file")
    assert body["beparams"] == {"vcpus": 2, "memory": 1024}
    assert (body["hvparams"], body["nics"][0]["link"]) == ({"acpi": True}, "br1")
    request = export(PREPARED, {"disks": [["h", 1, "m", "d", "s"]], "x509_ca": "other"}, wanted)
    assert (request["remove_instance"], request["destination"], request["destination_x509_ca"]) == (
        *(False, [["h", 1, "m", "d", "s"]]),
        "other",
    )
