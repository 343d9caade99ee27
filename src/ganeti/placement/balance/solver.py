# SPDX-License-Identifier: BSD-2-Clause
"""A plan that ends as well balanced as the default's with fewer or cheaper moves.

The default takes the best single move again and again. Here its end is the goal and its plan the first answer; then
only where each instance ends counts. A plan is the set of instances that end elsewhere, each brought there by the
fewest hops (``routes``). It is made anew taking moves by what they gain less what they cost; then some moves that are
near each other are undone and others made in their place, again and again, which is kept where the sum of score and
weighted cost falls. The weight rises while the goal is met and falls while it is not. What meets the goal, is cheaper
than the best so far and can be put into an order in which every step is legal, is the best so far.

Bounded by counted work instead of a clock, so that the same cluster always gives the same plan.
"""

import bisect
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ganeti.placement.balance.plan_price import price_of_hop, total_price
from ganeti.placement.balance.routes import Hop, Places, Routes
from ganeti.placement.balance.steps import BalanceOptions, Step, balance, best_step
from ganeti.placement.kernel.state import ClusterState

MOVE_MIB = 1024
"""What a move costs beside the data it sends, in MiB that could be sent instead: locks, jobs, attention."""
WORK = 1_200_000_000
"""When to end: what searches look at, in steps of about 20 ns. A search for the best move looks at instances and nodes,
and twice at every pair of an instance that may move and a node."""
_NODE_WORK, _PAIR_WORK = 20, 2
_SHARE_OF_A_START = 3
"""The first plan of its own may take this part of all work; where it would take more, the default's is improved."""
_FIRST_WEIGHT = 0.1
"""Weight of the cost at first, as a share of what the default gains for its price."""
_STRICTER, _LAXER = 1.03, 0.97
_PATIENCE = 200, 6
"""Rounds without a better plan after which the search ends, and how many more for each move."""
_CLASSES = 5
"""Instances are searched by classes of about the same price, because a search knows only the score."""
_MOST_UNDONE = 5
_ORDERED_BY_SCORE = 400
"""Plans up to this length have their steps put into the order in which the score falls fastest."""
_ROUNDING = 1e-9

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """Legal *steps* one after the other, ending at *score*; *cost* is in MiB, with `MOVE_MIB` for each step."""

    steps: tuple[Step, ...]
    score: float
    cost: int

    def carry_out(self, state: ClusterState) -> Iterator[Step]:
        """Make each step in *state*, and give it."""
        for step in self.steps:
            state.move(step.instance, *step.after)
            yield step


class Solver:
    """The search for one group; `best` is at any time the best plan so far.

    *fresh* makes a state of the cluster. *tell* is called now and then with words about progress.
    """

    def __init__(
        self,
        fresh: Callable[[], ClusterState],
        members: Sequence[int],
        movable: Sequence[bool],
        options: BalanceOptions,
        *,
        work: int = WORK,
        tell: Tell | None = None,
    ) -> None:
        self._state = state = fresh()
        self._true = fresh()
        """As it was read but for plans that are made in it and undone: what was moved back is not quite the same."""
        self._members, self._movable, self._options = list(members), movable, options
        self._initial = list(zip(state.primary_of, state.secondary_of, strict=True))
        self._routes = Routes(self._true, members, options)
        self._work = self._most_work = work
        self._tell = tell or (lambda words: None)
        self._turn: dict[int, int] = {}
        self._moved: dict[int, int] = {}
        """What each instance that is not where it was costs."""
        self._weight = 0.0
        self._dice = 1
        self._classes: list[bytes] = []
        self._able = bytes(movable)
        self._cheap = replace(options, disk_moves=False)
        self.interrupted = False
        self.first = self.best = Plan((), state.score(self._members), 0)

    def solve(self) -> Plan:
        """Search to the end."""
        self._take_default()
        self._turn = {step.instance: turn for turn, step in reversed(list(enumerate(self.first.steps)))}
        if self.first.steps and self.first.cost:
            self._classes = self._classes_by_price()
            self._read_moved()
            self._keep()
            start = self.first if self.best is self.first else self.best
            before = self._true.score(self._members)
            self._weight = _FIRST_WEIGHT * max(before - start.score, 0.0) / self.first.cost
            everything = 2 * _PAIR_WORK * len(self._initial) * len(self._members)
            if everything * len(self.first.steps) * _SHARE_OF_A_START < self._work:
                self._begin_anew()
            self._rounds()
            self._order_by_score()
        return self.best

    # the default's plan

    def _take_default(self) -> None:
        steps: list[Step] = []
        for step in balance(self._state, self._members, self._movable, self._options):
            steps.append(step)
            self._set_first(steps)
            self._moved[step.instance] = 0
            self._tell(f"{len(steps)} moves of the default plan, score {step.score:.8f}")

    def _set_first(self, steps: list[Step]) -> None:
        cost = total_price(self._true, steps).total_mib + MOVE_MIB * len(steps)
        self.first = self.best = Plan(tuple(steps), steps[-1].score, cost)

    # the search

    def _place(self, number: int) -> Places:
        return self._state.primary_of[number], self._state.secondary_of[number]

    def _cost_of(self, number: int, places: Places) -> int | None:
        """What it costs to bring an instance from where it was to *places*; None if nobody knows how."""
        hops = self._routes.between(number, self._initial[number], places)
        return None if hops is None else sum(MOVE_MIB + hop.price.total_mib for hop in hops)

    def _hops_of(self, number: int) -> int:
        return len(self._routes.between(number, self._initial[number], self._place(number)) or ())

    def _move(self, number: int, places: Places, cost: int) -> None:
        self._state.move(number, *places)
        if cost:
            self._moved[number] = cost
        else:
            self._moved.pop(number, None)

    def _classes_by_price(self) -> list[bytes]:
        """Which instances belong to each class; the cheapest first."""
        count = len(self._state.instances)
        able = [number for number in range(count) if self._movable[number]]
        prices = {n: price_of_hop(self._state.instances[n], "rf").total_mib for n in able}
        distinct = sorted(set(prices.values()))
        limits = (
            distinct
            if len(distinct) <= _CLASSES
            else [distinct[len(distinct) * c // _CLASSES] for c in range(_CLASSES)]
        )
        found = [bytearray(count) for _ in limits]
        for number in able:
            found[bisect.bisect_right(limits, prices[number]) - 1][number] = 1
        return [bytes(own) for own in found]

    def _read_moved(self) -> None:
        for number in list(self._moved):
            cost = self._cost_of(number, self._place(number))
            if cost:
                self._moved[number] = cost
            else:
                del self._moved[number]

    def _begin_anew(self) -> None:
        """Put everything back, and take moves by gain and cost."""
        for number in list(self._moved):
            self._move(number, self._initial[number], 0)
        self._fill(self._score(), bytearray(b"\1" * len(self._initial)))

    def _score(self) -> float:
        return self._state.score(self._members)

    def _fill(self, score: float, eligible: bytearray) -> float:
        """Take the move that gains most less its cost, until none gains anything or there are as many as the default's.

        Only instances on nodes that something changed on are *eligible*. Gives the score.
        """
        left = len(self.first.steps) - sum(map(self._hops_of, self._moved))
        while self._work > 0:
            found = self._best_for_its_price(score, left, eligible)
            if found is None:
                break
            self._tell_best()
            number, places, cost, score = found
            left += self._hops_of(number)
            self._move(number, places, cost)
            left -= self._hops_of(number)
            self._include(eligible, places)
        return score

    def _include(self, eligible: bytearray, nodes: Iterable[int]) -> None:
        """Make the instances on *nodes* eligible."""
        for node in sorted(nodes):
            if node >= 0:
                for number in (*self._state.listed(node), *self._state.listed(node, secondary=True)):
                    eligible[number] = 1

    def _best_for_its_price(
        self, score: float, left: int, eligible: bytearray
    ) -> tuple[int, Places, int, float] | None:
        """The instance, its place, its cost and the score afterwards; there may be *left* more hops."""
        best, most = None, _ROUNDING
        for step in self._candidates(eligible, may_grow=left > 0):
            number = step.instance
            hops = self._routes.between(number, self._initial[number], step.after)
            if hops is None or len(hops) - self._hops_of(number) > left:
                continue
            cost = sum(MOVE_MIB + hop.price.total_mib for hop in hops)
            gain = score - step.score - self._weight * (cost - self._moved.get(number, 0))
            if gain > most:
                most, best = gain, (number, step.after, cost, step.score)
        return best

    def _candidates(self, eligible: bytearray, *, may_grow: bool) -> Iterator[Step]:
        """The best step of each class of instances: moved already, failing over only, by price."""
        moved = bytearray(len(self._initial))
        for number in self._moved:
            moved[number] = 1
        groups = [(bytes(map(operator.and_, moved, eligible)), self._options)]
        if may_grow:
            rest = bytes(map(operator.gt, eligible, moved))
            still = [bytes(map(operator.and_, own, rest)) for own in self._classes]
            if self._options.disk_moves:
                groups.append((bytes(map(operator.and_, self._able, rest)), self._cheap))
            groups += [(own, self._options) for own in still]
        for own, options in groups:
            count = sum(own)
            if not count:
                continue
            self._work -= (_NODE_WORK + _PAIR_WORK * count) * len(self._members) + len(own)
            step = best_step(self._state, self._members, own, options)
            if step is not None:
                yield step

    def _rounds(self) -> None:
        """Undo some moves and make others, until no better plan was found for a while."""
        score = self._score()
        self._keep()
        patience = _PATIENCE[0] + _PATIENCE[1] * len(self.first.steps)
        idle = 0
        while idle < patience and self._work > 0 and self._moved:
            kept = dict(self._moved)
            cost = sum(kept.values())
            mark = self._state.mark()
            eligible = bytearray(len(self._initial))
            for number in self._neighbours():
                nodes = {*self._place(number), *self._initial[number]}
                self._move(number, self._initial[number], 0)
                self._include(eligible, nodes)
            found = self._fill(self._score(), eligible)
            gain = score - found + self._weight * (cost - sum(self._moved.values()))
            idle += 1
            if gain > _ROUNDING:
                self._state.settle(mark)
                score = found
                idle = 0 if self._keep() else idle
            else:
                self._state.rollback(mark)
                self._moved = kept
            self._weight *= _STRICTER if score <= self.first.score else _LAXER

    def _throw(self, below: int) -> int:
        """A number that looks drawn, the same in every run."""
        self._dice = (self._dice * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
        return (self._dice >> 33) % below

    def _neighbours(self) -> list[int]:
        """Some instances that were moved: one, and others that share a node with it or are just others."""
        moved = list(self._moved)
        first = moved[self._throw(len(moved))]
        nodes = {*self._place(first), *self._initial[first]}
        near = [n for n in moved if n != first and not nodes.isdisjoint(self._place(n) + self._initial[n])]
        chosen = [first]
        for _ in range(self._throw(_MOST_UNDONE)):
            among = near if near and self._throw(4) else moved
            chosen.append(among[self._throw(len(among))])
        return list(dict.fromkeys(chosen))

    def _tell_best(self) -> None:
        plan, share = self.best, 100 * (1 - max(self._work, 0) / self._most_work)
        copied_gib = (plan.cost - MOVE_MIB * len(plan.steps)) / 1024
        self._tell(f"{len(plan.steps)} moves, {copied_gib:.1f} GiB to copy; {share:.0f} % of the search")

    # orders

    def _keep(self) -> bool:
        """Make the present places the best plan if they are; whether they were."""
        cost, score = sum(self._moved.values()), self._score()
        if not cost < self.best.cost or not score <= self.first.score + _ROUNDING:
            return False
        steps = self._ordered(self._ways())
        if steps is None or len(steps) > len(self.first.steps) or not steps[-1].score <= self.first.score:
            return False
        self.best = Plan(tuple(steps), steps[-1].score, int(cost))
        return True

    def _ways(self) -> dict[int, list[Hop]]:
        """The hops of every instance that moves, the last first; in the order of the default's plan."""
        last = len(self._turn)
        ways: dict[int, list[Hop]] = {}
        for number in sorted(self._moved, key=lambda one: (self._turn.get(one, last), one)):
            hops = self._routes.between(number, self._initial[number], self._place(number))
            ways[number] = list(reversed(hops or ()))
        return ways

    def _ordered(self, ways: dict[int, list[Hop]], *, by_score: bool = False) -> list[Step] | None:
        """The hops as steps each of which is legal, or None if they get in each other's way."""
        state, steps = self._true, list[Step]()
        mark = state.mark()
        while ways:
            before = len(steps)
            for number in [self._lowest(ways)] if by_score else list(ways):
                while number in ways and self._routes.is_legal(number, ways[number][-1]):
                    hop = ways[number].pop()
                    state.move(number, *hop.after)
                    score = state.score(self._members)
                    steps.append(Step(number, hop.kind, hop.target, hop.before, hop.after, score))
                    if not ways[number]:
                        del ways[number]
            if len(steps) == before:
                break
        state.rollback(mark)
        return steps if steps and not ways else None

    def _lowest(self, ways: dict[int, list[Hop]]) -> int:
        """The instance whose next hop is legal and lowers the score most; any if none is legal."""
        state, best = self._true, (float("inf"), next(iter(ways)))
        mark = state.mark()
        for number, hops in ways.items():
            if self._routes.is_legal(number, hops[-1]):
                state.move(number, *hops[-1].after)
                best = min(best, (state.score(self._members), number))
                state.undo(mark)
        state.settle(mark)
        return best[1]

    def _order_by_score(self) -> None:
        """Let the score fall as early as possible, for a user who stops half-way."""
        plan, goal = self.best, self.first
        if plan is goal or len(plan.steps) > _ORDERED_BY_SCORE:
            return
        ways: dict[int, list[Hop]] = {}
        for step in plan.steps:
            hops = self._routes.between(step.instance, step.before, step.after) or ()
            ways[step.instance] = [*reversed(hops), *ways.get(step.instance, [])]
        steps = self._ordered(ways, by_score=True)
        if steps is not None and steps[-1].score <= goal.score:
            self.best = replace(plan, steps=tuple(steps), score=steps[-1].score)
