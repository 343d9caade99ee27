# SPDX-License-Identifier: BSD-2-Clause
"""Options that several commands share, and short ways to write the others."""

from ganeti.base.command import ASSUME_YES as ASSUME_YES
from ganeti.base.command import DRY_RUN as DRY_RUN
from ganeti.base.command import NODE_GROUP as NODE_GROUP
from ganeti.base.command import PRINT_JOBID as PRINT_JOBID
from ganeti.base.command import PRIORITY as PRIORITY
from ganeti.base.command import SUBMIT as SUBMIT
from ganeti.base.command import Argument, Option


def flag(*flags: str, field: str, help: str, value: object = True) -> Option:
    return Option(flags, field, "flag", help, value)


def option(*flags: str, field: str, kind: str = "string", help: str, metavar: str = "", **more: object) -> Option:
    return Option(flags, field, kind, help, metavar=metavar, **more)  # type: ignore[arg-type]


YES_DO_IT = flag("--yes-do-it", "--ya-rly", field="yes_do_it", help="confirm that this is really wanted")

NO_HEADERS = flag("--no-headers", field="no_headers", help="no line of titles")
SEPARATOR = option("--separator", field="separator", metavar="TEXT", help="between columns, which are then not padded")
OUTPUT = option(
    "-o", "--output", field="output", metavar="FIELDS", help="fields to show; +FIELDS adds to the usual ones"
)
UNITS = option("--units", field="units", choices=("h", "m", "g", "t"), help="unit of sizes; h picks one for each")
VERBOSE = flag("-v", "--verbose", field="verbose", help="write words instead of signs for unknown values")
FILTER = flag("-F", "--filter", field="force_filter", help="the arguments are a filter expression")
CACHE = option(
    "--cache", field="cache", choices=("on", "off"), help="off: ask the nodes, even if they said it seconds ago"
)
LIST_OPTIONS = (NO_HEADERS, SEPARATOR, OUTPUT, VERBOSE)

FIELDS = Argument("names", "field", 0, None)
JOBS = Argument("jobs", "job-id", 1, None)
