# SPDX-License-Identifier: BSD-2-Clause
"""What balancing means, in plain Python: moves, what forbids them, which is chosen, when it ends (spec: htools, 4, 5).

Read it after ``definition`` (a node's values, the score) and ``checks`` (what keeps an instance off a node). Nothing is
fast here: a move makes a new picture of the cluster, and its score is computed from nothing. ``balance`` and the kernel
under it are the fast form, and are tested against this module.

An instance of the mirrored template has a primary P and a secondary S, others only a primary. T is the target:

    kind  text        P S become  what happens
    f     f           S P         failover: the two exchange their parts
    fa    fa:T        T           failover to any: shared storage, another node takes it
    frf   f r:T f     T S         replace the primary: S runs it while its disks are made on T
    r     r:T         P T         replace the secondary
    rf    r:T f       T P         replace the secondary, then fail over to the new one
    fr    f r:T       S T         fail over, then replace the old primary, now secondary
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.failure import FailMode, Refusal
from ganeti.placement.cluster.picture import Cluster, Group, Instance, Node
from ganeti.placement.cluster.tags import TagRules, read_rules
from ganeti.placement.definition.checks import refuse_primary, refuse_secondary
from ganeti.placement.definition.score import NO_LOAD, NodeView, disk_floor_mib, load_changed, score, uses_node_disk

NOWHERE = -1

# The picture of the cluster


@dataclass(frozen=True)
class PlainCluster:
    """Who is where, and what each node looks like because of it.

    Nodes and instances are numbered in the order of the input. *places* has (primary, secondary) of each instance.
    A picture never changes; `moved` makes another.
    """

    views: tuple[NodeView, ...]
    instances: tuple[Instance, ...]
    places: tuple[tuple[int, int], ...]

    def moved(self, number: int, primary: int, secondary: int = NOWHERE) -> "PlainCluster":
        """The cluster with instance *number* on these nodes instead; nothing is checked."""
        instance, (old_primary, old_secondary) = self.instances[number], self.places[number]
        views = list(self.views)
        if old_primary != NOWHERE:
            views[old_primary] = _without_primary(views[old_primary], instance)
        if old_secondary != NOWHERE:
            views[old_secondary] = _without_secondary(views[old_secondary], instance)
        if primary != NOWHERE:
            mirror = views[secondary].node if secondary != NOWHERE else None
            views[primary] = _with_primary(views[primary], instance, mirror)
        if secondary != NOWHERE:
            views[secondary] = _with_secondary(views[secondary], instance, primary)
        places = (*self.places[:number], (primary, secondary), *self.places[number + 1 :])
        return PlainCluster(tuple(views), self.instances, places)

    def offline(self, node: int) -> bool:
        """Whether *node* is offline, drained, or not meant for instances."""
        return bool(self.views[node].node.unavailable)

    def score(self, members: Sequence[int]) -> float:
        """The score of the nodes *members*: lower is better."""
        return score([self.views[node] for node in members])


def _without_primary(view: NodeView, instance: Instance) -> NodeView:
    at = [primary.name for primary in view.primaries].index(instance.name)
    return replace(
        _with_disks_changed(view, instance, 1),
        forthcoming_free_memory_mib=view.forthcoming_free_memory_mib + instance.memory_mib,
        primaries=[*view.primaries[:at], *view.primaries[at + 1 :]],
        primary_location_tags=[*view.primary_location_tags[:at], *view.primary_location_tags[at + 1 :]],
        running_load=load_changed(view.load(), instance, -1),
        judged_failing=_judged(view, instance),
    )


def _with_primary(view: NodeView, instance: Instance, mirror: Node | None) -> NodeView:
    """*mirror* is the secondary node of *instance*. Lists are kept newest first."""
    mirror_tags = view.rules.location_of(mirror.tags) if mirror else frozenset()
    return replace(
        _with_disks_changed(view, instance, -1),
        forthcoming_free_memory_mib=view.forthcoming_free_memory_mib - instance.memory_mib,
        primaries=[instance, *view.primaries],
        primary_location_tags=[mirror_tags, *view.primary_location_tags],
        running_load=load_changed(view.load(), instance, 1),
        judged_failing=_judged(view, instance),
    )


def _without_secondary(view: NodeView, instance: Instance) -> NodeView:
    return replace(
        _with_disks_changed(view, instance, 1),
        secondaries=[(other, primary) for other, primary in view.secondaries if other.name != instance.name],
        running_load=load_changed(view.load(), instance, -1, secondary=True),
        judged_failing=_judged(view, instance),
    )


def _with_secondary(view: NodeView, instance: Instance, primary: int) -> NodeView:
    return replace(
        _with_disks_changed(view, instance, -1),
        secondaries=[(instance, primary), *view.secondaries],
        running_load=load_changed(view.load(), instance, 1, secondary=True),
        judged_failing=_judged(view, instance),
    )


def _judged(view: NodeView, instance: Instance) -> bool | None:
    """A real instance that comes or goes has N+1 judged anew; a forthcoming one changes nothing there is."""
    return view.judged_failing if instance.forthcoming else None


def _with_disks_changed(view: NodeView, instance: Instance, sign: int) -> NodeView:
    """Free space after the disks of *instance* came (-1) or went (1); those of a forthcoming one are not made yet."""
    if instance.forthcoming:
        return view
    size_mib = instance.disk_mib if uses_node_disk(instance) else 0
    return replace(
        view,
        free_disk_mib=view.free_disk_mib + sign * size_mib,
        free_spindles=_spindles_changed(view, instance, sign),
    )


def _spindles_changed(view: NodeView, instance: Instance, sign: int) -> int:
    """On exclusive storage spindles are counted whatever the template, though only disks on the node are checked.

    What comes without naming its spindles leaves "less than none"; when it goes, nobody knows what it gives back.
    """
    if not view.node.exclusive_storage:
        return view.free_spindles
    if instance.total_spindles is None:
        return -1 if sign < 0 else view.free_spindles
    return view.free_spindles + sign * instance.total_spindles


def read_plain(
    cluster: Cluster,
    *,
    exclusion_prefixes: Iterable[str] = (),
    min_disk_ratio: float = 0.0,
    max_cpu_ratio: float | None = None,
    n1_by_report: bool = True,
) -> PlainCluster:
    """Make the picture of *cluster*; the other arguments are those of the command line.

    *n1_by_report*: until something changes on a node, what it reported as free says whether it fails N+1.

    Raises `KeyError` for a node or group that does not exist.
    """
    groups = {group.uuid: group for group in cluster.groups}
    number_of = {"": NOWHERE} | {node.name: number for number, node in enumerate(cluster.nodes)}
    rules = read_rules(cluster.tags, exclusion_prefixes)
    views = tuple(_empty_view(node, groups[node.group], rules, min_disk_ratio, max_cpu_ratio) for node in cluster.nodes)
    places = tuple((number_of[instance.primary], number_of[instance.secondary]) for instance in cluster.instances)
    filled = PlainCluster(views, tuple(cluster.instances), ((NOWHERE, NOWHERE),) * len(places))
    for number, (primary, secondary) in enumerate(places):
        filled = filled.moved(number, primary, secondary)
    loaded = tuple(_as_reported(view, n1_by_report) for view in filled.views)
    return PlainCluster(loaded, filled.instances, filled.places)


def _empty_view(node: Node, group: Group, rules: TagRules, min_disk_ratio: float, max_cpu: float | None) -> NodeView:
    return NodeView(
        node=node,
        vcpu_ratio=group.policy.vcpu_ratio if max_cpu is None else max_cpu,
        spindle_ratio=group.policy.spindle_ratio,
        low_disk_mib=disk_floor_mib(min_disk_ratio, node.total_disk_mib),
        extra_memory_mib=0,
        free_disk_mib=node.free_disk_mib,
        free_spindles=node.free_spindles,
        forthcoming_free_memory_mib=node.free_memory_mib,
        primaries=(),
        secondaries=(),
        primary_location_tags=(),
        rules=rules,
        running_load=NO_LOAD,
    )


def _as_reported(view: NodeView, n1_by_report: bool) -> NodeView:
    """What the node reports as free holds already what is on it; memory that nobody accounts for stays taken.

    An instance that is down is missing in the report: it may be started at any time, so its memory is promised.
    """
    measured, load = view.node.cpu_load, view.load()
    down_mib = sum(instance.memory_mib for instance in view.primaries if not instance.uses_memory)
    return replace(
        view,
        extra_memory_mib=view.recorded_free_mib - view.node.free_memory_mib,
        free_disk_mib=view.node.free_disk_mib,
        free_spindles=view.node.free_spindles,
        forthcoming_free_memory_mib=view.node.free_memory_mib - down_mib,
        judged_failing=view.node.free_memory_mib < view.reserved_memory_mib if n1_by_report else None,
        running_load=load if measured is None else (measured, *load[1:]),
    )


# The moves


@dataclass(frozen=True)
class Move:
    """What is done with one instance; *target* is NOWHERE where the kind has none."""

    kind: str
    target: int = NOWHERE


def after_move(cluster: PlainCluster, number: int, move: Move, *, forced: bool = False) -> PlainCluster | Refusal:
    """The cluster after *move* of instance *number*, or what forbids it; *forced* ignores soft limits.

    An instance that leaves an offline node is forced as well: anything is better than where it is. Each check looks at
    nodes from which the instance has been taken away.
    """
    instance, (primary, secondary), target = cluster.instances[number], cluster.places[number], move.target
    views = cluster.moved(number, NOWHERE).views
    from_dead_primary = forced or cluster.offline(primary)
    from_dead_secondary = forced or (secondary != NOWHERE and cluster.offline(secondary))
    refusals: list[Refusal | None]
    if move.kind == "f":
        result = (secondary, primary)
        refusals = [
            refuse_migration(views, primary, secondary),
            refuse_primary(views[secondary], instance, forced=from_dead_primary),
            refuse_secondary(
                views[primary],
                instance,
                secondary,
                forced=from_dead_primary,
                ignore_disk=cluster.offline(primary),
            ),
        ]
    elif move.kind == "fa":
        result = (target, NOWHERE)
        refusals = [
            refuse_migration(views, primary, target),
            refuse_primary(views[target], instance, forced=from_dead_primary),
        ]
    elif move.kind == "frf":
        result = (target, secondary)
        refusals = [
            refuse_migration(views, primary, secondary),
            refuse_migration(views, secondary, target),
            refuse_primary(views[secondary], instance, forced=from_dead_primary),
            refuse_primary(views[target], instance, forced=from_dead_primary),
            refuse_secondary(views[secondary], instance, target, forced=from_dead_primary),
        ]
    elif move.kind == "r":
        result = (primary, target)
        refusals = [
            refuse_secondary(views[target], instance, primary, forced=from_dead_secondary),
            refuse_primary(views[primary], instance, forced=True),
        ]
    elif move.kind == "rf":
        result = (target, primary)
        refusals = [
            refuse_migration(views, primary, target),
            refuse_primary(views[target], instance, forced=forced),
            refuse_secondary(views[primary], instance, target, forced=from_dead_secondary),
        ]
    else:
        result = (secondary, target)
        refusals = [
            refuse_migration(views, primary, secondary),
            refuse_primary(views[secondary], instance, forced=from_dead_primary),
            refuse_secondary(views[target], instance, secondary, forced=from_dead_primary),
        ]
    first = next((refusal for refusal in refusals if refusal is not None), None)
    return first or cluster.moved(number, *result)


def refuse_migration(views: Sequence[NodeView], source: int, target: int) -> Refusal | None:
    """Why migration tags forbid that an instance goes from *source* to *target*; never waived."""
    rules = views[source].rules
    own = rules.migration_of(views[source].node.tags)
    lacking = own - rules.receivable(rules.migration_of(views[target].node.tags))
    if not lacking:
        return None
    return Refusal(FailMode.FailMig, f"receives nothing from a node tagged {min(lacking)}")


# The choice


@dataclass(frozen=True)
class Wishes:
    """What the command line says about balancing; names and defaults are those of ``BalanceOptions``."""

    disk_moves: bool = True
    instance_moves: bool = True
    evacuation: bool = False
    restricted_migration: bool = False
    ignore_soft_errors: bool = False
    min_gain: float = 0.01
    min_gain_limit: float = 0.1
    min_score: float = 1e-9
    max_length: int = -1


def candidates(cluster: PlainCluster, number: int, members: Sequence[int], wishes: Wishes) -> Iterator[Move]:
    """Every move that is tried for one instance, in the order in which they are tried.

    *members* are the nodes of its group, ascending.
    """
    traits = traits_of(cluster.instances[number].template)
    if traits is None or not traits.movable:
        return
    primary, secondary = cluster.places[number]
    targets = [node for node in members if not cluster.offline(node) and node not in (primary, secondary)]
    if not traits.has_secondary:
        if wishes.instance_moves:
            yield from (Move("fa", target) for target in targets)
        return
    use_secondary = wishes.instance_moves and not cluster.offline(secondary)
    if use_secondary:
        yield Move("f")
    if wishes.disk_moves:
        kinds = _kinds_with_target(wishes, cluster.offline(primary), use_secondary)
        yield from (Move(kind, target) for target in targets for kind in kinds)


def _kinds_with_target(wishes: Wishes, primary_offline: bool, use_secondary: bool) -> tuple[str, ...]:
    if not wishes.instance_moves or (wishes.restricted_migration and not primary_offline):
        return ("r",)
    if not use_secondary:
        return ("r", "rf")
    if wishes.restricted_migration:
        return ("r", "rf", "fr")
    return ("r", "rf", "frf", "fr")


@dataclass(frozen=True)
class PlainStep:
    """One step of a plan: *move* of *instance*, what the cluster is after it, and its score."""

    instance: int
    move: Move
    cluster: PlainCluster
    score: float


def best_step(
    cluster: PlainCluster, members: Sequence[int], movable: Sequence[bool], wishes: Wishes
) -> PlainStep | None:
    """The move after which the score is lowest, the first of equals, or None if none lowers it.

    Candidates are those of the instances in order. Only what may be moved and wants to be balanced is moved; with
    *evacuation* only what has a node that is offline.
    """
    best, lowest = None, cluster.score(members)
    for number, instance in enumerate(cluster.instances):
        places = [node for node in cluster.places[number] if node != NOWHERE]
        if not movable[number] or not instance.auto_balance or not set(places) <= set(members):
            continue
        if wishes.evacuation and not any(cluster.offline(node) for node in places):
            continue
        for move in candidates(cluster, number, members, wishes):
            after = after_move(cluster, number, move, forced=wishes.ignore_soft_errors)
            if isinstance(after, Refusal):
                continue
            found = after.score(members)
            if found < lowest:
                best, lowest = PlainStep(number, move, after, found), found
    return best


def plan(cluster: PlainCluster, members: Sequence[int], movable: Sequence[bool], wishes: Wishes) -> Iterator[PlainStep]:
    """The steps of hbal: the best one at a time, until it gains too little (spec: htools, 5).

    A gain below *min_gain* is taken only as long as the score is above *min_gain_limit*.
    """
    before, done = cluster.score(members), 0
    while done != wishes.max_length and not before <= optimal_score(cluster, members) + wishes.min_score:
        step = best_step(cluster, members, movable, wishes)
        if step is None:
            return
        if not (before > wishes.min_gain_limit or before - step.score >= wishes.min_gain):
            return
        yield step
        cluster, before, done = step.cluster, step.score, done + 1


def optimal_score(cluster: PlainCluster, members: Sequence[int]) -> float:
    """A score no plan can get below: memory must be kept free for the failure of any node (spec: htools, 3).

    At best all that must be kept, *reserved*, is spread evenly, over all nodes but the biggest.
    """
    if len(members) <= 1:
        return 0.0
    reserved, total, biggest = 0, 0.0, 0.0
    for node in members:
        view = cluster.views[node]
        reserved += sum(view.peers.values())
        total += view.node.total_memory_mib
        biggest = max(biggest, view.node.total_memory_mib)
    if total - biggest <= 0:
        return 0.0
    return 0.25 * (reserved / (total - biggest) - reserved / total)
