# SPDX-License-Identifier: BSD-2-Clause
"""Ending guests whose disks another node has taken (docs/design/0093-a-node-ends-what-it-has-lost.md).

A node that counts as dead may be alive: its instances are started elsewhere, and its guests must not write any more.
The node finds that out by itself, from what lies beside the disks, whether or not anybody reaches it; of mirrored
disks, as soon as it reaches the other node again; of disks that a cluster keeps, as soon as that answers.
"""

import logging
import math
from collections.abc import Callable, Collection

from ganeti.base.errors import UNREADABLE_JSON, GanetiError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.node.state import NodeState
from ganeti.node.storage.held_images import LostImages, look
from ganeti.node.storage.interface import Supersedes
from ganeti.system.ssconf import ssconf_words

IDLE_S = 5.0
"""From one look to the next while nothing is in use that could be lost."""
_LOOKS = 4
"""Within the time a guest has. It is ended when it was found twice: in between, a migration's end may come."""
_NO_WRITER = ("incoming", "postmigrate")
_log = logging.getLogger(__name__)


class LostGuests:
    """Looks again and again, from `run`; *tell* hears the name of each instance that it ends, and why.

    What lies in files is looked at together. A template that must ask a cluster has looks of its own (*template*),
    since a cluster may keep it waiting.
    """

    def __init__(self, state: NodeState, tell: Callable[[str, str], None], template: Supersedes | None = None) -> None:
        self._state = state
        self._tell = tell
        self.template = template
        self._seen: set[str] = set()

    @classmethod
    def all(cls, state: NodeState, tell: Callable[[str, str], None]) -> "list[LostGuests]":
        return [cls(state, tell), *(cls(state, tell, each) for each in _superseding(state) if each.asks_a_cluster)]

    async def run(self) -> None:
        while True:
            await self._state.world.sleep(await self.look())

    async def look(self) -> float:
        """One look; gives the seconds until the next. Raises nothing: what fails is in the log."""
        lost, limit_s = await self._lost()
        again = self._seen & set(lost)
        self._seen = set(lost)
        if again:
            await self._end(again)
        if self.template is not None and limit_s < math.inf:
            return limit_s / _LOOKS
        return min(limit_s / _LOOKS, IDLE_S)

    async def _lost(self) -> tuple[dict[str, str], float]:
        """Why, by the instance whose disks another node has, and the shortest time that a guest has."""
        if self.template is not None:
            found = await _superseded([self.template])
        else:
            quick = [template for template in _superseding(self._state) if not template.asks_a_cluster]
            found = [await look(self._state.world), *await _superseded(quick)]
        lost = {image.owner: image.why for each in found for image in each.images}
        return lost, min((each.limit_s for each in found), default=math.inf)

    async def _end(self, names: Collection[str]) -> None:
        """A guest that arrived meanwhile has its disks by the time that it is listed, so these are looked at after."""
        for hypervisor in enabled_hypervisors(self._state):
            try:
                guests = await hypervisor.list_instances()
            except GanetiError as err:
                _log.error("guests of %s that have lost their disks are not ended: %s", hypervisor.traits.name, err)
                continue
            writers = [guest.name for guest in guests if guest.name in names and guest.state not in _NO_WRITER]
            lost = (await self._lost())[0] if writers else {}
            for name in filter(lost.__contains__, writers):
                await self._end_one(hypervisor, name, lost[name])

    async def _end_one(self, hypervisor: Hypervisor, name: str, why: str) -> None:
        try:
            await hypervisor.stop(name, timeout_s=0, force=True, may_write=False)
        except GanetiError as err:
            _log.error("instance %s has lost its disks (%s), but cannot be ended here: %s", name, why, err)
            return
        _log.warning("instance %s is ended on this node: %s", name, why)
        self._tell(name, f"guest ended on this node: {why}")


async def _superseded(templates: Collection[Supersedes]) -> list[LostImages]:
    """Disks whose template has learned from another node that this one is primary no more."""
    lost: list[LostImages] = []
    for template in templates:
        try:
            lost.append(await template.lost())
        except (OSError, *UNREADABLE_JSON) as err:
            _log.warning("lost disks of %s cannot be looked for: %s", template.traits.name, err)
    return lost


def _superseding(state: NodeState) -> list[Supersedes]:
    return [template for template in state.templates() if isinstance(template, Supersedes)]


def enabled_hypervisors(state: NodeState) -> list[Hypervisor]:
    """The drivers of those that the cluster uses, as ssconf says."""
    return [state.hypervisor(name) for name in _hypervisor_names(state.paths)]


def _hypervisor_names(paths: Paths) -> list[str]:
    words = ssconf_words(paths, "hypervisor_list")
    return [name for name in words if name in Hypervisor.registry]
