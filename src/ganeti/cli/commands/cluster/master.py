# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-cluster about who is master."""

from __future__ import annotations

from ganeti.cli import confirm, environment
from ganeti.cli.commands.bootstrap_calls import fail_over, own_mastership
from ganeti.cli.failures import EXIT_FAILURE, EXIT_NO_CLUSTER, Failure, UsageError
from ganeti.cli.invocation import err

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation

_NO_VOTING = """\
Without voting nobody makes sure that the old master is down, nor that this node has every change. If another master \
runs, there are two; changes that did not reach this node are lost.
Is every node that could be master down, or has it been told by other means? Become the master?"""


def failover(call: Invocation) -> int:
    no_voting, confirmed = bool(call.get("no_voting")), bool(call.get("yes_do_it"))
    if confirmed and not no_voting:
        raise UsageError("--yes-do-it confirms --no-voting, which was not given: leave it out")
    if environment.ssconf("master_node") is None and not own_mastership().master:
        raise Failure("There is no cluster on this machine: run this on a master candidate of yours", EXIT_NO_CLUSTER)
    if no_voting and not confirmed:
        confirm.require(_NO_VOTING, "add --yes-do-it if you are sure")
    return fail_over({"no_voting": no_voting})


def ping(call: Invocation) -> int:
    try:
        call.client.call("QueryConfigValues", ["cluster_name"])
    except Failure as failure:
        err(failure.text)
        return EXIT_FAILURE
    return 0
