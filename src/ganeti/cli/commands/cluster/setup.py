# SPDX-License-Identifier: BSD-2-Clause
"""The commands of gnt-cluster that may run without a cluster: init, destroy, getmaster, version."""

from __future__ import annotations

from ganeti.cli import environment, jobs
from ganeti.cli.commands.bootstrap_calls import leave_cluster, make_cluster, own_mastership
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out
from ganeti.cli.luxi import no_master

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def init(call: Invocation) -> int:
    """Make the cluster in this process, then run the operation that fires its hooks."""
    if environment.ssconf("master_node") is not None:
        raise Failure(
            f"There is a cluster on this machine already ({environment.ssconf('cluster_name')}): "
            "take it down with 'gnt-cluster destroy' first"
        )
    make_cluster(call.parameters())
    jobs.ask(call, {"OP_ID": "OP_CLUSTER_POST_INIT"})
    return 0


def destroy(call: Invocation) -> int:
    if not call.get("yes_do_it"):
        raise Failure(
            "Destroying a cluster cannot be undone: if you really want to destroy this cluster, supply the "
            "--yes-do-it option."
        )
    leave_cluster(jobs.ask(call, {"OP_ID": "OP_CLUSTER_DESTROY"}))
    return 0


def getmaster(call: Invocation) -> int:
    out(_master_name())
    return 0


def _master_name() -> str:
    master = environment.ssconf("master_node") or own_mastership().master
    if not master:
        raise no_master()
    return master


def version(call: Invocation) -> int:
    """Show what the master says; on other nodes, where no master daemon runs, what is installed there."""
    master = _master_name()
    if environment.is_this_host(master):
        answer = call.client.call("QueryClusterInfo")
    else:
        from ganeti.base import version as ours

        answer = {
            "software_version": ours.RELEASE,
            "protocol_version": ours.PROTOCOL,
            "config_version": ours.CONFIGURATION,
            "os_api_version": ours.OS_API,
            "export_version": ours.EXPORT,
            "vcs_version": ours.VCS,
        }
    out(f"Software version: {answer['software_version']}")
    out(f"Internode protocol: {answer['protocol_version']}")
    out(f"Configuration format: {answer['config_version']}")
    out(f"OS api version: {answer['os_api_version']}")
    out(f"Export interface: {answer['export_version']}")
    out(f"VCS version: {answer['vcs_version']}")
    return 0
