# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-debug."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import DRY_RUN, LIST_OPTIONS, PRIORITY, flag, option

DEBUG_SUBMIT_JOB = Command(
    "gnt-debug submit-job",
    "submit lists of opcodes from JSON files",
    arguments=(Argument("files", "op-list-file", 1, None),),
    handler="debug.jobs:submit_job",
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

DEBUG_WCONFD = Command(
    "gnt-debug wconfd",
    "make one call to the daemon of locks and configuration, and print its result",
    arguments=(Argument("method", "cmd"), Argument("words", "args", 0, None)),
    handler="debug.calls:wconfd",
    is_job=False,
)

DEBUG_METAD = Command(
    "gnt-debug metad",
    "make one call to the metadata daemon of this node, and print its result",
    arguments=(Argument("method", "cmd"), Argument("words", "args", 0, None)),
    handler="debug.calls:metad",
    is_job=False,
)

DEBUG_RECORD = Command(
    "gnt-debug record",
    "show what has happened to an instance, a node or a job on all nodes, in order of time",
    arguments=(Argument("what", "INSTANCE|NODE|JOB"),),
    handler="debug.record:tell",
    is_job=False,
    options=(option("--since", field="since", kind="duration", help="how far back; 24h without it"),),
)

DEBUG_EVENTS = Command(
    "gnt-debug events",
    "follow what happens in the cluster, until interrupted",
    handler="debug.events:follow",
    is_job=False,
    options=(
        option("--kinds", field="kinds", kind="list", metavar="KIND,…", help="only these: config, job, lock, node"),
        option("--from", field="from_position", metavar="POSITION", help="begin after this position"),
        flag("--snapshot", field="snapshot", help="show first what is there"),
        flag("--json", field="json", help="one JSON object a line instead of sentences"),
    ),
)
