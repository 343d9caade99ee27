# SPDX-License-Identifier: BSD-2-Clause
"""Which opcodes each command submits, parameter by parameter."""

import pytest
from fake_master import Turns

from ganeti.cli import confirm


def cells(*rows):
    return {"fields": [], "data": [[[0, value] for value in row] for row in rows]}


@pytest.fixture
def many(master):
    master.answers["SubmitManyJobs"] = lambda jobs: [[True, number] for number, _ in enumerate(jobs, start=1)]
    master.answers["WaitForJobChange"] = [["success"], []]
    master.answers["QueryJobs"] = [["success", ["success"], [None]]]
    return master


@pytest.mark.parametrize(
    ("line", "opcode"),
    [
        (
            "gnt-instance add -t plain -o noop+default -s 1g web1",
            {
                "disk_template": "plain",
                "os_type": "noop+default",
                "disks": [{"size": 1024}],
                "nics": [{}],
                "iallocator": ".",
            },
        ),
        (
            "gnt-instance add -n a:b --disk 0:size=10g,name=root --net 0:link=br0,ip=10.0.0.1 -B memory=1g,vcpus=2 "
            "-H kvm:acpi=no --no-start --no-install --no-wait-for-sync --no-conflicts-check --no-name-check "
            "--no-ip-check --tags x,y --ignore-ipolicy -O a=b --os-parameters-secret s=t -c yes web1",
            {
                "pnode": "a",
                "snode": "b",
                "disks": [{"size": 10240, "name": "root"}],
                "nics": [{"link": "br0", "ip": "10.0.0.1"}],
                "beparams": {"memory": "1g", "vcpus": "2"},
                "hypervisor": "kvm",
                "hvparams": {"acpi": "no"},
                "start": False,
                "no_install": True,
                "wait_for_sync": False,
                "conflicts_check": False,
                "name_check": False,
                "ip_check": False,
                "tags": ["x", "y"],
                "ignore_ipolicy": True,
                "osparams": {"a": "b"},
                "osparams_secret": {"s": "t"},
                "instance_communication": True,
            },
        ),
        (
            "gnt-instance add -I hail -g rack1 --no-nics --forthcoming web1",
            {"iallocator": "hail", "group_name": "rack1", "disks": [], "nics": [], "forthcoming": True},
        ),
        (
            "gnt-instance add --why web1",
            {"iallocator": ".", "disks": [], "nics": [{}], "why": True, "dry_run": True},
        ),
    ],
)
def test_instance_add(gnt, master, line, opcode):
    master.job(["node1"])
    assert gnt(line).status == 0
    common = {"OP_ID": "OP_INSTANCE_CREATE", "mode": "create", "instance_name": "web1"}
    assert master.submitted() == [common | opcode]


@pytest.mark.parametrize(
    ("line", "opcode"),
    [
        (
            "gnt-debug iallocator --dir out -I hail -m allocate --disks 1g,512m -t plain "
            "--nics 00:01/10.0.0.1/br0,auto --memory 1g -o noop -p 2 --tags a,b new",
            {
                "direction": "out",
                "mode": "allocate",
                "iallocator": "hail",
                "name": "new",
                "memory": 1024,
                "vcpus": 2,
                "disks": [{"size": 1024}, {"size": 512}],
                "disk_template": "plain",
                "nics": [
                    {"mac": "00:01", "ip": "10.0.0.1", "bridge": "br0"},
                    {"mac": "auto", "ip": None, "bridge": None},
                ],
                "os": "noop",
                "tags": ["a", "b"],
                "spindle_use": 1,
                "count": 2,
            },
        ),
        ("gnt-debug allocator web1", {"direction": "in", "mode": "relocate", "name": "web1"}),
        (
            "gnt-debug iallocator -m node-evacuate --evac-mode all web1",
            {"direction": "in", "mode": "node-evacuate", "name": "web1", "instances": ["web1"], "evac_mode": "all"},
        ),
        (
            "gnt-debug iallocator -m change-group web1 web2",
            {
                "direction": "in",
                "mode": "change-group",
                "name": "web1",
                "instances": ["web1", "web2"],
                "evac_mode": "all",
            },
        ),
    ],
)
def test_asking_an_allocator(gnt, master, line, opcode):
    master.job('{"success":true}\n')
    done = gnt(line)
    assert (done.status, done.out) == (0, '{"success":true}\n')
    assert master.submitted() == [{"OP_ID": "OP_TEST_ALLOCATOR"} | opcode]


def test_an_allocator_is_asked_about_several_instances_only_where_they_are_moved(gnt, master):
    ran = gnt("gnt-debug iallocator --mode relocate web1 web2")
    assert (ran.status, ran.err) == (1, "gnt-debug iallocator takes 1 instance with --mode relocate, not 2\n")
    assert master.submitted() == []


@pytest.mark.parametrize(
    ("line", "opcode"),
    [
        ("gnt-instance migrate -f web1", {"OP_ID": "OP_INSTANCE_MIGRATE"}),
        (
            "gnt-instance change-group --to a,b --to c web1",
            {"OP_ID": "OP_INSTANCE_CHANGE_GROUP", "target_groups": ["a", "b", "c"]},
        ),
        (
            "gnt-instance change-group -n a:b web1",
            {"OP_ID": "OP_INSTANCE_CHANGE_GROUP", "nodes": ["a", "b"]},
        ),
        (
            "gnt-instance migrate -f --non-live --cleanup -n node2 --allow-failover --ignore-ipolicy "
            "--ignore-hvversions --no-runtime-changes web1",
            {
                "OP_ID": "OP_INSTANCE_MIGRATE",
                "mode": "non-live",
                "cleanup": True,
                "target_node": "node2",
                "allow_failover": True,
                "ignore_ipolicy": True,
                "ignore_hvversions": True,
                "allow_runtime_changes": False,
            },
        ),
        (
            "gnt-instance failover -f --ignore-consistency --shutdown-timeout 2m -I hail web1",
            {
                "OP_ID": "OP_INSTANCE_FAILOVER",
                "ignore_consistency": True,
                "shutdown_timeout": 120,
                "iallocator": "hail",
            },
        ),
        (
            "gnt-instance migrate --why -I hail web1",
            {"OP_ID": "OP_INSTANCE_MIGRATE", "iallocator": "hail", "why": True, "dry_run": True},
        ),
        ("gnt-instance failover --why web1", {"OP_ID": "OP_INSTANCE_FAILOVER", "why": True, "dry_run": True}),
        (
            "gnt-instance remove -f --shutdown-timeout=5 --ignore-failures web1",
            {"OP_ID": "OP_INSTANCE_REMOVE", "shutdown_timeout": 5, "ignore_failures": True},
        ),
    ],
)
def test_moves_and_removal(gnt, master, line, opcode):
    master.job()
    assert gnt(line).status == 0
    assert master.submitted() == [{"instance_name": "web1"} | opcode]


@pytest.mark.parametrize(
    ("line", "opcode"),
    [
        (
            "gnt-instance start -f --paused --no-remember --ignore-offline -H acpi=no -B vcpus=2 web1",
            {
                "OP_ID": "OP_INSTANCE_STARTUP",
                "force": True,
                "startup_paused": True,
                "no_remember": True,
                "ignore_offline_nodes": True,
                "hvparams": {"acpi": "no"},
                "beparams": {"vcpus": "2"},
            },
        ),
        (
            "gnt-instance stop --timeout 0 web1",
            {"OP_ID": "OP_INSTANCE_SHUTDOWN", "timeout": 0},
        ),
        (
            "gnt-instance reboot web1",
            {"OP_ID": "OP_INSTANCE_REBOOT", "reboot_type": "hard"},
        ),
        (
            "gnt-instance reboot -t full --ignore-secondaries --shutdown-timeout 9 web1",
            {"OP_ID": "OP_INSTANCE_REBOOT", "reboot_type": "full", "ignore_secondaries": True, "shutdown_timeout": 9},
        ),
    ],
)
def test_power(gnt, many, line, opcode):
    ran = gnt(line)
    assert (ran.status, ran.out) == (0, "Waiting for job 1 for web1 ...\n")
    assert many.submitted() == [{"instance_name": "web1"} | opcode]


@pytest.mark.requirement("S1.18")
@pytest.mark.parametrize(
    ("words", "what", "fields", "condition"),
    [
        ("--all", "instance", ["name"], None),
        ("--tags x y", "instance", ["name"], ["|", ["=[]", "tags", "x"], ["=[]", "tags", "y"]]),
        (
            "--node-group green",
            "instance",
            ["name"],
            ["|", ["==", "pnode.group", "green"], ["==", "pnode.group.uuid", "green"]],
        ),
        ("--node n1 n2", "node", ["pinst_list", "sinst_list"], ["|", ["==", "name", "n1"], ["==", "name", "n2"]]),
        ("--primary n1", "node", ["pinst_list"], ["|", ["==", "name", "n1"]]),
        ("--secondary n1", "node", ["sinst_list"], ["|", ["==", "name", "n1"]]),
        ("--pri-node-tags x", "node", ["pinst_list"], ["|", ["=[]", "tags", "x"]]),
        ("--sec-node-tags x", "node", ["sinst_list"], ["|", ["=[]", "tags", "x"]]),
        ("--node-tags x", "node", ["pinst_list", "sinst_list"], ["|", ["=[]", "tags", "x"]]),
    ],
)
def test_selectors(gnt, many, words, what, fields, condition):
    if what == "instance":
        many.answers["Query"] = cells(["a"], ["b"])
    else:
        many.answers["Query"] = cells(*[[["a", "b"]] * len(fields)] * 2)
    if words.startswith(("--node ", "--primary", "--secondary", "--node-group")):
        known = cells(*[[word, f"uuid-{word}"] for word in words.split()[1:]])
        many.answers["Query"] = Turns(known, many.answers["Query"])
    assert gnt(f"gnt-instance stop --force-multiple {words}").status == 0
    assert many.calls("Query")[-1] == [what, fields, condition]
    assert [opcode["instance_name"] for opcode in many.submitted()] == ["a", "b"]


@pytest.mark.parametrize("line", ["gnt-cluster redist-conf --yes-do-it", "gnt-backup export -f -n n1 web1"])
def test_options_of_old_scripts_are_taken(gnt, master, line):
    master.job([True, [True]] if "export" in line else None)
    assert gnt(line).err == ""
    assert len(master.submitted()) == 1 and "assume_yes" not in master.submitted()[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--node n1 n9", "Node 'n9' not known"),
        ("--primary n9", "Node 'n9' not known"),
        ("--node-group n9", "Node group 'n9' not known"),
    ],
)
def test_a_selector_that_names_nothing_does_nothing(gnt, many, words, message):
    many.answers["Query"] = cells(["n1.example.com", "uuid-n1"])
    ran = gnt(f"gnt-instance stop --force-multiple {words}")
    assert ran.status == 1 and message in ran.err
    assert not many.submitted()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gnt-instance stop", "needs the name of an instance, or --all"),
        ("gnt-instance stop --node-group", "needs the name of a node group"),
        ("gnt-instance stop --node", "needs the name of a node"),
        ("gnt-instance stop --all web1", "--all takes no names"),
        ("gnt-instance add -n a -I hail web1", "-n and -I exclude each other"),
        ("gnt-instance add -n a: web1", "write NODE or NODE:SECONDARY"),
        ("gnt-instance add -n a -g rack web1", "-g and -n exclude each other"),
        ("gnt-instance add -s 1g --disk 0:size=1g web1", "-s and --disk exclude each other"),
        ("gnt-instance add --no-nics --net 0:ip=1.2.3.4 web1", "--no-nics and --net exclude each other"),
        ("gnt-instance add -H kvm -H fake web1", "has one hypervisor, not 2"),
        ("gnt-instance migrate --non-live --migration-mode live web1", "exclude each other"),
        ("gnt-instance failover -n a -I hail web1", "name a node or an allocator"),
        ("gnt-instance info", "needs the name of an instance, or --all"),
        ("gnt-node modify node1", "at least one of the parameters"),
        ("gnt-job info x", "'x' is not a job id"),
        ("gnt-job cancel", "either job ids or one of"),
        ("gnt-job cancel --kill 3", "confirm it with --yes-do-it"),
        ("gnt-cluster destroy", "--yes-do-it option"),
        ("gnt-debug delay x", "seconds: 'x' is not a number"),
        ("gnt-debug delay -r -1 5", "-r: -1 is less than nothing"),
        ("gnt-debug delay -- -5", "seconds: -5 is less than nothing: give 0 or more"),
        ("gnt-debug submit-job /nonexistent", "Cannot read /nonexistent"),
        ("gnt-debug submit-job --op-repeat 0 f", "at least 1"),
        ("gnt-debug locks --interval 0", "more than 0"),
    ],
)
def test_wrong_requests_reach_nobody(gnt, master, line, message):
    ran = gnt(line)
    assert ran.status in (1, 2)
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert master.requests == []


def test_removal_asks_and_takes_no_for_an_answer(gnt, master, monkeypatch):
    asked = []
    monkeypatch.setattr(confirm, "ask", lambda question: bool(asked.append(question)))
    master.answers["Query"] = cells(["web1.example.com"])
    ran = gnt("gnt-instance remove web1")
    assert (ran.status, ran.err) == (1, "Nothing was done.\n")
    assert "web1.example.com" in asked[0]
    assert master.submitted() == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gnt-instance migrate web1", "will be migrated"),
        ("gnt-instance migrate --cleanup web1", "will be recovered from an interrupted migration"),
        ("gnt-instance failover web1", "Failover will happen to instance web1.example.com"),
        ("gnt-instance failover --cleanup web1", "will be recovered from an interrupted failover"),
    ],
)
def test_a_move_asks_about_what_it_is(gnt, master, monkeypatch, line, words):
    asked = []
    monkeypatch.setattr(confirm, "ask", lambda question: asked.append(question) or True)
    master.answers["Query"] = cells(["web1.example.com"])
    master.job()
    assert gnt(line).status == 0
    assert len(asked) == 1 and words in asked[0] and asked[0].endswith("Continue?")
    assert [opcode["instance_name"] for opcode in master.submitted()] == ["web1"]


def test_several_instances_are_asked_about(gnt, many, monkeypatch):
    asked = []
    monkeypatch.setattr(confirm, "ask", lambda question: asked.append(question) or True)
    assert gnt("gnt-instance stop a b").status == 0
    assert asked == ["The shutdown will operate on 2 instances.\nAffected instances:\n  a\n  b\nContinue?"]


def test_without_a_terminal_the_option_is_named(gnt, many, monkeypatch):
    monkeypatch.setattr(confirm, "ask", lambda question: None)
    ran = gnt("gnt-instance stop a b")
    assert ran.status == 1
    assert "give --force-multiple" in ran.err
    assert many.submitted() == []


def test_node_modify_shows_what_changed(gnt, master):
    master.job([["master_candidate", "False"], ["offline", True]])
    ran = gnt("gnt-node modify -f -C no -O yes --auto-promote --node-parameters ssh_port=2222 -s 10.1.1.1 node2")
    assert ran.out == "Modified node node2\n - master_candidate -> False\n - offline -> True\n"
    assert master.submitted() == [
        {
            "OP_ID": "OP_NODE_SET_PARAMS",
            "node_name": "node2",
            "force": True,
            "master_candidate": False,
            "offline": True,
            "auto_promote": True,
            "ndparams": {"ssh_port": "2222"},
            "secondary_ip": "10.1.1.1",
        }
    ]


def test_node_remove(gnt, master):
    master.job()
    assert gnt("gnt-node remove --dry-run node3").status == 0
    assert master.submitted() == [{"OP_ID": "OP_NODE_REMOVE", "node_name": "node3", "dry_run": True}]


def test_node_migrate_waits_for_the_jobs_it_makes(gnt, master):
    master.answers["Query"] = cells(["node1.x", ["a", "b"]])
    master.job({"jobs": [[True, 5], [True, 6]]})
    master.answers["QueryJobs"] = Turns(
        [["success", ["success"], [{"jobs": [[True, 5], [True, 6]]}]]], [["success", ["success"], [None]]]
    )
    ran = gnt("gnt-node migrate -f --migration-mode non-live -I hail node1")
    assert ran.out.splitlines() == [
        "Submitted jobs 5, 6",
        "Waiting for job 5 ...",
        "Waiting for job 6 ...",
        "All instances migrated successfully.",
    ]
    assert master.submitted() == [
        {"OP_ID": "OP_NODE_MIGRATE", "node_name": "node1.x", "mode": "non-live", "iallocator": "hail"}
    ]


@pytest.mark.parametrize(("command", "status"), [("migrate", 13), ("failover", 2), ("evacuate", 13)])
def test_nothing_leaves_a_node_without_an_answer(gnt, master, monkeypatch, command, status):
    monkeypatch.setattr("ganeti.cli.confirm._answer", lambda prompt: None)
    master.answers["Query"] = cells(["node1", ["a"], []])
    assert gnt(f"gnt-node {command} node1").status == status
    assert not master.submitted()


def test_node_without_instances(gnt, master):
    master.answers["Query"] = cells(["node1.x", []])
    ran = gnt("gnt-node migrate -f node1")
    assert (ran.status, ran.out) == (0, "No primary instances on node node1.x, exiting.\n")


def test_node_failover_makes_one_job_an_instance(gnt, many):
    many.answers["Query"] = cells(["node1", ["a", "b"]])
    many.answers["QueryJobs"] = Turns(
        [["success", ["success"], [None]]], [["error", ["error"], [["OpExecError", ["no memory"]]]]]
    )
    ran = gnt("gnt-node failover -f --ignore-consistency node1")
    assert ran.status == 1
    assert ran.err.endswith("There were errors during the failover:\n1 error(s) out of 2 instance(s).\n")
    assert many.submitted() == [
        {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": name, "ignore_consistency": True} for name in ("a", "b")
    ]


def test_verify_parameters(gnt, master):
    master.job({"jobs": []})
    line = (
        "gnt-cluster verify --error-codes --no-nplus1-mem -g rack1 -I ENODEVERSION -I ENODELVM --verify-ssh-clutter -v"
    )
    assert gnt(line).status == 0
    assert master.submitted() == [
        {
            "OP_ID": "OP_CLUSTER_VERIFY",
            "verbose": True,
            "error_codes": True,
            "skip_checks": ["nplusone_mem"],
            "ignore_errors": ["ENODEVERSION", "ENODELVM"],
            "group_name": "rack1",
            "verify_clutter": True,
        }
    ]


def test_instance_info_asks_nodes_unless_static(gnt, master):
    master.job({})
    gnt("gnt-instance info --all")
    gnt("gnt-instance info -s web1")
    assert master.submitted() == [
        {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": [], "static": False, "use_locking": True},
        {"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": ["web1"], "static": True, "use_locking": False},
    ]


def test_os_list_shows_variants_of_what_is_valid(gnt, master):
    master.job(
        [
            ["debian", ["bookworm", "trixie"], True, False, False],
            ["plain", [], True, False, False],
            ["broken", [], False, False, False],
            ["secret", [], True, True, False],
            ["old", [], True, False, True],
        ]
    )
    assert gnt("gnt-os list").out == "Name\ndebian+bookworm\ndebian+trixie\nplain\n"
    assert gnt("gnt-os list --no-headers").out.startswith("debian+bookworm\n")
    assert master.submitted()[0]["OP_ID"] == "OP_OS_DIAGNOSE"


def test_delay(gnt, master):
    master.job()
    gnt("gnt-debug delay --no-master -n a -n b -r 3 -i -l 0.5")
    gnt("gnt-debug delay 1")
    assert master.submitted() == [
        {
            "OP_ID": "OP_TEST_DELAY",
            "duration": 0.5,
            "on_master": False,
            "on_nodes": ["a", "b"],
            "repeat": 3,
            "interruptible": True,
            "no_locks": True,
        },
        {
            "OP_ID": "OP_TEST_DELAY",
            "duration": 1.0,
            "no_locks": False,
        },
    ]


def test_submit_job_reads_files(gnt, many, tmp_path):
    good, bad, odd = tmp_path / "good", tmp_path / "bad", tmp_path / "odd"
    good.write_text('[{"OP_ID": "OP_TEST_DELAY", "duration": 0}]')
    bad.write_text("[{]")
    odd.write_text('[{"duration": 0}]')
    ran = gnt(f"gnt-debug submit-job --op-repeat 2 --job-repeat 2 {good}")
    assert ran.out.startswith("Submitted jobs 1, 2\nWaiting for job 1 ...\n")
    assert len(many.submitted()) == 4
    assert "is not JSON" in gnt(f"gnt-debug submit-job {bad}").err
    assert "with the key 'OP_ID'" in gnt(f"gnt-debug submit-job {odd}").err


def test_verify_disks_opens_what_is_behind_and_tells_what_is_lost(gnt, many):
    found = [{"node3": "no route"}, ["db1"], {"web1": [["node1", "/srv/disk0"]]}]
    many.answers["SubmitJob"] = 8
    many.answers["QueryJobs"] = Turns(
        [["success", ["success"], [{"jobs": [[True, 9]]}]]],
        [["success", ["success"], [found]]],
        [["success", ["success"], [[["node1", "disk/0", "/srv/disk1"]]]]],
    )
    ran = gnt("gnt-cluster verify-disks --no-strict -g rack1")
    assert ran.status == 1
    assert "Activating disks for instance 'db1'" in ran.out and "No disks" not in ran.out
    assert "Node node3 does not say what disks it has: no route" in ran.err
    assert "Instance web1 has lost disks" in ran.err and "/srv/disk0 on node node1" in ran.err
    assert [opcode["OP_ID"] for opcode in many.submitted()] == [
        "OP_CLUSTER_VERIFY_DISKS",
        "OP_INSTANCE_ACTIVATE_DISKS",
    ]


def test_sizes_of_disks_in_several_groups_are_looked_at_by_a_job_each(gnt, many):
    def rows(*pairs):
        return {"fields": [], "data": [[[0, name], [0, group]] for name, group in pairs]}

    many.answers["Query"] = rows(("web1", "green"), ("web2", "default"), ("web3", "green"))
    assert gnt("gnt-cluster repair-disk-sizes --priority low").status == 0
    assert many.submitted() == [
        {"OP_ID": "OP_CLUSTER_REPAIR_DISK_SIZES", "instances": names, "priority": 10}
        for names in (["web2"], ["web1", "web3"])
    ]


def test_a_name_that_no_instance_has_is_not_dropped(gnt, many):
    many.answers["Query"] = {"fields": [], "data": [[[0, "web1"], [0, "green"]], [[0, "web2"], [0, "default"]]]}
    many.job([])
    gnt("gnt-cluster repair-disk-sizes web1 web2 wbe3")
    assert [opcode["instances"] for opcode in many.submitted()] == [["web1", "web2", "wbe3"]]


def test_sizes_of_disks_in_one_group_are_looked_at_by_one_job(gnt, master):
    master.answers["Query"] = {"fields": [], "data": [[[0, "web1"], [0, "default"]]]}
    master.job([])
    assert gnt("gnt-cluster repair-disk-sizes").status == 0
    assert gnt("gnt-cluster repair-disk-sizes web1").status == 0
    assert [opcode["instances"] for opcode in master.submitted()] == [[], ["web1"]]


def test_verify_disks_that_finds_nothing_is_a_success(gnt, many):
    many.answers["SubmitJob"] = 8
    many.answers["QueryJobs"] = Turns(
        [["success", ["success"], [{"jobs": [[True, 9]]}]]], [["success", ["success"], [[{}, [], {}]]]]
    )
    ran = gnt("gnt-cluster verify-disks")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.endswith("\nNo disks need to be activated.\n")


@pytest.mark.parametrize("verb", ["shutdown", "startup", "reboot"])
def test_all_instances_of_an_empty_cluster(gnt, master, verb):
    """What a script says that shuts a cluster down, whatever there is."""
    master.answers["Query"] = {"fields": [], "data": []}
    ran = gnt(f"gnt-instance {verb} --all")
    assert (ran.status, ran.out) == (0, f"Cluster is empty, no instances to {verb}\n")
