# SPDX-License-Identifier: BSD-2-Clause
"""What commands submit is what the operations take: every opcode is decoded as strictly as the master does it."""

from unittest.mock import Mock

import pytest

import ganeti.master.operations
from ganeti.base.registry import import_all
from ganeti.cli import generate
from ganeti.cli.commands.cluster import setup as cluster_setup
from ganeti.cli.commands.node import setup as node_setup
from ganeti.master.operation import REGISTRY, decode

import_all(ganeti.master.operations)

TAGGED = ("gnt-cluster", "gnt-group", "gnt-node", "gnt-instance", "gnt-network")
LINES = [
    "gnt-cluster init cluster",
    "gnt-cluster destroy --yes-do-it",
    "gnt-cluster verify -v --error-codes --no-nplus1-mem --no-hv-param-assessment -g g -I ENODELVM",
    "gnt-cluster verify --verify-ssh-clutter --debug-simulate-errors",
    "gnt-node add -s 10.0.0.1 -g g --vm-capable no --master-capable no --node-parameters ssh_port=22 new",
    "gnt-node modify -f -C no -D yes -O no --master-capable no --vm-capable no -s 10.0.0.1 --auto-promote n",
    "gnt-node modify --node-parameters oob_program=-x,no_ovs --node-powered yes n",
    "gnt-node remove n",
    "gnt-node migrate -f --non-live -n b --ignore-ipolicy --no-runtime-changes n",
    "gnt-node migrate -f --migration-mode live -I hail n",
    "gnt-node failover -f --ignore-consistency -I hail n",
    "gnt-instance add -t file -o noop -n a:b --disk 0:size=1g,mode=ro --net 0:link=br0 -B memory=1g -H fake:x=y "
    "-O a=b --os-parameters-private c=d --os-parameters-secret e=f --no-start --no-install --no-wait-for-sync "
    "--no-conflicts-check --ip-check --name-check --force-variant --forthcoming --ignore-ipolicy "
    "--tags a,b -c no --helper-startup-timeout 1m --helper-shutdown-timeout 1m --file-driver loop "
    "--file-storage-dir sub --opportunistic-locking web1",
    "gnt-instance add -s 1g -g g --no-nics --dry-run --priority low web1",
    "gnt-instance add --commit web1",
    "gnt-instance rename --ip-check --name-check web1 web2",
    "gnt-instance reinstall -f -o noop --force-variant -O a=b --os-parameters-private c=d web1",
    "gnt-instance move -f -n b --compress gzip --ignore-consistency --ignore-ipolicy --shutdown-timeout 1m web1",
    "gnt-instance change-group --to g --to h -I hail --early-release web1",
    "gnt-instance info --all",
    "gnt-instance info -s web1",
    "gnt-instance startup -f --paused --no-remember --ignore-offline -H a=b -B vcpus=2 web1",
    "gnt-instance shutdown -f --timeout 5 --no-remember --ignore-offline web1",
    "gnt-instance reboot -t soft --ignore-secondaries --shutdown-timeout 5 web1",
    "gnt-instance migrate -f --migration-mode live --cleanup -n b --allow-failover --ignore-ipolicy "
    "--ignore-hvversions --no-runtime-changes web1",
    "gnt-instance failover -f --ignore-consistency --shutdown-timeout 5 -I . --ignore-ipolicy --cleanup web1",
    "gnt-instance remove -f --shutdown-timeout 5 --ignore-failures web1",
    "gnt-instance console --show-cmd web1",
    "gnt-os list",
    *(f"{owner} {words} a b" for owner in TAGGED for words in ("add-tags", "remove-tags --priority low")),
    "gnt-cluster search-tags a.*b",
    "gnt-node power -f --auto-promote --oob-timeout 5 --power-delay 1 off n",
    "gnt-node power -f --ignore-status off n",
    "gnt-node power status",
    "gnt-node health --oob-timeout 5 n",
    "gnt-debug delay -r 2 -i -l -n a --no-master 1.5",
]


@pytest.mark.parametrize("line", LINES)
def test_the_operation_takes_what_the_command_submits(gnt, master, monkeypatch, line):
    monkeypatch.setattr(cluster_setup, "make_cluster", lambda options: None)
    monkeypatch.setattr(cluster_setup, "leave_cluster", lambda uuid: None)
    monkeypatch.setattr(node_setup, "begin_joining", lambda options: Mock())
    master.answers["QueryConfigValues"] = ["cluster"]
    master.answers["Query"] = {"fields": [], "data": [[[0, "n"], [0, ["web1"]]]]}
    master.answers["SubmitManyJobs"] = [[False, "not now"]]
    master.job(["OpPrereqError", ["not now", "wrong_state"]], status="error")
    ran = gnt(line)
    assert "not now" in ran.err
    opcodes = [opcode for call in master.calls("SubmitJob") for opcode in call[0]]
    opcodes += [opcode for call in master.calls("SubmitManyJobs") for job in call[0] for opcode in job]
    assert opcodes
    for opcode in opcodes:
        decode(opcode)


def test_every_operation_a_command_names_exists():
    named = {command.op_id for command in generate.declared() if command.op_id}
    assert named <= REGISTRY.keys(), sorted(named - REGISTRY.keys())
