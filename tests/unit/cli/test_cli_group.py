# SPDX-License-Identifier: BSD-2-Clause
"""gnt-group capacity: what is asked, and the table."""

import pytest

ENTRY = {"max_inst_spec": [4096, 10240, 2], "default_template": "drbd", "max_cpu_ratio": 4.0, "max_disk_usage": 1.0}
ANSWER = {
    "cluster": [[4096, 10240, 2, 9], [3840, 10240, 1, 3]],
    "node_groups": {
        "u1": {"tspecs": [[4096, 10240, 2, 9], [3840, 10240, 1, 3]], **ENTRY},
        "u2": {"tspecs": [], **ENTRY},
    },
    "ctime": 0,
}


@pytest.fixture
def counted(master):
    master.job(ANSWER)
    master.answers["QueryGroups"] = [["u1", "default"], ["u2", "east"]]
    return master


@pytest.mark.requirement("S1.72")
def test_the_table(gnt, counted, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    ran = gnt("gnt-group capacity")
    assert ran.out.splitlines() == [
        "Group   Memory  Disk VCPUs Count Total",
        "default   4.0G 10.0G     2     9     9",
        "default   3.8G 10.0G     1     3    12",
        "east         -     -     -     0     0",
        "(all)     4.0G 10.0G     2     9     9",
        "(all)     3.8G 10.0G     1     3    12",
        ran.out.splitlines()[-1],
    ]
    assert ran.out.splitlines()[-1].startswith("Counted at 1970-01-01")


def test_why_a_group_has_no_room_stands_below_the_table(gnt, master):
    why = "Node group east has no room: it has no nodes"
    master.job(ANSWER, log=([1, [0, 0], "message", why],))
    master.answers["QueryGroups"] = [["u1", "default"], ["u2", "east"]]
    lines = gnt("gnt-group capacity").out.splitlines()
    assert (len(lines), lines[-2]) == (8, why)
    assert why not in gnt("gnt-group capacity --separator=:").out


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            "--no-headers --separator=:",
            ["default:4096:10240:2:9:9", "default:3840:10240:1:3:12", "east:-:-:-:0:0"],
        ),
        (
            "--separator=, --units g",
            [
                "Group,Memory,Disk,VCPUs,Count,Total",
                "default,4.0,10.0,2,9,9",
                "default,3.8,10.0,1,3,12",
                "east,-,-,-,0,0",
            ],
        ),
    ],
)
def test_for_programs_there_are_groups_alone(gnt, counted, options, lines):
    assert gnt(f"gnt-group capacity {options}").out.splitlines() == lines


def test_what_is_asked(gnt, counted):
    gnt("gnt-group capacity")
    gnt(
        "gnt-group capacity --cache=off --max-spec memory=4g,disk=20g,vcpus=2 -t plain --max-cpu-ratio 2.5"
        " --max-disk-usage 0.9 -I mine --priority low default east"
    )
    plain, full = counted.submitted()
    assert plain == {"OP_ID": "OP_COMPUTE_CAPACITY", "node_groups": [], "cached": True}
    assert full == {
        "OP_ID": "OP_COMPUTE_CAPACITY",
        "node_groups": ["default", "east"],
        "cached": False,
        "max_inst_spec": [4096, 20480, 2],
        "default_template": "plain",
        "max_cpu_ratio": 2.5,
        "max_disk_usage": 0.9,
        "iallocator": "mine",
        "priority": 10,
    }


@pytest.mark.parametrize("spec", ["memory=4g", "memory=4g,disk=1,vcpus=1,more=2", "memory=x,disk=1g,vcpus=1"])
def test_a_size_is_given_whole(gnt, counted, spec):
    ran = gnt(f"gnt-group capacity --max-spec {spec}")
    assert ran.status == 1
    assert "--max-spec" in ran.err


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("memory=0,disk=0,vcpus=1", "memory=0"),
        ("memory=1,disk=0,vcpus=0", "vcpus=0"),
        ("memory=1,disk=0,vcpus=-1", "vcpus=-1"),
        (f"memory=1,disk=0,vcpus={'9' * 400}", f"vcpus={'9' * 400}"),
        ("memory=1,disk=8589934593t,vcpus=1", "disk=8589934593t"),
    ],
)
def test_a_size_has_bounds(gnt, counted, spec, word):
    ran = gnt(f"gnt-group capacity --max-spec {spec}")
    assert ran.status == 1
    assert f"--max-spec: {word} cannot be counted in: give at least 1 MiB of memory" in ran.err
    assert gnt("gnt-group capacity --max-spec memory=1,disk=0,vcpus=1").status == 0


def test_what_capacity_is_counted_in_is_changed_together(gnt, master):
    master.job([])
    gnt("gnt-group modify --alloc-policy last_resort --capacity-parameters memory=4g,disk=20g,vcpus=2 default")
    gnt("gnt-cluster modify --capacity-parameters disk_template=drbd,cpu_ratio=2.5,disk_usage=0.9")
    gnt("gnt-cluster modify --capacity-parameters=")
    group, cluster, nothing = master.submitted()
    assert group == {
        "OP_ID": "OP_GROUP_SET_PARAMS",
        "group_name": "default",
        "diskparams": {},
        "alloc_policy": "last_resort",
        "capacity_params": {"max_inst_spec": [4096, 20480, 2]},
    }
    assert cluster["capacity_params"] == {"default_template": "drbd", "max_cpu_ratio": 2.5, "max_disk_usage": 0.9}
    assert nothing["capacity_params"] == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gnt-group modify --capacity-parameters memory=4g default", "memory, disk and vcpus"),
        ("gnt-group modify --capacity-parameters bogus=4 default", "no 'bogus': there are memory"),
        ("gnt-cluster modify --capacity-parameters cpu_ratio=x", "--capacity-parameters"),
        (
            "gnt-cluster modify --capacity-parameters cpu_ratio=default",
            "--capacity-parameters: all parameters are replaced together, and this keeps none: name those that are to"
            " stay as well, or say default alone to take all away",
        ),
        (f"gnt-group modify --capacity-parameters memory={'9' * 400},disk=1,vcpus=1 default", "larger than any size"),
        (f"gnt-group modify --capacity-parameters memory=1,disk=1,vcpus={'9' * 5000} default", "not a whole number"),
    ],
)
def test_parameters_that_make_no_sense(gnt, master, line, words):
    ran = gnt(line)
    assert ran.status
    assert words in ran.err
    assert not master.submitted()


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("default", {}),
        ("memory=default,disk=-,cpu_ratio=default", None),
        ("memory=default,disk=default,vcpus=default,cpu_ratio=2,-disk_usage", {"max_cpu_ratio": 2.0}),
        ("cpu_ratio=default", None),
        ("memory=default,disk=default,vcpus=default,-cpu_ratio", None),
        ("-cpu_ratio,disk_usage=1", {"max_disk_usage": 1.0}),
    ],
)
def test_what_is_set_goes_back_to_the_default(gnt, master, words, asked):
    master.job([])
    ran = gnt(f"gnt-group modify --capacity-parameters {words} default")
    assert [opcode["capacity_params"] for opcode in master.submitted()] == ([] if asked is None else [asked])
    assert bool(ran.status) == (asked is None)


LIMITS = {"cpu-count": 1, "disk-count": 1, "disk-size": 1024, "memory-size": 128, "nic-count": 1, "spindle-use": 1}
POLICY = {"disk-templates": ["drbd", "plain"], "vcpu-ratio": 4.0, "spindle-ratio": 32.0, "minmax": []}
GROUP = {
    "name": "east",
    "uuid": "u2",
    "custom_ndparams": {"ssh_port": 2222},
    "ndparams": {"ssh_port": 2222, "ovs": False},
    "custom_diskparams": {"drbd": {"protocol": "A"}},
    "diskparams": {"drbd": {"protocol": "A", "metavg": "xenvg"}, "file": {}},
    "custom_ipolicy": {"vcpu-ratio": 8.0},
    "ipolicy": POLICY | {"minmax": [{"min": LIMITS, "max": LIMITS | {"cpu-count": 8}}], "vcpu-ratio": 8.0},
    "custom_capacity_params": {},
    "capacity_params": {},
}
INFO = """\
- Node group: east
  Node parameters:
    ovs: default (False)
    ssh_port: 2222
  Disk parameters:
    drbd:
      metavg: default (xenvg)
      protocol: A
    file: default ({})
  Instance policy:
    bounds specs:
      - min/0:
          cpu-count: default (1)
          disk-count: default (1)
          disk-size: default (1024)
          memory-size: default (128)
          nic-count: default (1)
          spindle-use: default (1)
        max/0:
          cpu-count: default (8)
          disk-count: default (1)
          disk-size: default (1024)
          memory-size: default (128)
          nic-count: default (1)
          spindle-use: default (1)
    allowed disk templates: default (drbd, plain)
    vcpu-ratio: 8
    spindle-ratio: default (32)
"""
CAPACITY = """\
  Capacity parameters:
    cpu_ratio: 2
    disk: default (20480)
    disk_template: default (drbd)
    memory: default (4096)
    vcpus: default (2)
"""


def rows(*groups):
    return {"fields": [], "data": [[[0, value] for value in group.values()] for group in groups]}


def shown(ran):
    return "".join(f"{line.rstrip()}\n" for line in ran.out.splitlines())


def test_the_details_of_a_group(gnt, master):
    master.answers["Query"] = rows(GROUP)
    assert shown(gnt("gnt-group info east")) == INFO
    assert master.calls("Query")[0] == ["group", list(GROUP), ["|", ["=", "name", "east"], ["=", "uuid", "east"]]]
    of_all = {"max_inst_spec": [4096, 20480, 2], "default_template": "drbd"}
    own = {"max_cpu_ratio": 2.0}
    changed = GROUP | {"custom_capacity_params": own, "capacity_params": of_all | own}
    master.answers["Query"] = rows(changed, GROUP)
    assert shown(gnt("gnt-group info")) == INFO + CAPACITY + INFO
    assert master.calls("Query")[1][2] is None


def test_a_group_that_is_not_there_has_no_details(gnt, master):
    master.answers["Query"] = rows(GROUP)
    ran = gnt("gnt-group info east mars")
    assert (ran.status, ran.out) == (1, "")
    assert "There is no node group mars: gnt-group info shows all of them." in ran.err


def test_nothing_to_change_is_asked_of_the_master_as_by_3_1(gnt, master):
    master.job([])
    ran = gnt("gnt-group modify default")
    assert (ran.status, ran.out) == (0, "")
    assert master.submitted() == [{"OP_ID": "OP_GROUP_SET_PARAMS", "group_name": "default", "diskparams": {}}]
