# SPDX-License-Identifier: BSD-2-Clause
"""What the watcher does on a node that the cluster has given up: no guest may go on there (protocols, 23).

With ``maintain_node_health`` a node that is marked offline and is alive ends what still runs on it: its instances may
have been started on another node meanwhile. The ConfDs of the candidates say whether it is; where none answers, or the
newest answer is another one, nothing is done.
"""

import logging

import ganeti.node.hypervisors
from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.calls.confd_client import ConfdClient, SilentError
from ganeti.daemons.node_daemon import cluster_key
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.noded.world import RealNodeWorld
from ganeti.system.ssconf import ssconf_words
from ganeti.wire.confd import PORT, Kind, Role

_log = logging.getLogger(__name__)


def is_wanted(paths: Paths) -> bool:
    return ssconf_words(paths, "maintain_node_health") == ["True"]


def ask_role(paths: Paths, node_name: str) -> int | None:
    """What the candidates say this node is (`Role`); None where nobody says it."""
    places = [(address, PORT) for address in ssconf_words(paths, "master_candidates_ips")]
    try:
        client = ConfdClient(places, cluster_key(paths))
        role = client.ask(Kind.NODE_ROLE, node_name, client.deadline_s())
    except (OSError, SilentError, GanetiError) as err:
        _log.warning("no ConfD says whether this node is offline: %s", err)
        return None
    return role if isinstance(role, int) else None


async def end_guests_if_offline(paths: Paths, node_name: str) -> list[str]:
    """End every guest on a node that is offline; gives their names."""
    if ask_role(paths, node_name) != Role.OFFLINE:
        return []
    import_all(ganeti.node.hypervisors)
    world = RealNodeWorld(paths, node_name)
    enabled = ssconf_words(paths, "hypervisor_list")
    ended = []
    for name in (name for name in enabled if name in Hypervisor.registry):
        driver = Hypervisor.registry[name](world)
        try:
            for guest in await driver.list_instances():
                _log.warning("this node is offline, but %s is %s here: ending it", guest.name, guest.state)
                await driver.stop(guest.name, timeout_s=0, force=True)
                ended.append(guest.name)
        except GanetiError as err:
            _log.error("guests of %s are not ended: %s", name, err)
    return ended
