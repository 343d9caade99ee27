# SPDX-License-Identifier: BSD-2-Clause
"""The few calls into the bootstrap: what must act where no cluster runs yet, or none any more.

Imported only when one of them is needed; everything else on the command line talks to the master daemon.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ganeti.bootstrap.join import Joining
    from ganeti.bootstrap.join_by_token import TokenJoining
    from ganeti.bootstrap.own_mastership import OwnMastership

    AnyJoining: TypeAlias = Joining | TokenJoining


def make_cluster(options: dict[str, Any]) -> None:
    """Make the cluster on this machine and start its daemons; *options* by the fields of `CLUSTER_INIT`."""
    from ganeti.bootstrap.init import init_cluster

    init_cluster(options)


def begin_joining(options: dict[str, Any]) -> Joining:
    """Reach a machine over ssh that is to get the cluster's keys and a node daemon."""
    from ganeti.bootstrap.join import Joining

    return Joining(options)


def offer_token(options: dict[str, Any], tell: Callable[[str], None]) -> TokenJoining:
    """Wait on the master until a machine has come with a one-time token and is set up."""
    from ganeti.bootstrap.join_by_token import offer

    return offer(options, tell)


def take_up_token(master: str, token: str) -> bool:
    """Have the master that waits with *token* make this machine a node; False where its job's end is not known."""
    from ganeti.bootstrap.join_by_token import take_up

    return take_up(master, token)


def make_secrets(options: dict[str, Any]) -> list[str]:
    """Make secrets of the cluster anew on the master; gives the paths of the files."""
    from ganeti.bootstrap.new_secrets import make_secrets as make

    return make(options)


def leave_cluster(master_uuid: str) -> None:
    """Stop this machine's daemons and remove the cluster's data, after the cluster has agreed to its end."""
    from ganeti.bootstrap.destroy import destroy_cluster

    destroy_cluster(master_uuid)


def fail_over(options: dict[str, Any]) -> int:
    """Make this machine the master; gives the exit status."""
    from ganeti.bootstrap.failover import fail_over as become_master

    return become_master(options)


def own_mastership() -> OwnMastership:
    """Who is the master by this machine's own files, for when the master daemon does not answer here."""
    from ganeti.base.paths import Paths
    from ganeti.bootstrap.own_mastership import read_own_mastership
    from ganeti.cli import environment

    return read_own_mastership(Paths(environment.root()), environment.host_name())
