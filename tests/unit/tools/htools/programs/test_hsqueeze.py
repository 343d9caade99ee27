# SPDX-License-Identifier: BSD-2-Clause
"""Nodes switched off and on by jobs: what is submitted, in which order; as seen of Debian's hsqueeze."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.luxi_master import FakeMaster, fake_master, instance, node

from ganeti.tools.htools.programs import execution, hsqueeze

VERSION = "(ganeti) version 3.1.0"
MOVE = {
    "allow_runtime_changes": False,
    "ignore_ipolicy": False,
    "cleanup": False,
    "allow_failover": True,
    "ignore_hvversions": True,
}
FULL = {"--minimal-resources=8"}


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.setattr(execution, "STOP_FILE", str(tmp_path / "stop"))
    monkeypatch.setattr(execution, "_FIRST_POLL_S", 0.001)
    with fake_master(tmp_path / "socket") as found:
        yield found


def shared(name: str, primary: str, **changes: Any) -> dict[str, Any]:
    return instance(name, primary, disk_template="sharedfile", disk_usage=0, **changes)


def condensing(master: FakeMaster, nodes: int = 4) -> None:
    """A cluster with little on it; all but the master can go off."""
    master.nodes = [node(f"n{number}.x") for number in range(1, nodes + 1)]
    master.instances = [shared(f"i{number}.x", "n3.x") for number in range(2)]


def expanding(master: FakeMaster, *standby: str) -> None:
    """A cluster whose one full node needs the help of others, which stand by."""
    off = [node(name, offline=True, tags=["htools:standby:auto"], mfree=15000) for name in standby]
    master.nodes = [node("n1.x", mfree=100), *off]
    master.instances = [shared(f"i{number}.x", "n1.x", **{"be/memory": 5000}) for number in range(3)]


def squeeze(master: FakeMaster, capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    """Run it; gives what it prints, on standard error if it fails."""
    assert hsqueeze.main([f"-L{master.path}", *words]) == status
    said = capsys.readouterr()
    return said.err if status else said.out


def submitted(master: FakeMaster) -> list[list[list[dict[str, Any]]]]:
    """The opcodes of each job of each set, without what tells where they come from."""
    origin = ("comment", "reason", "priority")
    return [
        [[{key: value for key, value in opcode.items() if key not in origin} for opcode in job] for job in jobs]
        for jobs in master.submitted
    ]


def parameters(name: str, *, offline: bool) -> dict[str, Any]:
    return {
        "OP_ID": "OP_NODE_SET_PARAMS",
        "node_name": name,
        "force": False,
        "offline": offline,
        "auto_promote": False,
    }


def power(command: str, *names: str) -> dict[str, Any]:
    return {
        "OP_ID": "OP_OOB_COMMAND",
        "node_names": list(names),
        "command": command,
        "timeout": 60,
        "ignore_status": False,
        "power_delay": 2,
    }


def test_nodes_are_emptied_then_tagged_then_switched_off(master: FakeMaster, capsys: Any) -> None:
    condensing(master)
    assert squeeze(master, capsys, "-X") == (
        "'Nodes to offline'\nn3.x\nn2.x\nn4.x\n" + "".join(f"Got job IDs {number}\n" for number in range(101, 107))
    )
    names = ("n3.x", "n2.x", "n4.x")
    tag = {"OP_ID": "OP_TAGS_SET", "kind": "node", "tags": ["htools:standby:auto"]}
    assert submitted(master) == [
        *(
            [[{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name, "target_node": "n1.x", **MOVE}]]
            for name in ("i0.x", "i1.x")
        ),
        *([[tag | {"name": name}]] for name in names),
        [[*(parameters(name, offline=True) for name in names), power("power-off", *names)]],
    ]


def test_every_opcode_tells_what_it_is_for(master: FakeMaster, capsys: Any) -> None:
    condensing(master)
    squeeze(master, capsys, "-X")
    opcodes = [opcode for jobs in master.submitted for job in jobs for opcode in job]
    assert {opcode["OP_ID"] for opcode in opcodes} >= {"OP_TAGS_SET", "OP_NODE_SET_PARAMS", "OP_OOB_COMMAND"}
    for opcode in opcodes:
        assert opcode["comment"] == f"condensing by 3 nodes {VERSION}"
        ((source, reason, _),) = opcode["reason"]
        assert (source, reason, opcode["priority"]) == ("hsqueeze", f"hsqueeze {VERSION} called", 0)


def test_nodes_are_switched_on_before_anything_moves_there(master: FakeMaster, capsys: Any) -> None:
    expanding(master, "n2.x", "n3.x")
    assert squeeze(master, capsys, "-X", *FULL) == "'Nodes to online'\nn2.x\nn3.x\nGot job IDs 101\n"
    names = ("n2.x", "n3.x")
    assert submitted(master) == [[[power("power-on", *names), *(parameters(name, offline=False) for name in names)]]]
    assert master.submitted[0][0][0]["comment"] == f"expanding by 2 nodes {VERSION}"


def test_where_moving_is_enough_no_power_is_switched(master: FakeMaster, capsys: Any) -> None:
    """3.0 submits an OP_OOB_COMMAND without names here, which means all nodes."""
    master.nodes = [node("n1.x", mfree=400), node("n2.x", mfree=15000)]
    master.instances = [shared(f"i{number}.x", "n1.x", **{"be/memory": 5000}) for number in range(3)]
    assert squeeze(master, capsys, "-X", *FULL) == "'Nodes to online'\nGot job IDs 101\n"
    ((job,),) = submitted(master)
    assert job == [{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "i0.x", "target_node": "n2.x", **MOVE}]
    assert master.submitted[0][0][0]["comment"] == f"expanding by 0 nodes {VERSION}"


def test_where_nothing_is_to_be_done_nothing_is_submitted(master: FakeMaster, capsys: Any) -> None:
    condensing(master, 1)
    master.instances = []
    assert squeeze(master, capsys, "-X") == "'No action'\n"
    assert master.submitted == []


def test_without_x_nothing_is_submitted(master: FakeMaster, capsys: Any) -> None:
    condensing(master)
    squeeze(master, capsys)
    assert master.submitted == []


def test_no_node_is_switched_off_that_could_not_be_emptied_or_tagged(master: FakeMaster, capsys: Any) -> None:
    condensing(master)
    for failing, sets in ((102, 2), (106, 6)):
        master.statuses[failing] = ["error"]
        said = squeeze(master, capsys, "-X", status=1)
        assert said.endswith(
            f"Error: hsqueeze: Not all jobs completed successfully: job {failing} (error)\nAborting.\n"
        )
        assert len(master.submitted) == sets
        assert all(opcode["OP_ID"] != "OP_NODE_SET_PARAMS" for jobs in submitted(master) for opcode in jobs[0])


def test_an_early_end_says_what_was_left(master: FakeMaster, capsys: Any) -> None:
    condensing(master, 3)

    def stop(arguments: list[Any]) -> tuple[bool, Any]:
        Path(execution.STOP_FILE).touch()
        return True, [["success"]] * len(arguments[0])

    master.answers["QueryJobs"] = stop
    said = squeeze(master, capsys, "-X")
    assert said.endswith(
        "1 jobset(s) submitted:\n  Moving instances i0.x\n4 jobset(s) not submitted:\n  Moving instances i1.x\n"
        "  Tagging node n3.x with standby\n  Tagging node n2.x with standby\n  Powering off nodes\n"
    )


def test_it_takes_a_master_daemon(capsys: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text(
        "g|u|preferred||\n\nn1|16384|1024|14848|409600|368512|8|M|u|1\nn2|16384|1024|14848|409600|368512|8|N|u|1\n\n\n"
        "\n|1024,1,10240,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|sharedfile|4.0|32.0\n"
    )
    assert hsqueeze.main(["-t", str(data), "-X"]) == 1
    assert capsys.readouterr().err.endswith("Error: hsqueeze: Execution of commands possible only on LUXI\n")
