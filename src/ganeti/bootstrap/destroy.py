# SPDX-License-Identifier: BSD-2-Clause
"""The end of a cluster on its last node, after OP_CLUSTER_DESTROY has agreed (protocols, section 25)."""

from ganeti.bootstrap.leave import forget_cluster
from ganeti.bootstrap.machine import Machine


def destroy_cluster(master_uuid: str) -> None:
    """Stop the daemons of this node, the master, and remove what made it part of the cluster.

    *master_uuid* is the answer of the operation: it says that the cluster agreed. Raises `CommandError` when a daemon
    cannot be stopped; nothing is removed then.
    """
    if not master_uuid:
        raise ValueError("destroy_cluster needs the answer of OP_CLUSTER_DESTROY")
    machine = Machine.here()
    machine.daemon_util("stop-all")
    forget_cluster(machine.paths)
