# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-os that stand at no operation."""

from ganeti.base.command import Argument, Command
from ganeti.cli.commands.options import DRY_RUN, NODE_GROUP, PRINT_JOBID, PRIORITY, SUBMIT, option

DIAGNOSE = Command(
    "gnt-os diagnose",
    "show what each node says of each operating system",
    options=(NODE_GROUP, PRIORITY),
    handler="os.info:diagnose",
    is_job=False,
)

INFO = Command(
    "gnt-os info",
    "show details of operating systems",
    aliases=("show",),
    arguments=(Argument("names", "os", 0, None),),
    options=(NODE_GROUP, PRIORITY),
    handler="os.info:info",
    is_job=False,
)

MODIFY = Command(
    "gnt-os modify",
    "change what the cluster sets for an operating system",
    arguments=(Argument("os_name", "os"),),
    options=(
        option(
            *("-H", "--hypervisor-parameters"),
            field="os_hvp",
            kind="ident-keyvalues",
            help="parameters of a hypervisor for its instances, as NAME:KEY=VALUE",
        ),
        option("-O", "--os-parameters", field="osparams", kind="keyvalues", help="its parameters"),
        option(
            "--os-parameters-private",
            field="osparams_private_cluster",
            kind="keyvalues",
            help="its parameters that no listing shows",
        ),
        option("--hidden", field="hidden_os", kind="yesno", help="whether lists leave it out"),
        option("--blacklisted", field="blacklisted_os", kind="yesno", help="whether new instances cannot have it"),
        DRY_RUN,
        PRIORITY,
        SUBMIT,
        PRINT_JOBID,
    ),
    handler="os.modify:modify",
    is_job=False,
    op_id="OP_CLUSTER_SET_PARAMS",
)
