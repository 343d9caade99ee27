# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-node."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import (
    ASSUME_YES,
    CACHE,
    DISK_STATE,
    DRY_RUN,
    FIELDS,
    FILTER,
    FORCE,
    HV_STATE,
    IALLOCATOR,
    IGNORE_CONSISTENCY,
    IGNORE_IPOLICY,
    LIST_OPTIONS,
    MIGRATION_MODES,
    NO_HEADERS,
    NO_RUNTIME_CHANGES,
    NODE,
    NODE_PARAMETERS,
    PRINT_JOBID,
    PRIORITY,
    SEPARATOR,
    SUBMIT,
    TARGET_NODE,
    UNITS,
    flag,
    option,
)

NODE_ADD = Command(
    "gnt-node add",
    "add a node, or add it again",
    arguments=(NODE,),
    handler="node_setup:add",
    op_id="OP_NODE_ADD",
    is_job=False,
    needs_root=True,
    options=(
        option("-s", "--secondary-ip", field="secondary_ip", metavar="ADDRESS", help="address for replication"),
        flag("--readd", field="readd", help="the node is in the cluster already and comes back"),
        flag("--no-ssh-key-check", field="no_ssh_key_check", help="accept an unknown ssh host key"),
        flag("--force-join", field="force_join", help="go on where the joining checks complain"),
        flag("--no-node-setup", field="no_node_setup", help="leave the node's ssh keys alone"),
        flag("-v", "--verbose", field="verbose", help="say more"),
        option("-g", "--node-group", field="group", metavar="GROUP", help="group of the node"),
        PRIORITY,
        option("--master-capable", field="master_capable", kind="yesno", help="may become master candidate"),
        option("--vm-capable", field="vm_capable", kind="yesno", help="may run instances"),
        NODE_PARAMETERS,
        HV_STATE,
        DISK_STATE,
    ),
)

NODE_LIST = Command(
    "gnt-node list",
    "list nodes",
    arguments=(Argument("names", "node-name", 0, None),),
    handler="listing:nodes",
    is_job=False,
    environment=True,
    options=(
        *LIST_OPTIONS,
        UNITS,
        FILTER,
        CACHE,
        option("-g", "--node-group", field="group", help="nodes of this group only"),
    ),
)

NODE_LIST_FIELDS = Command(
    "gnt-node list-fields",
    "list the fields of 'list'",
    arguments=(FIELDS,),
    handler="listing:node_fields",
    is_job=False,
    options=(NO_HEADERS, SEPARATOR),
)

NODE_INFO = Command(
    "gnt-node info",
    "show details of nodes",
    aliases=("show",),
    arguments=(Argument("names", "node-name", 0, None),),
    handler="node_info:info",
    is_job=False,
    options=(option("-g", "--node-group", field="group", help="nodes of this group only"),),
)

NODE_MODIFY = Command(
    "gnt-node modify",
    "change flags and parameters of a node",
    arguments=(NODE,),
    handler="node_jobs:modify",
    op_id="OP_NODE_SET_PARAMS",
    options=(
        FORCE,
        option("-C", "--master-candidate", field="master_candidate", kind="yesno", help="is a master candidate"),
        option("-D", "--drained", field="drained", kind="yesno", help="takes no new instances"),
        option("-O", "--offline", field="offline", kind="yesno", help="is not asked for anything"),
        option("--master-capable", field="master_capable", kind="yesno", help="may become master candidate"),
        option("--vm-capable", field="vm_capable", kind="yesno", help="may run instances"),
        option("-s", "--secondary-ip", field="secondary_ip", metavar="ADDRESS", help="address for replication"),
        flag("--auto-promote", field="auto_promote", help="promote other nodes if candidates become too few"),
        NODE_PARAMETERS,
        option("--node-powered", field="powered", kind="yesno", help="recorded power state"),
        HV_STATE,
        DISK_STATE,
    ),
)

NODE_REMOVE = Command(
    "gnt-node remove",
    "remove a node from the cluster",
    arguments=(NODE,),
    handler="plain:submit",
    op_id="OP_NODE_REMOVE",
    is_job=False,
    needs_root=True,
    options=(DRY_RUN, PRIORITY),
)

NODE_MIGRATE = Command(
    "gnt-node migrate",
    "migrate all primary instances of a node",
    arguments=(NODE,),
    handler="node_jobs:migrate",
    op_id="OP_NODE_MIGRATE",
    is_job=False,
    options=(
        ASSUME_YES,
        *MIGRATION_MODES,
        TARGET_NODE,
        IALLOCATOR,
        PRIORITY,
        IGNORE_IPOLICY,
        NO_RUNTIME_CHANGES,
        SUBMIT,
        PRINT_JOBID,
    ),
)

NODE_FAILOVER = Command(
    "gnt-node failover",
    "fail over all primary instances of a node",
    arguments=(NODE,),
    handler="node_jobs:failover",
    op_id="OP_INSTANCE_FAILOVER",
    is_job=False,
    options=(ASSUME_YES, IGNORE_CONSISTENCY, IALLOCATOR, PRIORITY),
)
