# SPDX-License-Identifier: BSD-2-Clause
"""What a collector of the monitoring is (protocols, 5): declared by `collector`, in its own file in this folder.

Its reports, its switch and interval in the cluster, and its metrics follow from the declaration.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ganeti.model.data_collectors import INTERVAL_US
from ganeti.node.collectors.growth import Window
from ganeti.node.collectors.owners import Owned
from ganeti.node.collectors.probes import Probes
from ganeti.node.hypervisors.interface import Sighting


class Sample(NamedTuple):
    """One line of the page for Prometheus; `Collector.metrics` says what the name means."""

    name: str
    labels: Mapping[str, str]
    value: float


class Setting(NamedTuple):
    """What the cluster wants of one collector."""

    active: bool = True
    interval_us: int = INTERVAL_US


class Settings(NamedTuple):
    """What the cluster wants of its collectors; one that is not named is active."""

    collectors: Mapping[str, Setting] = {}
    diagnose_command: str = ""

    def of(self, name: str) -> Setting:
        return self.collectors.get(name, Setting())


class ConfiguredInstance(NamedTuple):
    """What the configuration says of a primary instance of the node."""

    name: str
    uuid: str
    admin_state: str
    mtime: float | None


class ClusterView(Protocol):
    """What a collector may know of the cluster."""

    @property
    def settings(self) -> Settings: ...

    async def owners(self) -> Owned: ...

    @property
    def wanted(self) -> frozenset[str] | None:
        """Names of the instances that should run here; None while nobody says it."""

    async def instances(self) -> list[ConfiguredInstance] | None:
        """The primary instances of this node; None where nobody says it."""


class Node(Protocol):
    """What a collector may ask about its node."""

    @property
    def name(self) -> str: ...

    @property
    def cluster(self) -> ClusterView: ...

    @property
    def hypervisors(self) -> Sequence[str]:
        """Names of those that this node may have."""

    @property
    def probes(self) -> Probes: ...

    @property
    def key(self) -> Callable[[], bytes]:
        """The cluster's key, which signs reports that MaintD acts on."""

    @property
    def busy(self) -> Window:
        """The processor time that each processor has been busy."""

    @property
    def guests_busy(self) -> Window:
        """The processor time that each guest has used."""

    async def guests(self) -> list[Sighting]: ...

    async def seen_by(self, hypervisor: str) -> Sequence[Sighting]:
        """The guests of a hypervisor (its name)."""

    async def told_by(self, name: str) -> Mapping[str, str]:
        """The states that a hypervisor's guests give of themselves, by name; nothing where they cannot be asked."""

    def note_refusal(self, fault: str) -> None:
        """Count what a diagnose command says that is not passed on; nothing where *fault* is empty."""


def _no_samples(data: Any) -> Iterator[Sample]:
    return iter(())


@dataclass(frozen=True)
class Collector:
    """One collector; *category* None is told as ``default``."""

    name: str
    category: str | None
    kind: int
    """`report.PERFORMANCE` or `report.STATUS`."""
    collect: Callable[[Any], Awaitable[Any]]
    """Gives the data of a report of this `Node`."""
    paced: bool = False
    """It works at its interval, and tells what it has found last; others look when they are asked."""
    hypervisor: str | None = None
    """Active only where the cluster has this hypervisor."""
    beside: Callable[[Any, Any], Mapping[str, Any]] = lambda node, data: {}
    """What stands in the report beside the data."""
    metrics: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Names of its metrics, each with its type and what it means."""
    samples: Callable[[Any], Iterator[Sample]] = _no_samples
    """Makes the metrics of a report's data."""


REGISTRY: dict[str, Collector] = {}
"""All that were imported, by name; those of hypervisors are made by `instances.of_hypervisor`."""

Collect = Callable[[Node], Awaitable[Any]]


def collector(name: str, category: str | None, kind: int, **more: Any) -> Callable[[Collect], Collect]:
    """Declare a collector, which is what the decorated function collects; *more* as in `Collector`."""

    def register(collect: Collect) -> Collect:
        REGISTRY[name] = Collector(name, category, kind, collect, **more)
        return collect

    return register
