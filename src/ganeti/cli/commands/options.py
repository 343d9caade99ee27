# SPDX-License-Identifier: BSD-2-Clause
"""Options that several commands share, and short ways to write the others."""

from ganeti.base.command import DRY_RUN as DRY_RUN
from ganeti.base.command import PRINT_JOBID as PRINT_JOBID
from ganeti.base.command import PRIORITY as PRIORITY
from ganeti.base.command import SUBMIT as SUBMIT
from ganeti.base.command import Argument, Option


def flag(*flags: str, field: str, help: str, value: object = True) -> Option:
    return Option(flags, field, "flag", help, value)


def option(*flags: str, field: str, kind: str = "string", help: str, metavar: str = "", **more: object) -> Option:
    return Option(flags, field, kind, help, metavar=metavar, **more)  # type: ignore[arg-type]


ASSUME_YES = flag("-f", "--force", field="assume_yes", help="do not ask")
FORCE = flag("-f", "--force", field="force", help="do not ask, and go on where that is possible")
YES_DO_IT = flag("--yes-do-it", "--ya-rly", field="yes_do_it", help="confirm that this is really wanted")
IALLOCATOR = option("-I", "--iallocator", field="iallocator", metavar="NAME", help="allocator that picks the nodes")
WHY = flag("--why", field="why", help="change nothing: say where it would go, and why not elsewhere")
SHUTDOWN_TIMEOUT = option(
    "--shutdown-timeout", field="shutdown_timeout", kind="duration", help="how long the guest may take to shut down"
)
IGNORE_IPOLICY = flag("--ignore-ipolicy", field="ignore_ipolicy", help="do not check the instance policy")
IGNORE_CONSISTENCY = flag(
    "--ignore-consistency", field="ignore_consistency", help="go on although the disks may not be in sync"
)
TARGET_NODE = option("-n", "--target-node", field="target_node", metavar="NODE", help="where to move to")
MIGRATION_MODES = (
    flag("--non-live", field="non_live", help="stop the guest while it moves"),
    option("--migration-mode", field="mode", choices=("live", "non-live"), help="how to migrate"),
)
NO_RUNTIME_CHANGES = flag(
    "--no-runtime-changes", field="allow_runtime_changes", value=False, help="do not shrink the guest's memory to fit"
)
BACKEND = option("-B", "--backend-parameters", field="beparams", kind="keyvalues", help="backend parameters")
NODE_PARAMETERS = option("--node-parameters", field="ndparams", kind="keyvalues", help="node parameters")
HV_STATE = option(
    "--hypervisor-state", field="hv_state", kind="ident-keyvalues", repeatable=True, help="recorded hypervisor state"
)
DISK_STATE = option("--disk-state", field="disk_state", kind="disk-state", repeatable=True, help="recorded disk state")

NO_HEADERS = flag("--no-headers", field="no_headers", help="no line of titles")
SEPARATOR = option("--separator", field="separator", metavar="TEXT", help="between columns, which are then not padded")
OUTPUT = option(
    "-o", "--output", field="output", metavar="FIELDS", help="fields to show; +FIELDS adds to the usual ones"
)
UNITS = option("--units", field="units", choices=("h", "m", "g", "t"), help="unit of sizes; h picks one for each")
VERBOSE = flag("-v", "--verbose", field="verbose", help="words instead of signs for what is not known")
FILTER = flag("-F", "--filter", field="force_filter", help="the arguments are a filter expression")
CACHE = option(
    "--cache", field="cache", choices=("on", "off"), help="off: ask the nodes, even if they said it seconds ago"
)
CAPACITY_PARAMETERS = option(
    "--capacity-parameters",
    field="capacity_params",
    kind="keyvalues",
    help="how capacity is counted: memory, disk, vcpus, disk_template, cpu_ratio, disk_usage; or default for none",
)
LIST_OPTIONS = (NO_HEADERS, SEPARATOR, OUTPUT, VERBOSE)

INSTANCE = Argument("instance_name", "instance-name")
NODE = Argument("node_name", "node-name")
FIELDS = Argument("names", "field", 0, None)
JOBS = Argument("jobs", "job-id", 1, None)
