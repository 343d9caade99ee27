# SPDX-License-Identifier: BSD-2-Clause
"""A whole cluster the way 3.1 dumps it, with every value it keeps of a node: for ``hail -v -v``."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ganeti.master.maintenance import repair_tags
from ganeti.placement.cluster.picture import Status
from ganeti.placement.definition.score import (
    METRICS,
    NO_LOAD,
    Load,
    NodeView,
    load_changed,
    metrics_of,
    ratio,
    whole_mib,
    wrapped,
)
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.tools.htools.haskell.figures import shown
from ganeti.tools.htools.haskell.quoting import quote, quoted
from ganeti.tools.htools.printing.opening import policy_record
from ganeti.tools.htools.printing.peer_maps import PeerMaps
from ganeti.tools.htools.printing.request_record import Numbered, group_record, instance_record, load_record, record

if TYPE_CHECKING:
    from ganeti.tools.htools.loading.sources import Loaded

_HYPERVISORS = {
    "kvm": "Kvm",
    "xen-pvm": "XenPvm",
    "chroot": "Chroot",
    "xen-hvm": "XenHvm",
    "lxc": "Lxc",
    "fake": "Fake",
}
_STATUSES = {
    Status.ADMIN_DOWN: "StatusDown",
    Status.ADMIN_OFFLINE: "StatusOffline",
    Status.ERROR_DOWN: "ErrorDown",
    Status.ERROR_UP: "ErrorUp",
    Status.ERROR_NODE_DOWN: "NodeDown",
    Status.ERROR_NODE_OFFLINE: "NodeOffline",
    Status.RUNNING: "Running",
    Status.USER_DOWN: "UserDown",
    Status.ERROR_WRONG_NODE: "WrongNode",
}
_REPAIRS = {
    repair_tags.FIX_STORAGE: "ArFixStorage",
    repair_tags.MIGRATE: "ArMigrate",
    repair_tags.FAILOVER: "ArFailover",
    repair_tags.REINSTALL: "ArReinstall",
}
_ALL_OF_IT = (1.0, 1.0, 1.0, 1.0)


class ClusterRecord:
    """Dumps one cluster.

    *message* is what it was read from: of that the network cards and the hypervisor, which placement does not know;
    empty for a cluster from elsewhere.
    """

    def __init__(self, loaded: "Loaded", message: Mapping[str, Any]) -> None:
        self._loaded, self._message, self._first = loaded, message, loaded.options.first_number
        self._state: ClusterState = loaded.state()
        self._peers = PeerMaps(self._state)
        self._now_s = time.time()
        enabled = message.get("enabled_hypervisors") or [""]
        self._hypervisor = f"Just {_HYPERVISORS[enabled[0]]}" if enabled[0] in _HYPERVISORS else "Nothing"

    def text(self) -> str:
        cluster = self._loaded.cluster
        nodes = [self._node(number) for number in self._state.everyone()]
        instances = [self._instance(number) for number in range(len(self._state.instances))]
        groups = [group_record(self._first + number, group) for number, group in enumerate(cluster.groups)]
        return record(
            "ClusterData",
            cdGroups=_numbered(groups, self._first),
            cdNodes=_numbered(nodes, self._first),
            cdInstances=_numbered(instances, 0),
            cdTags=quoted(cluster.tags),
            cdIPolicy=policy_record(cluster.policy),
        )

    def _instance(self, number: int) -> str:
        instance = self._state.instances[number]
        data = self._message.get("instances", {}).get(instance.name, {})
        places = [self._state.primary_of[number], self._state.secondary_of[number]]
        return instance_record(
            instance,
            Numbered(number, *(place + self._first if place >= 0 else place for place in places)),
            self._state.rules,
            alias=self._loaded.alias_of(instance.name),
            status=_STATUSES[instance.status],
            movable=self._loaded.movable[number],
            location_score=self._common_locations(number),
            repairs=self._repairs(number),
            cards=data.get("nics") or (),
        )

    def _repairs(self, number: int) -> str:
        instance, cluster = self._state.instances[number], self._loaded.cluster
        group_tags = self._state.group_of_instance(number).tags if instance.primary else ()
        found = repair_tags.policy((instance.tags, group_tags, cluster.tags), self._now_s)
        return f"ArEnabled {_REPAIRS[found.allowed]}" if found.allowed else found.reason

    def _common_locations(self, number: int) -> int:
        """How many location tags the two nodes of an instance share."""
        state, both = self._state, (self._state.primary_of[number], self._state.secondary_of[number])
        if NOWHERE in both:
            return 0
        own, partner = (state.rules.location_of(state.nodes[node].tags) for node in both)
        return len(own & partner)

    def _node(self, number: int) -> str:
        view, state = self._state.view(number), self._state
        node, metrics = view.node, dict(zip(METRICS, metrics_of(view), strict=True))
        return record(
            "Node",
            name=quote(node.name),
            alias=quote(self._loaded.alias_of(node.name)),
            **_memory(view),
            **_disk_and_processors(view),
            **self._lists(number),
            idx=self._first + number,
            peers=f"[{','.join(f'({self._first + peer},{mib})' for peer, mib in self._peers.of(number))}]",
            failN1=view.fails_n1,
            failN1Forth=True,
            rMem=view.reserved_memory_mib,
            rMemForth=0,
            **_shares(view, metrics),
            hiCpu=_floor(view.vcpu_ratio * node.total_cpus),
            hiSpindles=shown(float(view.high_spindles)),
            instSpindles=shown(float(view.instance_spindles())),
            instSpindlesForth=shown(float(view.instance_spindles(forthcoming=True))),
            offline=bool(node.unavailable),
            isMaster=node.name in self._loaded.masters,
            nTags=quoted(node.tags),
            utilPool=load_record(_ALL_OF_IT),
            utilLoad=load_record(view.load()),
            utilLoadForth=load_record(_load_to_come(view)),
            pTags=f"fromList [{','.join(f'({quote(t)},{n})' for t, n in sorted(view.exclusion_counts.items()))}]",
            group=self._first + state.group_of[number],
            iPolicy=policy_record(state.groups[state.group_of[number]].policy),
            exclStorage=node.exclusive_storage,
            **_tags(view),
            hypervisor=self._hypervisor,
        )

    def _lists(self, number: int) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, secondary in (("pList", False), ("sList", True)):
            everyone = self._state.listed(number, secondary=secondary)
            real = [one for one in everyone if not self._state.instances[one].forthcoming]
            found |= {key: _list(real), f"{key}Forth": _list(everyone)}
        return found


def _numbered(records: Sequence[str], first: int) -> str:
    return f"fromList [{','.join(f'({number},{text})' for number, text in enumerate(records, first))}]"


def _list(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _memory(view: NodeView) -> dict[str, object]:
    node = view.node
    return {
        "tMem": shown(node.total_memory_mib),
        "nMem": node.node_memory_mib,
        "iMem": wrapped(view.used_memory_mib),
        "fMem": node.free_memory_mib,
        "fMemForth": view.forthcoming_free_memory_mib,
        "xMem": view.extra_memory_mib,
    }


def _load_to_come(view: NodeView) -> Load:
    """The load with what is forthcoming."""
    if not _awaits_any(view):
        return view.load()
    load = NO_LOAD
    for instance in reversed(view.primaries):
        load = load_changed(load, replace(instance, forthcoming=False), 1)
    for instance, _ in reversed(view.secondaries):
        load = load_changed(load, replace(instance, forthcoming=False), 1, secondary=True)
    return load


def _awaits_any(view: NodeView) -> bool:
    """Whether an instance is to come to the node that is not there yet."""
    return any(one.forthcoming for one in (*view.primaries, *(instance for instance, _ in view.secondaries)))


def _disk_and_processors(view: NodeView) -> dict[str, object]:
    node, awaits_any = view.node, _awaits_any(view)
    return {
        "tDsk": shown(node.total_disk_mib),
        "fDsk": view.free_disk_mib,
        "fDskForth": view.forthcoming_free_disk_mib,
        "tCpu": shown(node.total_cpus),
        "tCpuSpeed": shown(node.cpu_speed),
        "nCpu": node.node_cpus,
        "uCpu": view.used_cpus(),
        "uCpuForth": view.used_cpus(forthcoming=True),
        "tSpindles": node.spindles,
        "fSpindles": view.free_spindles,
        "fSpindlesForth": 0 if awaits_any and not node.exclusive_storage else view.forthcoming_free_spindles,
    }


def _floor(value: float) -> int:
    """The whole number below *value*, in 64 bits as 3.1 has it."""
    whole = whole_mib(value)
    return wrapped(whole - 1) if value < whole else whole


def _shares(view: NodeView, metrics: Mapping[str, float]) -> dict[str, object]:
    node = view.node
    return {
        "pMem": shown(metrics["free_memory"]),
        "pMemForth": shown(metrics["free_memory_forthcoming"]),
        "pDsk": shown(metrics["free_disk"]),
        "pDskForth": shown(metrics["free_disk_forthcoming"]),
        "pRem": shown(metrics["reserved_memory"]),
        "pRemForth": shown(0.0),
        "pCpu": shown(ratio(view.used_cpus(), node.total_cpus)),
        "pCpuForth": shown(ratio(view.used_cpus(forthcoming=True), node.total_cpus)),
        "mDsk": shown(0.0),
        "loDsk": view.low_disk_mib,
    }


def _tags(view: NodeView) -> dict[str, object]:
    rules, own = view.rules, view.node.tags
    migration = rules.migration_of(own)
    counts = ",".join(
        f"(({quote(place)},{quote(tag)}),{count})" for (place, tag), count in sorted(view.location_counts.items())
    )
    return {
        "migTags": _set(migration),
        "rmigTags": _set(rules.receivable(migration)),
        "locationTags": _set(rules.location_of(own)),
        "locationScore": view.location_score,
        "instanceMap": f"fromList [{counts}]",
    }


def _set(tags: frozenset[str]) -> str:
    return f"fromList {quoted(sorted(tags))}"
