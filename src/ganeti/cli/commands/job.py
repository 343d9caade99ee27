# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-job."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import (
    ASSUME_YES,
    FIELDS,
    FILTER,
    JOBS,
    LIST_OPTIONS,
    NO_HEADERS,
    SEPARATOR,
    YES_DO_IT,
    flag,
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
        flag("--queued", field="selector", value="queued", help="jobs that no process has taken up"),
        flag("--waiting", field="selector", value="waiting", help="jobs that wait for locks"),
        flag("--running", field="selector", value="running", help="jobs that act"),
        flag("--error", field="selector", value="error", help="jobs that failed"),
        flag("--finished", field="selector", value="finished", help="jobs that have ended"),
        flag("--archived", field="selector", value="archived", help="jobs in the archive"),
    ),
)

JOB_LIST_FIELDS = Command(
    "gnt-job list-fields",
    "list the fields of 'list'",
    arguments=(FIELDS,),
    handler="listing:job_fields",
    is_job=False,
    options=(NO_HEADERS, SEPARATOR),
)

JOB_INFO = Command(
    "gnt-job info", "show details of jobs", aliases=("show",), arguments=(JOBS,), handler="job_info:info", is_job=False
)
JOB_WATCH = Command(
    "gnt-job watch", "follow what a job says", arguments=(_ONE,), handler="job_control:watch", is_job=False
)
JOB_WAIT = Command(
    "gnt-job wait", "wait until a job has ended", arguments=(_ONE,), handler="job_control:wait", is_job=False
)
JOB_ARCHIVE = Command(
    "gnt-job archive", "archive jobs that have ended", arguments=(JOBS,), handler="job_control:archive", is_job=False
)

JOB_CANCEL = Command(
    "gnt-job cancel",
    "cancel jobs",
    arguments=(_MAYBE,),
    handler="job_control:cancel",
    is_job=False,
    options=(
        ASSUME_YES,
        flag("--kill", field="kill", help="end the job's process, whatever it does (needs --yes-do-it)"),
        flag("--pending", field="selector", value="pending", help="all jobs that wait for their turn"),
        flag("--queued", field="selector", value="queued", help="all jobs that no process has taken up"),
        flag("--waiting", field="selector", value="waiting", help="all jobs that wait for locks"),
        YES_DO_IT,
    ),
)
