# SPDX-License-Identifier: BSD-2-Clause
"""Draws a plan from a seed: what users do, and what goes wrong meanwhile."""

from collections.abc import Callable
from random import Random

from ganeti_simulation.plans.plan import Plan, Step

_INSTANCES = ("one", "two", "three")
_DAEMONS = ("ganeti-noded", "ganeti-wconfd", "ganeti-luxid", "spawner", "job")
_LEAST_S, _MOST_S = 25.0, 60.0
_FEWER_CANDIDATES = 0.2
_OTHER_ROLES = 0.2
_TWO_ADMINISTRATORS = 0.1


def draw_plan(seed: int, nodes: int) -> Plan:
    random = Random(seed * 10 + nodes)  # noqa: S311 - to be repeated, not to be secret
    duration_s = round(random.uniform(_LEAST_S, _MOST_S), 1)
    steps = [_user(random, duration_s, nodes) for _ in range(random.randint(3, 9))]
    for _ in range(random.randint(1, 4)):
        steps += random.choices(_FAULTS, _WEIGHTS)[0](random, duration_s, nodes)
    if random.random() < 0.25:
        target = f"node{random.randint(2, nodes)}"
        steps.append(Step(_time(random, duration_s), f"administrator fails over to {target}"))
    steps.append(Step(0.0, "administrator watches"))
    # An even number of candidates is another thing than an odd one, and a node without a copy than one with.
    candidates = nodes - 1 if random.random() < _FEWER_CANDIDATES else None
    if random.random() < _OTHER_ROLES:
        steps += [_role(random, duration_s, nodes) for _ in range(random.randint(1, 3))]
    if random.random() < _TWO_ADMINISTRATORS:
        steps += _administrators(random, duration_s, nodes)
    return Plan(nodes, seed, duration_s, tuple(sorted(steps, key=lambda step: step.at_s)), candidates)


def _time(random: Random, duration_s: float) -> float:
    return round(random.uniform(1.0, duration_s), 3)


def _node(random: Random, nodes: int) -> str:
    """The first node is master at the beginning: what happens there matters most."""
    return f"node{1 if random.random() < 0.4 else random.randint(1, nodes)}"


def _user(random: Random, duration_s: float, nodes: int) -> Step:
    name = random.choice(_INSTANCES)
    node = f"node{random.randint(1, nodes)}"
    what = random.choices(
        [
            f"user adds {name} on {node}",
            f"user adds {name} diskless on {node}",
            f"user removes {name}",
            f"user migrates {name} to {node}",
            f"user fails {name} over to {node}",
            f"user stops {name}",
            f"user starts {name}",
            f"user reboots {name}",
            f"user lets {node} wait",
            "user lets nothing happen",
            f"user sets limit {random.randint(5, 40)}",
        ],
        [5, 2, 2, 2, 1, 2, 2, 1, 2, 2, 3],
    )[0]
    return Step(_time(random, duration_s), what)


def _role(random: Random, duration_s: float, nodes: int) -> Step:
    what = random.choices(["user demotes", "user promotes"], [3, 2])[0]
    return Step(_time(random, duration_s), f"{what} node{random.randint(1, nodes)}")


def _administrators(random: Random, duration_s: float, nodes: int) -> list[Step]:
    """Two who do not know of each other."""
    at_s = _time(random, duration_s)
    later_s = at_s if random.random() < 0.5 else round(at_s + random.uniform(0.0, 3.0), 3)
    one, other = (f"administrator fails over to node{random.randint(1, nodes)}" for _ in range(2))
    return [Step(at_s, one), Step(later_s, other)]


def _power(random: Random, duration_s: float, nodes: int) -> list[Step]:
    node, at_s = _node(random, nodes), _time(random, duration_s)
    after = f" after {random.randint(1, 60)} calls" if random.random() < 0.6 else ""
    back_s = round(at_s + random.uniform(3.0, 60.0), 3)
    return [Step(at_s, f"{node} loses power{after}"), Step(back_s, f"{node} gets power")]


def _kill(random: Random, duration_s: float, nodes: int) -> list[Step]:
    daemon = random.choice(_DAEMONS)
    node = "node1" if daemon != "ganeti-noded" and random.random() < 0.7 else _node(random, nodes)
    after = f" after {random.randint(1, 40)} calls" if random.random() < 0.7 else ""
    return [Step(_time(random, duration_s), f"{daemon} of {node} is killed{after}")]


def _hang(random: Random, duration_s: float, nodes: int) -> list[Step]:
    daemon = random.choice(_DAEMONS[:3])
    at_s = _time(random, duration_s)
    node = _node(random, nodes)
    back_s = round(at_s + random.uniform(0.5, 30.0), 3)
    return [Step(at_s, f"{daemon} of {node} hangs"), Step(back_s, f"{daemon} of {node} goes on")]


def _partition(random: Random, duration_s: float, nodes: int) -> list[Step]:
    at_s = _time(random, duration_s)
    back_s = round(at_s + random.uniform(2.0, 40.0), 3)
    one, other = _node(random, nodes), f"node{random.randint(1, nodes)}"
    what = random.choice([f"{one} is cut off", f"{one} hears nothing from {other}", f"{one} and {other} are cut apart"])
    return [Step(at_s, what), Step(back_s, "the network heals")]


def _weather(random: Random, duration_s: float, nodes: int) -> list[Step]:
    at_s = _time(random, duration_s)
    back_s = round(at_s + random.uniform(5.0, 40.0), 3)
    loss, delay, twice = random.choice([0.0, 0.02, 0.2]), random.choice([0.005, 0.3, 1.5]), random.choice([0.0, 0.2])
    return [Step(at_s, f"the network loses {loss} delays {delay} doubles {twice}"), Step(back_s, "the network calms")]


def _disk(random: Random, duration_s: float, nodes: int) -> list[Step]:
    node, at_s = _node(random, nodes), _time(random, duration_s)
    back_s = round(at_s + random.uniform(2.0, 30.0), 3)
    what = random.choice(["the disk of {} is full", "the disk of {} fails"])
    return [Step(at_s, what.format(node)), Step(back_s, f"the disk of {node} is well")]


def _clock(random: Random, duration_s: float, nodes: int) -> list[Step]:
    node, at_s = _node(random, nodes), _time(random, duration_s)
    back_s = round(at_s + random.uniform(5.0, 40.0), 3)
    wrong_s = random.choice([-4000, -200, -30, 30, 200, 4000])
    return [Step(at_s, f"the clock of {node} is wrong by {wrong_s}"), Step(back_s, f"the clock of {node} is right")]


def _rot(random: Random, duration_s: float, nodes: int) -> list[Step]:
    return [Step(_time(random, duration_s), f"the copy on node{random.randint(2, nodes)} rots")]


_FAULTS: list[Callable[[Random, float, int], list[Step]]] = [
    *(_power, _kill, _hang, _partition, _weather, _disk, _clock, _rot),
]
_WEIGHTS = [6, 6, 2, 4, 2, 2, 1, 1]
