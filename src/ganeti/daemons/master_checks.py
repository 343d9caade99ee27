# SPDX-License-Identifier: BSD-2-Clause
"""What daemons of the master look at before they serve: whether there is a cluster, and whose master this is."""

import os

from ganeti.base.errors import EXIT_NO_CLUSTER, EXIT_NOT_MASTER
from ganeti.bootstrap.own_mastership import is_master, why_not_master
from ganeti.model.configuration import Configuration
from ganeti.system.accounts import SOCKET_DIR_MODE
from ganeti.system.daemonize import DaemonRefused
from ganeti.system.environment import Environment
from ganeti.system.ssconf import ssconf


def check_node(environment: Environment, *, by_ssconf: bool = True) -> None:
    """Refuse to run where there is no cluster, or on a node that is not its master (exit statuses of 3.1).

    A new master is not in ssconf yet when its daemons are started together: *by_ssconf* is False then.
    """
    paths = environment.paths
    if not os.path.exists(paths.config_file) and not os.path.exists(paths.config_database):
        raise DaemonRefused("this machine is in no cluster: create one with gnt-cluster init", EXIT_NO_CLUSTER)
    if by_ssconf and os.path.exists(paths.ssconf_file("master_node")) and not is_master(paths, environment.hostname):
        check_named(environment, ssconf(paths, "master_node"))
    for directory, mode in ((paths.socket_dir, SOCKET_DIR_MODE), (paths.livelock_dir, 0o750)):
        if not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, mode)


def check_master(environment: Environment, config: Configuration) -> None:
    """Refuse to serve unless the configuration names this node."""
    check_named(environment, config.node(config.cluster.master_node).name)


def check_named(environment: Environment, master: str) -> None:
    if not environment.is_named(master):
        raise DaemonRefused(why_not_master(environment.paths, environment.hostname, master), EXIT_NOT_MASTER)
