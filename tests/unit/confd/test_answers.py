# SPDX-License-Identifier: BSD-2-Clause
"""What ConfD says of a configuration of 3.1, kind by kind (protocols, section 4)."""

import json
from pathlib import Path

import pytest

from ganeti.base.errors import ConfigurationError
from ganeti.confd import picture as pictures
from ganeti.confd.answers import Answer, answer
from ganeti.wire.confd import Fault, Kind, Question, Role, Status

FILE = Path(__file__).parents[2] / "golden/config/config-3.1.json"
CONFIG = json.loads(FILE.read_text())
SERIAL = CONFIG["serial_no"]
NODES = {node["name"]: node for node in CONFIG["nodes"].values()}
WEB = next(own for own in CONFIG["instances"].values() if own["name"] == "web1.example.com")
UNKNOWN, ARGUMENT = (Answer(fault, status=Status.ERROR) for fault in (Fault.UNKNOWN, Fault.ARGUMENT))

pytestmark = pytest.mark.requirement("S2.14")


@pytest.fixture(scope="module")
def picture():
    return pictures.read(FILE.read_bytes())


@pytest.fixture
def ask(picture):
    return lambda kind, query=None: answer(picture, Question(kind, query, "token"))


def test_a_removal_is_newer_than_what_another_candidate_still_knows(picture):
    """It leaves the serial numbers of the cluster and of the node as they are: clients keep what has the highest."""
    config = json.loads(FILE.read_text())
    config["instances"] = {uuid: own for uuid, own in config["instances"].items() if own["name"] != WEB["name"]}
    config["serial_no"] += 1
    after = pictures.read(json.dumps(config).encode())
    node = CONFIG["nodes"][WEB["primary_node"]]["name"]
    for kind, query in ((Kind.INSTANCE_ADDRESSES, None), (Kind.NODE_INSTANCES, node), (Kind.PRIMARY_INSTANCES, node)):
        old, new = (answer(each, Question(kind, query, "token")) for each in (picture, after))
        assert old.value != new.value and old.serial < new.serial


def test_version_without_a_serial_number(ask):
    assert ask(Kind.PING) == Answer(CONFIG["version"])


def test_role_of_a_node(ask):
    assert ask(Kind.NODE_ROLE, "node1.example.com") == Answer(Role.MASTER, SERIAL)
    assert ask(Kind.NODE_ROLE, "elsewhere").status == Status.ERROR
    assert ask(Kind.NODE_ROLE, "elsewhere").value == "node 'elsewhere' is not known"
    assert ask(Kind.NODE_ROLE, 5) == ARGUMENT


@pytest.mark.parametrize(
    ("changed", "role"),
    [
        ({"master_candidate": True}, Role.CANDIDATE),
        ({"master_candidate": False, "drained": True, "offline": True}, Role.DRAINED),
        ({"master_candidate": False, "offline": True}, Role.OFFLINE),
        ({"master_candidate": False}, Role.REGULAR),
    ],
)
def test_roles(changed, role):
    config = json.loads(FILE.read_text())
    other = next(node for uuid, node in config["nodes"].items() if uuid != config["cluster"]["master_node"])
    other |= {"master_candidate": False, "drained": False, "offline": False} | changed
    found = answer(pictures.read(json.dumps(config).encode()), Question(Kind.NODE_ROLE, other["name"], ""))
    assert found.value == role


def test_node_of_an_address(ask):
    host = CONFIG["nodes"][WEB["primary_node"]]["primary_ip"]
    [nic] = [nic for nic in WEB["nics"] if nic["ip"]]
    assert ask(Kind.NODE_OF_ADDRESS, {"1": nic["ip"]}) == Answer(host, SERIAL)
    assert ask(Kind.NODE_OF_ADDRESS, {"0": "elsewhere", "1": nic["ip"]}).value == Fault.UNKNOWN
    assert ask(Kind.NODE_OF_ADDRESS, {"2": [nic["ip"], "192.0.2.99", 5]}) == Answer(
        [(0, host, SERIAL), (1, 0, SERIAL), (1, 0, SERIAL)], SERIAL
    )
    for nonsense in (nic["ip"], None, {}, {"1": 5}, {"2": "x"}, []):
        assert ask(Kind.NODE_OF_ADDRESS, nonsense) == ARGUMENT


def test_master(ask):
    cluster, node = CONFIG["cluster"], CONFIG["nodes"][CONFIG["cluster"]["master_node"]]
    assert ask(Kind.MASTER) == Answer(node["name"], SERIAL)
    assert ask(Kind.MASTER, {"3": [2, 1, 0]}).value == [node["primary_ip"], cluster["master_ip"], node["name"]]
    for nonsense in ("node1", {"3": [7]}, {"3": "x"}, {}, 5):
        assert ask(Kind.MASTER, nonsense) == ARGUMENT


def test_lists_of_addresses(ask):
    assert ask(Kind.NODE_ADDRESSES).value == [node["primary_ip"] for node in NODES.values()]
    candidates = [node["primary_ip"] for node in NODES.values() if node["master_candidate"]]
    assert ask(Kind.CANDIDATE_ADDRESSES) == Answer(candidates, SERIAL)
    link = CONFIG["cluster"]["nicparams"]["default"]["link"]
    own = [nic["ip"] for nic in WEB["nics"] if nic["ip"] and nic["nicparams"].get("link", link) == link]
    assert set(own) <= set(ask(Kind.INSTANCE_ADDRESSES).value) == set(ask(Kind.INSTANCE_ADDRESSES, link).value)
    assert ask(Kind.INSTANCE_ADDRESSES, {"0": link}) == ask(Kind.INSTANCE_ADDRESSES)
    assert ask(Kind.INSTANCE_ADDRESSES, "elsewhere").value == []
    assert ask(Kind.INSTANCE_ADDRESSES, 5) == ARGUMENT


def test_instances_and_disks_as_in_the_file(ask):
    disks = [CONFIG["disks"][uuid] for uuid in WEB["disks"]]
    primary, secondary = CONFIG["nodes"][WEB["primary_node"]], CONFIG["nodes"][disks[0]["nodes"][1]]
    assert WEB in ask(Kind.NODE_INSTANCES, primary["name"]).value[0]
    assert WEB in ask(Kind.NODE_INSTANCES, secondary["name"]).value[1]
    assert ask(Kind.NODE_INSTANCES, primary["name"]).serial == SERIAL
    assert ask(Kind.INSTANCE_DISKS, WEB["name"]) == Answer(disks, SERIAL)
    assert ask(Kind.INSTANCE_DISKS, "none").status == Status.ERROR


def test_minors_of_paired_disks(ask):
    one, other = (CONFIG["nodes"][uuid]["name"] for uuid in CONFIG["disks"][WEB["disks"][0]]["nodes"])
    assert [one, 0, WEB["name"], "disk/0", "primary", other] in ask(Kind.NODE_MINORS, one).value
    assert [other, 0, WEB["name"], "disk/0", "secondary", one] in ask(Kind.NODE_MINORS, other).value


def test_anything_by_its_path(ask):
    assert ask(Kind.CONFIG, "/cluster/cluster_name") == Answer("cluster.example.com", SERIAL)
    assert ask(Kind.CONFIG, "/cluster/reserved_lvs").value == CONFIG["cluster"]["reserved_lvs"]
    assert ask(Kind.CONFIG, "").value == CONFIG
    uuid = CONFIG["cluster"]["master_node"]
    assert ask(Kind.CONFIG, f"/nodes/{uuid}").value == CONFIG["nodes"][uuid]
    assert ask(Kind.CONFIG, f"/instances/{WEB['uuid']}/nics/0/ip").value == WEB["nics"][0]["ip"]
    assert ask(Kind.CONFIG, "/instances").value == CONFIG["instances"]
    for nonsense in (
        "/none",
        "/cluster/cluster_name/x",
        "cluster",
        5,
        None,
        "/cluster/reserved_lvs/99",
        "/cluster/uid_pool/-1",
        "/instances/none",
    ):
        assert ask(Kind.CONFIG, nonsense) == ARGUMENT


def test_escapes_of_a_path():
    config = json.loads(FILE.read_text())
    config["cluster"]["osparams"] = {"a/b~c": {"x": 1}}
    found = answer(pictures.read(json.dumps(config).encode()), Question(Kind.CONFIG, "/cluster/osparams/a~1b~0c/x", ""))
    assert found.value == 1


def test_collectors(ask):
    assert ask(Kind.COLLECTORS) == Answer(CONFIG["cluster"]["data_collectors"], SERIAL)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"version": 1', b"\x00\xff"])
def test_what_is_no_configuration(content):
    with pytest.raises(ConfigurationError, match="The configuration cannot be read"):
        pictures.read(content)


def test_no_key_of_backups_is_told():
    """Every node can sign questions, and some only keep what is sealed with these keys."""
    config = {**CONFIG, "backups": {"keys": {"ab12": "s3cret"}, "schedules": {}}}
    made = pictures.read(json.dumps(config).encode())
    for query in ("", "/backups", "/backups/keys", "/backups/keys/ab12", "/backups/schedules"):
        found = answer(made, Question(Kind.CONFIG, query, ""))
        assert "s3cret" not in json.dumps(found.value), query
    assert answer(made, Question(Kind.CONFIG, "", "")).value == CONFIG
    assert answer(made, Question(Kind.CONFIG, "/backups/keys/ab12", "")) == ARGUMENT
