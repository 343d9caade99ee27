# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-instance."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import (
    ASSUME_YES,
    BACKEND,
    CACHE,
    FIELDS,
    FILTER,
    IALLOCATOR,
    IGNORE_CONSISTENCY,
    IGNORE_IPOLICY,
    INSTANCE,
    LIST_OPTIONS,
    MIGRATION_MODES,
    NO_HEADERS,
    NO_RUNTIME_CHANGES,
    PRIORITY,
    SEPARATOR,
    SHUTDOWN_TIMEOUT,
    TARGET_NODE,
    UNITS,
    WHY,
    flag,
    option,
)

_SELECTED = Argument("names", "name", 0, None)
_SELECTORS = (
    flag("--force-multiple", field="force_multiple", help="do not ask about several instances"),
    flag("--instance", field="selector", value="instance", help="the arguments are instances (as without it)"),
    flag("--all", field="selector", value="all", help="every instance"),
    flag("--node", field="selector", value="node", help="the arguments are nodes: instances that use them"),
    flag("--primary", field="selector", value="primary", help="the arguments are nodes: instances that run there"),
    flag("--secondary", field="selector", value="secondary", help="the arguments are nodes: instances mirrored there"),
    flag("--tags", field="selector", value="tags", help="the arguments are tags of instances"),
    flag("--node-tags", field="selector", value="node-tags", help="the arguments are tags of their nodes"),
    flag("--pri-node-tags", field="selector", value="pri-node-tags", help="the arguments are tags of primary nodes"),
    flag("--sec-node-tags", field="selector", value="sec-node-tags", help="the arguments are tags of secondary nodes"),
)
_IGNORE_OFFLINE = flag("--ignore-offline", field="ignore_offline_nodes", help="record the state though the node is off")
_NO_REMEMBER = flag("--no-remember", field="no_remember", help="keep the recorded state")

INSTANCE_ADD = Command(
    "gnt-instance add",
    "create an instance",
    arguments=(INSTANCE,),
    handler="instance_add:add",
    op_id="OP_INSTANCE_CREATE",
    options=(
        option("-t", "--disk-template", field="disk_template", metavar="TEMPLATE", help="how its disks are made"),
        option("-n", "--node", field="node", metavar="NODE[:SECONDARY]", help="where it runs"),
        option("-o", "--os-type", field="os_type", metavar="OS[+VARIANT]", help="what is installed"),
        option(
            "--disk",
            field="disks",
            kind="disks",
            metavar="N:size=SIZE,…",
            repeatable=True,
            help="a disk and its parameters",
        ),
        option("-s", "--os-size", field="os_size", kind="size", help="one disk of this size"),
        option("--net", field="nics", kind="nics", metavar="N:KEY=VALUE,…", repeatable=True, help="a NIC"),
        flag("--no-nics", field="no_nics", help="no NIC at all"),
        BACKEND,
        option(
            "-H",
            "--hypervisor-parameters",
            field="hypervisor",
            kind="ident-keyvalues",
            repeatable=True,
            metavar="HYPERVISOR:KEY=VALUE,…",
            help="hypervisor and its parameters",
        ),
        IALLOCATOR,
        option("-g", "--node-group", field="group_name", metavar="GROUP", help="node group for the allocator"),
        option("-O", "--os-parameters", field="osparams", kind="keyvalues", help="OS parameters"),
        option("--os-parameters-private", field="osparams_private", kind="keyvalues", help="not shown in listings"),
        option("--os-parameters-secret", field="osparams_secret", kind="keyvalues", help="not stored at all"),
        option("--file-storage-dir", field="file_storage_dir", metavar="DIR", help="directory below the cluster's"),
        option(
            "--file-driver", field="file_driver", choices=("loop", "blktap", "blktap2"), help="driver of disks in files"
        ),
        flag("--ip-check", field="ip_check", help="refuse if the address answers already"),
        flag("--no-ip-check", field="no_ip_check", help="without effect; there for old scripts"),
        flag("--name-check", field="name_check", help="refuse if the name has no address"),
        flag("--no-name-check", field="no_name_check", help="without effect; there for old scripts"),
        flag("--no-conflicts-check", field="conflicts_check", value=False, help="do not look for address conflicts"),
        flag("--no-wait-for-sync", field="wait_for_sync", value=False, help="do not wait for mirrors to be in sync"),
        flag("--no-start", field="start", value=False, help="do not start it"),
        flag("--no-install", field="no_install", help="do not install the OS"),
        flag("--force-variant", field="force_variant", help="accept a variant the OS does not list"),
        flag("--opportunistic-locking", field="opportunistic_locking", help="use only nodes that are free now"),
        WHY,
        flag("--forthcoming", field="forthcoming", help="reserve the resources only"),
        flag("--commit", field="commit", help="make a forthcoming instance real"),
        IGNORE_IPOLICY,
        option("--tags", field="tags", kind="list", repeatable=True, help="tags of the instance"),
        option(
            "-c", "--communication", field="instance_communication", kind="yesno", help="channel from guest to cluster"
        ),
        option("--helper-startup-timeout", field="helper_startup_timeout", kind="duration", help="of the helper guest"),
        option(
            "--helper-shutdown-timeout", field="helper_shutdown_timeout", kind="duration", help="of the helper guest"
        ),
    ),
)

INSTANCE_LIST = Command(
    "gnt-instance list",
    "list instances",
    arguments=(Argument("names", "instance-name", 0, None),),
    handler="listing:instances",
    is_job=False,
    environment=True,
    options=(*LIST_OPTIONS, UNITS, FILTER, CACHE),
)

INSTANCE_LIST_FIELDS = Command(
    "gnt-instance list-fields",
    "list the fields of 'list'",
    arguments=(FIELDS,),
    handler="listing:instance_fields",
    is_job=False,
    options=(NO_HEADERS, SEPARATOR),
)

INSTANCE_INFO = Command(
    "gnt-instance info",
    "show details of instances",
    aliases=("show",),
    arguments=(Argument("names", "instance-name", 0, None),),
    handler="instance_info:info",
    op_id="OP_INSTANCE_QUERY_DATA",
    is_job=False,
    options=(
        flag("-s", "--static", field="static", help="only what the configuration knows; asks no node"),
        flag("--all", field="all", help="every instance"),
        flag("--roman", field="roman", help="roman numerals"),
        PRIORITY,
    ),
)

INSTANCE_STARTUP = Command(
    "gnt-instance startup",
    "start instances",
    aliases=("start",),
    arguments=(_SELECTED,),
    handler="instance_power:startup",
    op_id="OP_INSTANCE_STARTUP",
    options=(
        flag("-f", "--force", field="force", help="start although a disk is degraded"),
        *_SELECTORS,
        option("-H", "--hypervisor-parameters", field="hvparams", kind="keyvalues", help="for this start only"),
        option("-B", "--backend-parameters", field="beparams", kind="keyvalues", help="for this start only"),
        _IGNORE_OFFLINE,
        _NO_REMEMBER,
        flag("--paused", field="startup_paused", help="start it paused"),
    ),
)

INSTANCE_SHUTDOWN = Command(
    "gnt-instance shutdown",
    "stop instances",
    aliases=("stop",),
    arguments=(_SELECTED,),
    handler="instance_power:shutdown",
    op_id="OP_INSTANCE_SHUTDOWN",
    options=(
        flag("-f", "--force", field="force", help="stop an instance that is marked offline, too"),
        *_SELECTORS,
        option("--timeout", field="timeout", kind="duration", help="how long the guest may take; 0 stops it hard"),
        _IGNORE_OFFLINE,
        _NO_REMEMBER,
    ),
)

INSTANCE_REBOOT = Command(
    "gnt-instance reboot",
    "reboot instances",
    arguments=(_SELECTED,),
    handler="instance_power:reboot",
    op_id="OP_INSTANCE_REBOOT",
    options=(
        option("-t", "--type", field="reboot_type", choices=("soft", "hard", "full"), default="hard", help="how"),
        *_SELECTORS,
        flag("--ignore-secondaries", field="ignore_secondaries", help="go on with a broken mirror"),
        SHUTDOWN_TIMEOUT,
    ),
)

INSTANCE_MIGRATE = Command(
    "gnt-instance migrate",
    "migrate an instance to another node while it runs",
    arguments=(INSTANCE,),
    handler="instance_move:migrate",
    op_id="OP_INSTANCE_MIGRATE",
    options=(
        ASSUME_YES,
        *MIGRATION_MODES,
        flag("--cleanup", field="cleanup", help="put right what an interrupted migration has left"),
        TARGET_NODE,
        IALLOCATOR,
        flag("--allow-failover", field="allow_failover", help="fail over if it cannot be migrated"),
        IGNORE_IPOLICY,
        flag("--ignore-hvversions", field="ignore_hvversions", help="do not compare the hypervisors' versions"),
        NO_RUNTIME_CHANGES,
        WHY,
    ),
)

INSTANCE_FAILOVER = Command(
    "gnt-instance failover",
    "stop an instance and start it on another node",
    arguments=(INSTANCE,),
    handler="instance_move:failover",
    op_id="OP_INSTANCE_FAILOVER",
    options=(
        ASSUME_YES,
        IGNORE_CONSISTENCY,
        SHUTDOWN_TIMEOUT,
        TARGET_NODE,
        IALLOCATOR,
        IGNORE_IPOLICY,
        flag("--cleanup", field="cleanup", help="put right what an interrupted failover has left"),
        WHY,
    ),
)

INSTANCE_CONSOLE = Command(
    "gnt-instance console",
    "connect to the console",
    arguments=(INSTANCE,),
    handler="instance_console:console",
    op_id="OP_INSTANCE_CONSOLE",
    is_job=False,
    needs_root=True,
    options=(flag("--show-cmd", field="show_command", help="print the command instead of running it"), PRIORITY),
)

INSTANCE_REMOVE = Command(
    "gnt-instance remove",
    "delete an instance and its disks",
    arguments=(INSTANCE,),
    handler="instance_move:remove",
    op_id="OP_INSTANCE_REMOVE",
    options=(
        ASSUME_YES,
        SHUTDOWN_TIMEOUT,
        flag("--ignore-failures", field="ignore_failures", help="forget it although a step failed"),
    ),
)
