# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-filter."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import LIST_OPTIONS, option

_ONE = Argument("uuid", "filter-uuid")
_MAYBE = Argument("names", "filter-uuid", 0, None)
_RULE_OPTIONS = (
    option(
        "--priority",
        field="priority",
        kind="int",
        metavar="NUMBER",
        help="rules with small numbers are looked at first; 0 unless given",
    ),
    option(
        "--predicates",
        field="predicates",
        kind="json",
        metavar="LIST",
        help="which jobs, as a JSON list of predicates; all jobs unless given",
    ),
    option(
        "--action",
        field="action",
        metavar="ACTION",
        help="ACCEPT, PAUSE, REJECT, CONTINUE or 'RATE_LIMIT N'; CONTINUE unless given",
    ),
)

FILTER_ADD = Command(
    "gnt-filter add", "add a rule about jobs", handler="filter.rules:add", is_job=False, options=_RULE_OPTIONS
)
FILTER_REPLACE = Command(
    "gnt-filter replace",
    "put another rule in the place of one, or add it under this UUID",
    arguments=(_ONE,),
    handler="filter.rules:replace",
    is_job=False,
    options=_RULE_OPTIONS,
)
FILTER_DELETE = Command(
    "gnt-filter delete", "delete a rule", arguments=(_ONE,), handler="filter.rules:delete", is_job=False
)
FILTER_INFO = Command(
    "gnt-filter info", "show details of rules", arguments=(_MAYBE,), handler="filter.rules:info", is_job=False
)
FILTER_LIST = Command(
    "gnt-filter list",
    "list the rules about jobs",
    arguments=(_MAYBE,),
    handler="listing:objects",
    is_job=False,
    options=LIST_OPTIONS,
)
