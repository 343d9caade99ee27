# SPDX-License-Identifier: BSD-2-Clause
"""What the groups' policies say of instances whose disks die with their node, which global N+1 would make anew.

Instances of one shape are asked about once; most clusters have few shapes, or no such instance at all.
"""

from array import array
from weakref import WeakKeyDictionary

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.cluster.policy import refusal_by_policy
from ganeti.placement.kernel.state import ClusterState

NO_SHAPE = -1
_Shape = tuple[object, ...]


class LostPolicies:
    """*shape_of* has a number for each instance, `NO_SHAPE` for those that outlive their node; *refusals* has a failure
    mode (or 0) by shape, group, and whether storage is exclusive."""

    def __init__(self) -> None:
        self.shape_of = array("i")
        self.refusals = bytearray()
        self._shapes: dict[_Shape, int] = {}
        self._is_lost: dict[str, bool] = {}
        self._renewals = 0
        """How many of the state's renewals are in it."""

    def follow(self, state: ClusterState) -> bool:
        """Take in what was added and rolled back since; gives whether there is any such instance."""
        instances = state.instances
        del self.shape_of[state.fewest_instances :]
        state.fewest_instances = len(instances)
        for number in state.renewed[self._renewals :]:
            if number < len(self.shape_of):
                self.shape_of[number] = self._shape(state, instances[number])
        self._renewals = len(state.renewed)
        for number in range(len(self.shape_of), len(instances)):
            self.shape_of.append(self._shape(state, instances[number]))
        return bool(self._shapes)

    def _shape(self, state: ClusterState, instance: Instance) -> int:
        template = instance.template
        if template not in self._is_lost:
            traits = traits_of(template)
            self._is_lost[template] = traits is None or not (traits.has_secondary or traits.evacuable)
        if not self._is_lost[template]:
            return NO_SHAPE
        shape = _shape(instance)
        if shape not in self._shapes:
            self._shapes[shape] = len(self._shapes)
            self.refusals.extend(_codes(state, instance))
        return self._shapes[shape]


_known: WeakKeyDictionary[ClusterState, LostPolicies] = WeakKeyDictionary()


def lost_policies(state: ClusterState) -> LostPolicies | None:
    """Give the policies about the instances of *state* as they are now, or None if no instance is concerned."""
    found = _known.get(state)
    if found is None:
        found = _known[state] = LostPolicies()
    return found if found.follow(state) else None


_asked: WeakKeyDictionary[ClusterState, tuple[_Shape, bytes]] = WeakKeyDictionary()
"""The last answer: an allocation asks about the same instance for each group."""


def _shape(instance: Instance) -> _Shape:
    """All that a policy looks at."""
    return instance.template, instance.memory_mib, instance.vcpus, instance.spindle_use, instance.disks


def policy_codes(state: ClusterState, instance: Instance) -> bytes:
    """For each group, without and with exclusive storage: the failure mode of its policy, 0 where it admits."""
    shape, known = _shape(instance), _asked.get(state)
    if known is None or known[0] != shape:
        known = _asked[state] = shape, _codes(state, instance)
    return known[1]


def _codes(state: ClusterState, instance: Instance) -> bytes:
    refusals = (
        refusal_by_policy(group.policy, instance, exclusive) for group in state.groups for exclusive in (False, True)
    )
    return bytes(refusal.mode if refusal else 0 for refusal in refusals)
