# SPDX-License-Identifier: BSD-2-Clause
"""``hail`` as a program: arguments, exit status, texts."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.allocator_messages import allocation, instance, message, node

from ganeti.tools.htools.programs import hail, hinfo

GOLDEN = Path(__file__).parents[4] / "golden" / "iallocator" / "answers.jsonl"


@pytest.fixture
def case(tmp_path: Path) -> tuple[Path, str]:
    found = json.loads(GOLDEN.read_text().splitlines()[0])
    path = tmp_path / "request.json"
    path.write_text(json.dumps(found["message"]))
    return path, json.dumps(found["answer"], separators=(",", ":")) + "\n"


def test_answers_on_standard_output(case: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    path, expected = case
    assert hail.main(["--no-capacity-checks", str(path)]) == 0
    assert capsys.readouterr().out == expected


def test_why_goes_to_standard_error(case: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    path, expected = case
    assert hail.main(["--no-capacity-checks", "--why", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == expected
    chosen = json.loads(expected)["result"]
    others = [name for name in json.loads(path.read_text())["nodes"] if name not in chosen]
    assert others[0] in captured.err


def described(free_disk_mib: int) -> dict[str, object]:
    """A node as in the examples of the first description of the protocol: without CPUs, without a group."""
    found: dict[str, object] = dict.fromkeys(("primary_ip", "secondary_ip"), "198.51.100.1")
    return found | {
        "tags": [],
        "total_memory": 4095,
        "free_memory": 3505,
        "total_disk": 858276,
        "free_disk": free_disk_mib,
    }


@pytest.mark.requirement("S5.43")
def test_the_example_of_the_first_description(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nic = {"ip": None, "mac": "00:11:22:33:44:55", "bridge": None}
    plain: dict[str, object] = {"tags": [], "nics": [nic], "vcpus": 1, "os": "debootstrap+default"}
    small = {"should_run": False, "disks": [{"mode": "w", "size": 512}, {"mode": "w", "size": 256}], "memory": 512}
    example = {
        "version": 1,
        "cluster_name": "cluster1.example.com",
        "cluster_tags": [],
        "instances": {
            "instance1.example.com": {**plain, **small, "disk_template": "plain", "nodes": ["nodee1.com"]},
            "instance2.example.com": {
                **plain,
                **small,
                "disk_template": "drbd",
                "nodes": ["node2.example.com", "node3.example.com"],
            },
        },
        "nodes": {
            "node1.example.com": described(856740),
            "node2.example.com": described(848320),
            "node3.example.com": described(570648),
        },
        "request": {
            **plain,
            "type": "allocate",
            "name": "instance3.example.com",
            "required_nodes": 2,
            "disks": [{"mode": "w", "size": 1024}, {"mode": "w", "size": 2048}],
            "disk_template": "drbd",
            "memory": 2048,
            "disk_space_total": 3328,
        },
    }
    path = tmp_path / "example.json"
    for padding in ("", " " * 300_000):  # small messages are read slowly, big ones are not
        path.write_text(json.dumps(example) + padding)
        assert hail.main([str(path)]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["success"]
        assert len(answer["result"]) == 2
    example["request"] = {"type": "relocate", "name": "instance2.example.com", "relocate_from": ["node3.example.com"]}
    path.write_text(json.dumps(example))
    assert hail.main([str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == ["node1.example.com"]


def test_the_only_node_is_refused_as_in_3_1_and_why_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(allocation("plain", 1), tmp_path, "--why", nodes={"n0": node()}, instances={}) == 0
    captured = capsys.readouterr()
    reason = "No valid allocation solutions, failure reasons: FailN1: 1"
    assert json.loads(captured.out)["info"] == f"Request failed: Group gu (preferred): {reason}"
    assert "Name the node to place it all the same (-n n0)" in captured.err


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 1, "Error: This program needs an input file.\n"),
        (["a", "b"], 1, "Error: Only one argument is accepted (the input file)\n"),
        (
            ["/nonexistent/request"],
            1,
            "hail: /nonexistent/request: openFile: does not exist (No such file or directory)\n",
        ),
    ],
)
def test_bad_arguments(arguments: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hail.main(arguments) == status
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"nodes": 5}', '{"nodes": {"a": {}}, "request": {}}'])
def test_unreadable_input_is_an_error_without_json(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad"
    path.write_text(content)
    assert hail.main([str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1


def test_unknown_option_is_a_command_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        hail.main(["--nonsense"])
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("Command line error: ")


def test_asking_needs_no_arrays_until_it_asks() -> None:
    """Job processes import the request module, and must not carry NumPy."""
    modules = "ganeti.placement.request.terms, ganeti.tools.htools.programs.hail"
    code = f"import sys, {modules}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_states_before_and_after_are_written(case: tuple[Path, str], tmp_path: Path) -> None:
    path, expected = case
    assert hail.main(["--no-capacity-checks", "-S", str(tmp_path / "state"), str(path)]) == 0
    before = (tmp_path / "state.pre-ialloc").read_text().splitlines()
    after = (tmp_path / "state.post-ialloc").read_text().splitlines()
    name = json.loads(path.read_text())["request"]["name"]
    new = [line.split("|") for line in after if line.startswith(f"{name}|")]
    assert [fields[6] for fields in new] == json.loads(expected)["result"][:1]
    assert len(after) == len(before) + 1


def test_the_cluster_may_come_from_elsewhere(case: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = case
    assert hail.main(["--simulate=p,3,1t,32g,16", str(path)]) == 0
    assert "node-01-00" in capsys.readouterr().out


@pytest.mark.parametrize(("state", "memory"), [("drained", "8192"), ("offline", "0")])
def test_nodes_that_take_nothing_are_written_as_offline(state: str, memory: str, tmp_path: Path) -> None:
    node = {"group": "g", "total_memory": 8192, "free_memory": 1, "total_disk": 2, "free_disk": 1, "total_cpus": 4}
    message = {
        "nodegroups": {"g": {"name": "g", "alloc_policy": "preferred"}},
        "nodes": {"a": node | {state: True}},
        "request": {"type": "multi-allocate", "instances": []},
    }
    path = tmp_path / "request.json"
    path.write_text(json.dumps(message))
    assert hail.main(["-S", str(tmp_path / "state"), str(path)]) == 0
    fields = (tmp_path / "state.pre-ialloc").read_text().splitlines()[2].split("|")
    assert (fields[1], fields[7]) == (memory, "Y")


NEW = (
    'Instance {name = "n\\"\\233", alias = "n\\"\\233", mem = 512, dsk = 1024, disks = [Disk {dskSize = 1024, '
    "dskSpindles = Just 2}], vcpus = 1, runSt = Running, pNode = 0, sNode = 0, idx = -1, util = DynUtil "
    "{cpuWeight = 1.0, memWeight = 1.0, dskWeight = 1.0, netWeight = 1.0}, movable = True, autoBalance = True,"
    ' diskTemplate = DTDrbd8, spindleUse = 1, allTags = ["a"], exclTags = [], dsrdLocTags = fromList [], '
    'locationScore = 0, arPolicy = ArNotEnabled, nics = [Nic {mac = Just "aa", ip = Nothing, mode = Just '
    'Bridged, link = Nothing, bridge = Nothing, network = Just "x"}], forthcoming = False}'
)
WANTED = allocation(
    "drbd",
    2,
    name='n"\u00e9',
    tags=["a"],
    nics=[{"mac": "aa", "mode": "bridged", "network": "x"}],
    disks=[{"size": 1024, "spindles": 2}],
)


def ask(request: dict[str, object], tmp_path: Path, *options: str, **clusters: object) -> int:
    """hail's exit status for *request* over two groups, the second without nodes."""
    instances = {"a": instance("drbd", "n0", "n1"), "b": instance("rbd", "n0", tags=["x"])}
    nodes = {"n0": node(free_memory=14336), "n1": node(free_memory=10000), "n2": node()}
    path = tmp_path / "request.json"
    path.write_text(json.dumps(message(request, nodes, instances, ("u", "v")) | clusters))
    return hail.main([*options, str(path)])


@pytest.mark.parametrize(
    ("request_", "record"),
    [
        (WANTED, f"Allocate ({NEW}) (AllocDetails 2 Nothing) Nothing"),
        (
            WANTED | {"group_name": "gu", "restrict-to-nodes": ["n0", "n1"]},
            f'Allocate ({NEW}) (AllocDetails 2 (Just "gu")) (Just ["n0","n1"])',
        ),
        ({"type": "multi-allocate", "instances": [WANTED]}, f"MultiAllocate [({NEW},AllocDetails 2 Nothing)]"),
        ({"type": "relocate", "name": "a", "required_nodes": -1, "relocate_from": ["n1"]}, "Relocate 0 (-1) [1]"),
        ({"type": "allocate-secondary", "name": "b"}, "AllocateSecondary 1"),
        ({"type": "node-evacuate", "instances": ["b", "a"], "evac_mode": "all"}, "NodeEvacuate [1,0] ChangeAll"),
        ({"type": "change-group", "instances": ["a"], "target_groups": ["gv", "u"]}, "ChangeGroup [0] [1,0]"),
    ],
)
def test_verbose_shows_the_request_as_a_record(
    request_: dict[str, object], record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(request_, tmp_path, "-v") == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"Received request: {record}"


def test_the_record_comes_after_what_is_said_of_another_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seed 673 of the usual requests."""
    cluster = tmp_path / "cluster.data"
    cluster.write_text("g|gu|preferred|||\n\nn0|16384|1024|9000|100000|90000|8|N|gu|1\n\n\n\n")
    assert ask(WANTED | {"required_nodes": 1, "disk_template": "plain"}, tmp_path, "-v", "-t", str(cluster)) == 0
    said = capsys.readouterr().err.splitlines()
    assert "node n0 is missing 6360 MB" in "".join(said) and said[-1].startswith("Received request: Allocate")


TAGGED = NEW.replace('["a"]', '["b","z","a"]').replace("exclTags = []", 'exclTags = ["b","a"]')


@pytest.mark.parametrize(
    ("request_", "record"),
    [
        (WANTED, f"Allocate ({TAGGED}) (AllocDetails 2 Nothing) Nothing"),
        ({"type": "multi-allocate", "instances": [WANTED]}, f"MultiAllocate [({TAGGED},AllocDetails 2 Nothing)]"),
    ],
)
def test_verbose_shows_which_tags_of_a_new_instance_say_something(
    request_: dict[str, Any], record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What must not be on one node in the order of the instance, what a node should have in that of letters."""
    several = {**request_, "instances": [WANTED | {"tags": ["b", "z", "a"]}]} if "instances" in request_ else None
    asked = several or {**request_, "tags": ["b", "z", "a"]}
    tags = ["htools:iextags:a", "htools:iextags:b", "htools:desiredlocation:z", "htools:desiredlocation:b"]
    assert ask(asked, tmp_path, "-v", cluster_tags=tags) == 0
    record = record.replace("fromList []", 'fromList ["b","z"]')
    assert capsys.readouterr().err.splitlines()[-1] == f"Received request: {record}"


@pytest.mark.parametrize("name", ["", []], ids=["nothing", "no-letters"])
@pytest.mark.parametrize("kind", ["allocate", "multi-allocate"])
def test_no_group_has_an_empty_name(kind: str, name: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = WANTED if kind == "allocate" else {"type": kind, "instances": [WANTED]}
    assert ask({**asked, "group_name": name}, tmp_path, "-v") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "success": False,
        "info": "Request failed: Wrong number of elems found with name ",
        "result": [],
    }
    *_, record, dedicated = captured.err.splitlines()
    assert 'AllocDetails 2 (Just "")' in record
    assert dedicated == "Allocation on a dedicated cluster; using lost-allocations metrics."


@pytest.mark.parametrize("name", ["gu", ["g", "u"]], ids=["string", "letters"])
def test_several_in_a_named_group_are_shown_with_it(
    name: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask({"type": "multi-allocate", "instances": [WANTED], "group_name": name}, tmp_path, "-v") == 0
    assert capsys.readouterr().err.splitlines()[-1].endswith(',AllocDetails 2 (Just "gu"))]')


def test_nothing_to_place_is_on_no_dedicated_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask({"type": "multi-allocate", "instances": [], "group_name": ""}, tmp_path, "-v") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["success"]
    assert captured.err.splitlines()[-1] == "Received request: MultiAllocate []"


def test_no_group_left_is_said_with_the_groups_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask({"type": "change-group", "instances": ["b"], "target_groups": []}, tmp_path) == 0
    ((_, reason),) = json.loads(capsys.readouterr().out)["result"][1]
    assert reason.startswith(
        "no groups for evacuation: allowed groups was Just [1], all groups: "
        '[Group {name = "gu", uuid = "u", idx = 0, allocPolicy = AllocPreferred, networks = [], iPolicy = IPolicy {'
    )
    assert reason.endswith("iPolicySpindleRatio = 32.0}, allTags = []}]")


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"type": "relocate", "name": "c", "relocate_from": ["n1"]}, "Unknown instance 'c'"),
        ({"type": "relocate", "name": "a", "relocate_from": ["n9"]}, "Wrong number of elems found with name n9"),
        ({"type": "relocate", "name": "c", "relocate_from": 5}, "Unknown instance 'c'"),
        ({"type": "change-group", "instances": ["c"], "target_groups": 5}, "Wrong number of elems found with name c"),
        ({"type": "allocate-secondary", "name": "c"}, "Unknown instance 'c'"),
        (
            {"type": "node-evacuate", "instances": ["a", "c"], "evac_mode": "all"},
            "Wrong number of elems found with name c",
        ),
        (
            {"type": "change-group", "instances": ["a"], "target_groups": ["w"]},
            "Wrong number of elems found with name w",
        ),
    ],
)
def test_names_are_looked_up_before_anything_is_said_or_written(
    request_: dict[str, object], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request_ |= {"required_nodes": 1} if request_["type"] == "relocate" else {}
    assert ask(request_, tmp_path, "-S", str(tmp_path / "state")) == 1
    assert capsys.readouterr().err == f"Error: {text}\n"
    assert not (tmp_path / "state.pre-ialloc").exists()


def test_load_is_not_ignored_in_the_clusters_own_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """3.0.2 takes the option for other back ends only."""
    wanted: dict[str, object] = allocation("rbd", 1)
    assert ask(wanted, tmp_path) == 0
    without_option = capsys.readouterr().out
    assert ask(wanted, tmp_path, "--ignore-dynu") == 0
    assert capsys.readouterr().out == without_option


def test_inconsistent_data_of_the_request_is_told_where_another_cluster_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: dict[str, object] = {"type": "multi-allocate", "instances": []}
    assert ask(wanted, tmp_path, "--simulate=p,3,1t,32g,16") == 0
    assert capsys.readouterr().err.splitlines()[1] == "  - node n1 is missing 5872 MB ram and -1 GB disk"


def test_an_instance_with_a_new_secondary_is_written_as_mirrored(tmp_path: Path) -> None:
    assert ask({"type": "allocate-secondary", "name": "b"}, tmp_path, "-S", str(tmp_path / "state")) == 0
    before = (tmp_path / "state.pre-ialloc").read_text().splitlines()
    after = (tmp_path / "state.post-ialloc").read_text().splitlines()
    assert [line for line in after if line not in before] == [
        "n0|16384|512|14336|102400|101376|8|N|u|1||N|0|1|1.0",
        "n2|16384|512|15872|102400|101376|8|N|u|1||N|0|1|1.0",
        "b|512|1024|1|running|Y|n0|n2|drbd|x|1|-|N",
    ]
    assert [line.split("|")[0] for line in after if line.count("|") == 12] == ["a", "b"]


SPINDLE = [{"mode": "rw", "size": 1024, "spindles": 1}]


@pytest.mark.parametrize(
    ("exclusive", "request_", "shown"),
    [
        (False, allocation("plain", 1), "n0 n1 n2 n3"),
        (False, allocation("plain", 1, group_name="gv"), "n1 n3"),
        (False, allocation("plain", 1, group_name=["g", "v"]), "n1 n3"),
        (False, allocation("plain", 1, group_name=[]), "n0 n1 n2 n3"),
        (False, allocation("plain", 1, group_name="gv", memory=99999), "n0 n1 n2 n3"),
        (False, {"type": "multi-allocate", "instances": [allocation("drbd", 2)]}, "n0 n1 n2 n3"),
        (False, {"type": "multi-allocate", "instances": [allocation("drbd", 2)], "group_name": "gv"}, "n1 n3"),
        (False, {"type": "multi-allocate", "instances": [], "group_name": "gv"}, "n0 n1 n2 n3"),
        (True, allocation("plain", 1, disks=SPINDLE), "n1 n3"),
        (True, allocation("plain", 1, disks=SPINDLE, group_name="gu"), "n0 n2"),
        (True, {"type": "multi-allocate", "instances": [allocation("plain", 1, disks=SPINDLE)]}, "n1 n3"),
        (True, {"type": "relocate", "name": "c", "required_nodes": 1, "relocate_from": ["n0"]}, "n0 n1 n2 n3"),
    ],
)
def test_only_the_groups_of_the_new_are_left_where_no_groups_were_compared(
    exclusive: bool, request_: dict[str, Any], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seed 633 of the odd requests: what is shown and saved has lost the other groups in 3.0.2.

    Where other groups have instances it ends with an error of its own: here they are left out.
    """
    params = {"spindle_count": 4, "exclusive_storage": exclusive}
    own = {"ndparams": params, "total_spindles": 4, "free_spindles": 4}
    nodes = {f"n{number}": node(group="uv"[number % 2], **own) for number in range(4)}
    instances = {"a": instance("plain", "n0"), "b": instance("plain", "n3"), "c": instance("rbd", "n0", disks=SPINDLE)}
    options = ("--no-capacity-checks", "-pname", "-S", str(tmp_path / "state"))
    assert ask(request_, tmp_path, *options, nodes=nodes, instances=instances) == 0
    tables = capsys.readouterr().err.partition("Initial cluster status:")[2].split("Final cluster status:")
    assert [" ".join(re.findall(r"\bn\d\b", table)) for table in tables] == ["n0 n1 n2 n3", shown]
    groups, written, placed, *_ = (tmp_path / "state.post-ialloc").read_text().split("\n\n")
    assert groups.count("\n") == 1
    assert " ".join(line.partition("|")[0] for line in written.splitlines()) == shown
    old = [name for name, one in instances.items() if one["nodes"][0] in shown]
    assert [line[0] for line in placed.splitlines() if not line.startswith("new|")] == old


@pytest.mark.parametrize(
    ("cpus", "most"),
    [(-0.5, "-8"), (1e300, "-9223372036854775808"), (-1e300, "9223372036854775807")],
)
def test_absurd_numbers_are_in_the_record_as_64_bits_have_them(
    cpus: float, most: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: dict[str, object] = {"type": "multi-allocate", "instances": []}
    assert ask(wanted, tmp_path, "-v", "-v", nodes={"n0": node(total_cpus=cpus), "n1": node()}) == 0
    *_, record = capsys.readouterr().err.splitlines()
    assert re.findall(r"hiCpu = (\S+),", record) == [most, "128"]


DEDICATED = "Allocation on a dedicated cluster; using lost-allocations metrics."


@pytest.mark.parametrize("request_", [WANTED, {"type": "multi-allocate", "instances": [], "group_name": "gu"}])
@pytest.mark.parametrize("exclusive", [True, False])
def test_verbose_tells_of_dedicated_nodes(
    request_: dict[str, object], exclusive: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params = {"spindle_count": 4, "exclusive_storage": exclusive}
    nodes = {name: node(ndparams=params, total_spindles=4, free_spindles=4) for name in ("n0", "n1")}
    assert ask(request_, tmp_path, "-v", nodes=nodes) == 0
    assert (DEDICATED in capsys.readouterr().err.splitlines()) is exclusive


def test_verbose_tells_of_dedicated_nodes_only_where_something_new_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = {name: node(ndparams={"spindle_count": 1, "exclusive_storage": True}) for name in ("n0", "n1")}
    assert ask({"type": "change-group", "instances": [], "target_groups": []}, tmp_path, "-v", nodes=nodes) == 0
    said = capsys.readouterr().err
    assert said.startswith("Received request: ChangeGroup")
    assert DEDICATED not in said


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"a":"\\u12", "b":1}', 'Unable to parse JSON String: invalid hex: [(18,"\\"'),
        ('{"a":"\\u12g4xyz"}', 'Unable to parse JSON String: invalid hex: [(18,"g4'),
        ('{"a":"\\uzzzz"}', "Unable to parse JSON String: invalid hex: []"),
        ('{"a":"\\u123', "Unable to parse JSON String: invalid hex: 123"),
        ('{"a":1.5e}', "Unable to parse JSON exponential: }"),
        ('{"a":1e-x}', "Unable to parse JSON exponential: x}"),
        ('{"a":1.x}', "Unable to parse JSON object: unterminated sequence: x}"),
        ('{"a":-.5}', "Unable to parse JSON Rational: 5}"),
        ("[1.]", "Unable to read JSObject"),
        ("[" * 100_000, "Malformed JSON: brackets within brackets beyond reason"),
    ],
)
def test_words_for_what_is_no_document(
    content: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad"
    path.write_text(content)
    assert hail.main([str(path)]) == 1
    assert capsys.readouterr().err == f"Error: Parsing input IAllocator message: {text}\n"


def test_of_two_fields_with_one_name_the_first_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers may end with their point, and a page may end the document."""
    wanted = json.dumps(message(WANTED, {"n0": node(), "n1": node()}, {}, ("u",)))
    path = tmp_path / "twice"
    path.write_text(wanted)
    assert hail.main([str(path)]) == 0
    answer = capsys.readouterr().out
    assert '"vcpus": 1,' in wanted
    path.write_text(wanted[:-1].replace('"vcpus": 1,', '"vcpus": 1.,') + ', "nodes": {}, "x": 2.}\f\n')
    assert hail.main([str(path)]) == 0
    assert capsys.readouterr().out == answer
    path.write_text('{"request": {}, ' + wanted[1:])
    assert hail.main([str(path)]) == 1
    assert "key 'type' not found" in capsys.readouterr().err


def test_bytes_that_are_no_text_stop_the_loading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"\xe9")
    assert hinfo.main(["-I", str(path)]) == 1
    reason = f"{path}: hGetContents: invalid argument (invalid byte sequence)"
    assert capsys.readouterr().err == f"Error: failed to load data, aborting: {reason}\n"


def test_no_cpus_have_no_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(WANTED | {"nics": []}, tmp_path, nodes={"n0": node(total_cpus=-0.0), "n1": node()}) == 0
    assert "failures 1 (FailCPU: 1)" in json.loads(capsys.readouterr().out)["info"]
