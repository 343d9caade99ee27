# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-debug."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import DRY_RUN, IALLOCATOR, INSTANCE, LIST_OPTIONS, PRIORITY, flag, option

DEBUG_SUBMIT_JOB = Command(
    "gnt-debug submit-job",
    "submit lists of opcodes from JSON files",
    arguments=(Argument("files", "op-list-file", 1, None),),
    handler="debug_jobs:submit_job",
    is_job=False,
    options=(
        flag("-v", "--verbose", field="verbose", help="say more"),
        option("--op-repeat", field="op_repeat", kind="int", default=1, help="how often the list stands in a job"),
        option("--job-repeat", field="job_repeat", kind="int", default=1, help="how many jobs of each file"),
        flag("--timing-stats", field="timing_stats", help="show how long submission and jobs took"),
        flag("--each", field="each", help="submit every job by itself"),
        DRY_RUN,
        PRIORITY,
    ),
)

DEBUG_LOCKS = Command(
    "gnt-debug locks",
    "show the locks",
    handler="listing:locks",
    is_job=False,
    options=(*LIST_OPTIONS, option("--interval", field="interval", kind="float", help="show them again and again")),
)

DEBUG_IALLOCATOR = Command(
    "gnt-debug iallocator",
    "show what an allocator would be told, or would answer",
    aliases=("allocator",),
    arguments=(INSTANCE,),
    handler="debug_allocator:ask_allocator",
    op_id="OP_TEST_ALLOCATOR",
    is_job=False,
    options=(
        option("--dir", field="direction", choices=("in", "out"), default="in", help="its input, or its answer"),
        IALLOCATOR,
        option(
            "-m",
            "--mode",
            field="mode",
            choices=("relocate", "change-group", "allocate", "node-evacuate", "multi-allocate"),
            default="relocate",
            help="what is asked for",
        ),
        option("--memory", field="memory", kind="size", default=128, help="of the new instance"),
        option(
            "--disks",
            field="disk_sizes",
            kind="list",
            default=("4096", "4096"),
            metavar="SIZE,…",
            help="its disks",
        ),
        option("-t", "--disk-template", field="disk_template", default="drbd", help="how they are made"),
        option(
            "--nics",
            field="nic_list",
            kind="list",
            default=("00:11:22:33:44:55",),
            metavar="MAC/IP/BRIDGE,…",
            help="its NICs",
        ),
        option("-o", "--os-type", field="os_type", default="", metavar="OS", help="its OS"),
        option("-p", "--vcpus", field="vcpus", kind="int", default=1, help="its virtual processors"),
        option("--tags", field="tags", kind="list", help="its tags"),
        option("--spindle-use", field="spindle_use", kind="int", default=1, help="how much it uses the disks"),
        option("--count", field="count", kind="int", default=2, help="how many, with multi-allocate"),
        option(
            "--evac-mode",
            field="evac_mode",
            choices=("primary-only", "secondary-only", "all"),
            default="all",
            help="which side is moved, with node-evacuate",
        ),
        option("--target-groups", field="target_groups", kind="list", help="where to, with change-group"),
        DRY_RUN,
        PRIORITY,
    ),
)

DEBUG_EVENTS = Command(
    "gnt-debug events",
    "follow what happens in the cluster, until interrupted",
    handler="events:follow",
    is_job=False,
    options=(
        option("--kinds", field="kinds", kind="list", metavar="KIND,…", help="only these: config, job, lock, node"),
        option("--from", field="from_position", metavar="POSITION", help="begin after this position"),
        flag("--snapshot", field="snapshot", help="show first what is there"),
        flag("--json", field="json", help="one JSON object a line instead of sentences"),
    ),
)
