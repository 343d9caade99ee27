# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-cluster."""

from ganeti.base.command import PRIORITY, Argument, Command, Option
from ganeti.cli.commands.options import (
    ASSUME_YES,
    YES_DO_IT,
    flag,
    option,
)

QUEUE = Command(
    "gnt-cluster queue",
    "drain, undrain, or show the job queue",
    arguments=(Argument("action", "drain|undrain|info"),),
    handler="cluster.switches:queue",
    is_job=False,
)

WATCHER = Command(
    "gnt-cluster watcher",
    "pause, continue, or show the watcher",
    arguments=(Argument("action", "pause|continue|info"), Argument("duration", "timespec", 0, 1)),
    handler="cluster.switches:watcher",
    is_job=False,
)

TOKEN = Command(
    "gnt-cluster token",
    "add, list or revoke tokens for the remote API",
    arguments=(Argument("action", "add|list|revoke"), Argument("name", "name", 0, 1)),
    handler="cluster.tokens:token",
    is_job=False,
    needs_root=True,
    options=(
        Option(
            ("--role",),
            "role",
            choices=("administrator", "monitor", "operator", "reader"),
            help="what the token may do",
        ),
        Option(
            ("--scope",),
            "scope",
            help="KIND:read or KIND:write, with @TAG for objects that have the tag",
            metavar="SCOPE",
            repeatable=True,
        ),
        Option(("--expires",), "expires", help="how long the token is valid, such as 30d", metavar="TIMESPEC"),
    ),
)

APPLY = Command(
    "gnt-cluster apply",
    "make instances, networks, groups and tags as a file in YAML or JSON describes them",
    arguments=(Argument("file", "FILE"),),
    handler="cluster.apply:apply",
    is_job=False,
    options=(
        Option(("--plan", "--dry-run"), "plan", "flag", "say what would be done, and change nothing"),
        ASSUME_YES,
        PRIORITY,
    ),
)

AUDIT = Command(
    "gnt-cluster audit",
    "show the log of requests to the remote API, or check that it is complete",
    arguments=(Argument("action", "show|verify"),),
    handler="cluster.tokens:audit",
    is_job=False,
    needs_root=True,
    options=(
        Option(("--lines",), "lines", "int", "how many of the last lines are shown", default=20, metavar="NUMBER"),
        Option(("--file",), "file", help="another file than this node's", metavar="PATH"),
        Option(("--hash",), "hash", help="a hash from before, which must still be in it", metavar="HASH"),
    ),
)

INCIDENTS = Command(
    "gnt-cluster incidents",
    "list, show, cancel or forget the faults that nodes report",
    arguments=(Argument("action", "list|show|cancel|forget"), Argument("incidents", "incident-id", 0, None)),
    handler="cluster.incidents:incidents",
    is_job=False,
)

MAINTENANCE = Command(
    "gnt-cluster maintenance",
    "show what the maintenance daemon does next and why, or how it is set",
    arguments=(Argument("action", "plan|show"),),
    handler="cluster.incidents:maintenance",
    is_job=False,
)

CLUSTER_INFO = Command(
    "gnt-cluster info",
    "show the cluster's parameters",
    aliases=("show",),
    handler="cluster.info:info",
    is_job=False,
    options=(flag("--roman", field="roman", help="roman numerals"),),
)

SHOW_ISPECS = Command(
    "gnt-cluster show-ispecs-cmd",
    "print the command that makes a cluster with the same bounds of instances",
    handler="group.policy_command:show_cluster",
    is_job=False,
)

CLUSTER_DESTROY = Command(
    "gnt-cluster destroy",
    "tear the cluster down",
    handler="cluster.setup:destroy",
    is_job=False,
    needs_root=True,
    options=(YES_DO_IT,),
)

CLUSTER_GETMASTER = Command(
    "gnt-cluster getmaster",
    "print the name of the master",
    handler="cluster.setup:getmaster",
    is_job=False,
    needs_master=False,
)

CLUSTER_VERSION = Command(
    "gnt-cluster version",
    "show the versions of the cluster",
    handler="cluster.setup:version",
    is_job=False,
    needs_master=False,
)

CLUSTER_BACKUP = Command(
    "gnt-cluster backup",
    "write configuration, keys and queue into a file, and verify it",
    arguments=(Argument("path", "file"),),
    handler="cluster.copies:backup",
    is_job=False,
    needs_root=True,
    needs_master=False,
    options=(
        flag("--verify", field="verify", help="only verify the backup that is there"),
        Option(("--keep",), "keep", "int", "remove all but so many backups in the directory", metavar="NUMBER"),
    ),
)

CLUSTER_HISTORY = Command(
    "gnt-cluster history",
    "show changes of the configuration, or objects as they were at a time",
    arguments=(Argument("objects", "object", 0, None),),
    handler="cluster.copies:history",
    is_job=False,
    needs_root=True,
    needs_master=False,
    options=(
        option("--at", field="at", metavar="TIME", help="show what each object was at this time"),
        Option(("--limit",), "limit", "int", "so many of the newest commits; 0 for all (20)", metavar="NUMBER"),
    ),
)

CLUSTER_UNDO = Command(
    "gnt-cluster undo",
    "take a commit of the configuration back: parameters and tags",
    arguments=(Argument("commit", "commit"),),
    handler="cluster.copies:undo",
    is_job=False,
    needs_root=True,
    needs_master=False,
    options=(flag("--dry-run", field="only_show", help="only show what would be submitted"),),
)

CLUSTER_RESTORE = Command(
    "gnt-cluster restore",
    "replace the data of this master by a backup; its daemons must be stopped",
    arguments=(Argument("path", "file"),),
    handler="cluster.copies:restore",
    is_job=False,
    needs_root=True,
    needs_master=False,
    options=(flag("--yes-do-it", field="yes_do_it", help="replace the cluster that is on this machine"),),
)

CLUSTER_SHADOW = Command(
    "gnt-cluster shadow",
    "check a copy of another cluster's data: show what a take-over would change",
    arguments=(Argument("directory", "directory"),),
    handler="cluster.copies:shadow",
    is_job=False,
    needs_master=False,
    options=(
        option(
            "--text-data",
            field="text_data",
            metavar="FILE",
            help="say what placement would do, too, by what hscan says of that cluster",
        ),
    ),
)

CLUSTER_UPGRADE = Command(
    "gnt-cluster upgrade",
    "move the cluster to another installed version",
    handler="cluster.upgrade:upgrade",
    is_job=False,
    needs_root=True,
    options=(
        option("--to", field="to", metavar="VERSION", help="the version wanted, such as 3.1"),
        flag("--resume", field="resume", help="go on with an upgrade that was interrupted"),
    ),
)

CLUSTER_MASTER_FAILOVER = Command(
    "gnt-cluster master-failover",
    "make this node the master",
    aliases=("masterfailover",),
    handler="cluster.master:failover",
    is_job=False,
    needs_root=True,
    needs_master=False,
    options=(
        flag(
            "--no-voting", field="no_voting", help="do not wait for the promises of a majority: this may lose changes"
        ),
        flag("--yes-do-it", field="yes_do_it", help="confirm --no-voting"),
        flag(
            "--ignore-offline-nodes",
            field="ignore_offline_nodes",
            help="kept for Ganeti 3.1; nodes marked offline are never counted",
        ),
    ),
)

CLUSTER_EPO = Command(
    "gnt-cluster epo",
    "stop what runs on nodes and switch them off, or on again",
    arguments=(Argument("names", "node|group", 0, None),),
    handler="cluster.power:epo",
    is_job=False,
    options=(
        ASSUME_YES,
        flag("--on", field="on", help="switch on, and start what should run"),
        flag("--groups", field="groups", help="the names are names of node groups"),
        flag("--all", field="all", help="all nodes"),
        option("--oob-timeout", field="oob_timeout", kind="natural", metavar="SECONDS", help="for each program"),
        option(
            *("--shutdown-timeout",),
            field="shutdown_timeout",
            kind="duration",
            metavar="TIME",
            help="for each guest to stop",
        ),
        option(
            *("--power-delay",),
            field="power_delay",
            kind="amount",
            metavar="SECONDS",
            help="between one node switched on and the next",
        ),
    ),
)

CLUSTER_MASTER_PING = Command(
    "gnt-cluster master-ping",
    "exit with 0 if the master answers",
    handler="cluster.master:ping",
    is_job=False,
)

_NODES = (
    option("-n", "--node", field="nodes", repeatable=True, metavar="NODE", help="a node it goes to; all without it"),
    option("-g", "--node-group", field="nodegroup", metavar="GROUP", help="only nodes of this node group"),
)

CLUSTER_COMMAND = Command(
    "gnt-cluster command",
    "run a shell command on nodes over ssh, on the master last",
    arguments=(Argument("words", "command", 1, None),),
    handler="cluster.ssh:command",
    is_job=False,
    needs_root=True,
    options=(
        *_NODES,
        flag(
            "-M", "--show-machine-names", field="show_machine_names", help="begin each line with the name of its node"
        ),
        flag("--failure-only", field="failure_only", help="show only nodes where it failed"),
        option(
            "--parallel",
            field="parallel",
            kind="natural",
            metavar="N",
            help="run it on so many nodes at a time; without it, on one after the other",
        ),
    ),
)

CLUSTER_COPYFILE = Command(
    "gnt-cluster copyfile",
    "copy a file from the master to the same place on other nodes",
    arguments=(Argument("filename", "filename"),),
    handler="cluster.ssh:copyfile",
    is_job=False,
    needs_root=True,
    options=(
        *_NODES,
        flag(
            "--use-replication-network",
            field="use_replication_network",
            help="copy over the nodes' secondary addresses",
        ),
    ),
)
