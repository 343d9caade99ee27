# SPDX-License-Identifier: BSD-2-Clause
"""What `gnt-cluster modify` says of maintenance: how the maintenance daemon is to act (S4.34, S4.37)."""

from typing import Annotated, Any

import msgspec

from ganeti.master.operations.cluster.cluster_parameters import ClusterParameters
from ganeti.master.parameter import Parameter


class WithMaintenance(ClusterParameters, frozen=True, kw_only=True):
    """All of the cluster, and those about maintenance; null leaves one as it is."""

    maint_round_delay: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None,
        Parameter("seconds from one round of maintenance to the next", "--maintenance-interval", metavar="SECONDS"),
    ] = None
    maint_balance: Annotated[
        bool | None, Parameter("let the maintenance daemon balance the cluster", "--auto-balance-cluster")
    ] = None
    maint_balance_threshold: Annotated[
        Annotated[float, msgspec.Meta(ge=0)] | None,
        Parameter("least gain of the score for which it does", "--auto-balance-threshold", metavar="NUMBER"),
    ] = None
    maint_balance_dynamic: Annotated[
        bool | None, Parameter("balance by the load that nodes measure", "--auto-balance-dynamic-load")
    ] = None
    maint_balance_disk_moves: Annotated[
        bool | None, Parameter("balancing may copy disks to other nodes", "--auto-balance-disk-moves")
    ] = None
    maint_load_threshold: Annotated[
        Annotated[float, msgspec.Meta(ge=0)] | None,
        Parameter(
            "by measured load only where the busiest node is this share of its processors above the mean",
            "--auto-balance-load-threshold",
            metavar="NUMBER",
        ),
    ] = None
    maint_cool_down: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None,
        Parameter(
            "seconds that a changed instance stays where it is, by measured load",
            "--auto-balance-cool-down",
            metavar="SECONDS",
        ),
    ] = None
    maint_repair_instances: Annotated[
        bool | None, Parameter("do the work of harep: repair instances as their tags allow", "--auto-repair-instances")
    ] = None
    maint_nodes_at_once: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None,
        Parameter("how many nodes may be out of service at a time", "--maintenance-nodes-at-once", metavar="NUMBER"),
    ] = None
    maint_keep_redundancy: Annotated[
        bool | None,
        Parameter("evacuate a node only where the others can lose one (N+1)", "--maintenance-keep-redundancy"),
    ] = None

    def maintenance_values(self) -> dict[str, Any]:
        """What is given, by attributes of `Maintenance`."""
        given = {
            "round_delay_s": self.maint_round_delay,
            "balance": self.maint_balance,
            "balance_threshold": self.maint_balance_threshold,
            "balance_dynamic": self.maint_balance_dynamic,
            "balance_disk_moves": self.maint_balance_disk_moves,
            "load_threshold": self.maint_load_threshold,
            "cool_down_s": self.maint_cool_down,
            "repair_instances": self.maint_repair_instances,
            "nodes_at_once": self.maint_nodes_at_once,
            "keep_redundancy": self.maint_keep_redundancy,
        }
        return {attribute: value for attribute, value in given.items() if value is not None}
