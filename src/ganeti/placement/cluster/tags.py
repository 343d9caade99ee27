# SPDX-License-Identifier: BSD-2-Clause
"""Tags that steer placement, as the cluster's own tags declare them (spec: htools, 2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

EXCLUSION = "htools:iextags:"
LOCATION = "htools:nlocation:"
DESIRED_LOCATION = "htools:desiredlocation:"
MIGRATION = "htools:migration:"
ALLOW_MIGRATION = "htools:allowmigration:"


def _after(prefix: str, tags: Iterable[str]) -> list[str]:
    return [tag[len(prefix) :] for tag in tags if tag.startswith(prefix)]


def _named_after(prefix: str, tags: Iterable[str]) -> tuple[str, ...]:
    """Like `_after`, for what is taken as it stands: every tag starts with nothing, so nothing asks for nothing."""
    return tuple(rest for rest in _after(prefix, tags) if rest)


def _starting(prefixes: Sequence[str], tags: Iterable[str]) -> frozenset[str]:
    return frozenset(tag for tag in tags if any(tag.startswith(prefix) for prefix in prefixes))


@dataclass(frozen=True, slots=True)
class TagRules:
    """Prefixes by which tags of nodes and instances are told apart."""

    exclusion: tuple[str, ...] = ()
    location: tuple[str, ...] = ()
    desired: tuple[str, ...] = ()
    migration: tuple[str, ...] = ()
    allowed: tuple[tuple[str, str], ...] = field(default=())

    def exclusion_of(self, tags: Iterable[str]) -> frozenset[str]:
        """Tags of an instance that two instances of one node must not share."""
        return _starting(self.exclusion, tags)

    def location_of(self, tags: Iterable[str]) -> frozenset[str]:
        """Tags that say where a node stands."""
        return _starting(self.location, tags)

    def desired_of(self, tags: Iterable[str]) -> frozenset[str]:
        """Tags an instance would like its node to have."""
        return _starting(self.desired, tags)

    def migration_of(self, tags: Iterable[str]) -> frozenset[str]:
        """Tags a target must be able to receive."""
        return _starting(self.migration, tags)

    def receivable(self, own: frozenset[str]) -> frozenset[str]:
        """Migration tags a node that has *own* can receive."""
        return own | {source for source, target in self.allowed if target in own}


def read_rules(cluster_tags: Iterable[str], exclusion_prefixes: Iterable[str] = ()) -> TagRules:
    """Find the rules in the tags of the cluster; *exclusion_prefixes* come from the command line."""
    tags = list(cluster_tags)
    allowed = []
    for text in _after(ALLOW_MIGRATION, tags):
        source, separator, target = text.partition("::")
        if separator:
            allowed.append((source, target))
    return TagRules(
        exclusion=_named_after(EXCLUSION, tags) + tuple(f"{prefix}:" for prefix in exclusion_prefixes),
        location=tuple(f"{prefix}:" for prefix in _after(LOCATION, tags)),
        desired=_named_after(DESIRED_LOCATION, tags),
        migration=tuple(f"{prefix}:" for prefix in _after(MIGRATION, tags)),
        allowed=tuple(allowed),
    )
