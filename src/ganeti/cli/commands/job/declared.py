# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-job."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import (
    ASSUME_YES,
    FILTER,
    JOBS,
    LIST_OPTIONS,
    YES_DO_IT,
    flag,
    option,
)

_ONE = Argument("job", "job-id")
_MAYBE = Argument("jobs", "job-id", 0, None)

JOB_LIST = Command(
    "gnt-job list",
    "list jobs",
    arguments=(Argument("names", "job-id", 0, None),),
    handler="listing:jobs",
    is_job=False,
    options=(
        *LIST_OPTIONS,
        FILTER,
        flag("--pending", field="selector", value="pending", help="jobs that wait for their turn"),
        flag("--queued", field="selector", value="queued", help="jobs without a process"),
        flag("--waiting", field="selector", value="waiting", help="jobs whose process does not act yet"),
        flag("--running", field="selector", value="running", help="jobs that act"),
        flag("--error", field="selector", value="error", help="jobs that failed"),
        flag("--finished", field="selector", value="finished", help="jobs that have ended"),
        flag("--archived", field="archived", help="those in the archive, too"),
    ),
)

JOB_INFO = Command(
    "gnt-job info", "show details of jobs", aliases=("show",), arguments=(JOBS,), handler="job.info:info", is_job=False
)
JOB_WATCH = Command(
    "gnt-job watch", "follow the log of a job", arguments=(_ONE,), handler="job.control:watch", is_job=False
)
JOB_WAIT = Command(
    "gnt-job wait", "wait until a job has ended", arguments=(_ONE,), handler="job.control:wait", is_job=False
)
JOB_ARCHIVE = Command(
    "gnt-job archive", "archive jobs that have ended", arguments=(JOBS,), handler="job.control:archive", is_job=False
)
JOB_AUTO_ARCHIVE = Command(
    "gnt-job autoarchive",
    "archive jobs that ended longer ago than this, or all that have ended",
    arguments=(Argument("age", "age|all"),),
    handler="job.control:auto_archive",
    is_job=False,
)
JOB_WHY = Command(
    "gnt-job why", "say why jobs are where they are", arguments=(JOBS,), handler="job.why:why", is_job=False
)

_ALL_IN_A_STATE = (
    flag("--pending", field="selector", value="pending", help="all jobs that wait for their turn"),
    flag("--queued", field="selector", value="queued", help="all jobs without a process"),
    flag("--waiting", field="selector", value="waiting", help="all jobs whose process does not act yet"),
)

JOB_CANCEL = Command(
    "gnt-job cancel",
    "cancel jobs",
    arguments=(_MAYBE,),
    handler="job.control:cancel",
    is_job=False,
    options=(
        ASSUME_YES,
        flag("--kill", field="kill", help="end the job's process, whatever it does (needs --yes-do-it)"),
        *_ALL_IN_A_STATE,
        YES_DO_IT,
    ),
)

JOB_CHANGE_PRIORITY = Command(
    "gnt-job change-priority",
    "change the priority of jobs for what they have not done yet",
    arguments=(_MAYBE,),
    handler="job.control:change_priority",
    is_job=False,
    options=(
        option(
            "--priority",
            field="priority",
            metavar="PRIORITY",
            help="low, normal, high, or a number from -20 (first) to 19 (last)",
        ),
        ASSUME_YES,
        *_ALL_IN_A_STATE,
    ),
)
