# SPDX-License-Identifier: BSD-2-Clause
"""One fault at one step of one operation on a mirrored disk: what is prepared, done, healed and checked."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.real.mirrored_bed import KEEPERS, NAME, STORAGE_DAEMON, Guest, MirroredBed
from tests.real.mirrored_faults import FAULTS, Fault, Struck
from tests.real.mirrored_state import check_all, check_logs, is_whole, verify, wait_quiet
from tests.real.numbered_blocks import NumberedBlocks

from ganeti.base.errors import GanetiError

SIZE_MIB = 12
LARGEST_MIB = 40
STEPS = {"create": 20, "sync": 8, "swap": 20, "replace": 20, "grow": 12, "convert": 20, "remove": 10}
"""About how often each job stops; at a step beyond its end the fault comes when it has ended."""
HEALED_AFTER_S = (0.3, 4.0)
ENDED_WITHIN_S = 150.0
"""A node that does not answer is given up after a minute, and its job tries the way back then."""
SWAPS = ("migrate", "failover")


class RoundError(Exception):
    """What is wrong after a fault, and the story of it."""


@dataclass(frozen=True)
class Case:
    operation: str
    fault: str
    step: int

    def __str__(self) -> str:
        return f"{self.operation}, step {self.step}: {self.fault}"


def drawn(seed: str, count: int) -> list[Case]:
    """Each pair of operation and fault at least once, each at a step of its own."""
    draw = random.Random(f"faults {seed}")
    pairs = list(itertools.product(STEPS, FAULTS))
    pairs += draw.sample(pairs, count - len(pairs))
    draw.shuffle(pairs)
    return [Case(operation, fault, draw.randint(1, STEPS[operation])) for operation, fault in pairs]


def sampled(cases: Sequence[Case], count: int) -> list[int]:
    """The numbers of so many cases: as many operations and faults as there can be."""
    chosen: list[int] = []
    seen: Counter[str] = Counter()
    for _ in range(count):
        number = min(
            (each for each in range(len(cases)) if each not in chosen),
            key=lambda each: (seen[cases[each].operation] + seen[cases[each].fault], each),
        )
        chosen.append(number)
        seen.update((cases[number].operation, cases[number].fault))
    return chosen


class Player:
    """Plays cases one after the other on one cluster; the instance lives on between them."""

    def __init__(self, bed: MirroredBed, seed: str) -> None:
        self.bed = bed
        self.seed = seed
        self.story: list[str] = []
        self.outcomes: list[tuple[str, str]] = []
        self.hit_while_running = 0
        self._draw = random.Random()
        self._guest: Guest | None = None

    def play(self, number: int, case: Case) -> None:
        self._draw = random.Random(f"{self.seed} {number}")
        begun_s = time.monotonic()
        self.tell(f"-- {number}: {case}")
        try:
            self._play(case)
        except (AssertionError, GanetiError, OSError, subprocess.TimeoutExpired) as err:
            story = "\n".join(self.story[-8:])
            raise RoundError(f"{err}\n{story}\nGANETI_SEED={self.seed} GANETI_ROUNDS={number}") from err
        self.tell(f"all is well after {time.monotonic() - begun_s:.1f} s")

    def tell(self, text: str) -> None:
        self.story.append(text)
        print(text, flush=True)  # shown when the test fails, or with -s

    def check_logs(self) -> None:
        check_logs(self.bed)

    # The instance before

    @property
    def guest(self) -> Guest:
        assert self._guest is not None
        return self._guest

    def _add(self, template: str, *more: str) -> None:
        *words, name = self._creation(template)
        self.bed.obey(*words, *more, name)

    def _creation(self, template: str) -> tuple[str, ...]:
        """The words of a new instance on nodes that are drawn."""
        self._guest = Guest(self.bed, NumberedBlocks(self._draw, SIZE_MIB))
        nodes = self._draw.sample(KEEPERS, 2 if template == "mirror" else 1)
        words = ("gnt-instance", "add", "-t", template, "--disk", f"0:size={SIZE_MIB}m", "-o", "noop+default")
        return (*words, "-n", ":".join(nodes), NAME)

    def _remove(self) -> None:
        if self.bed.instance() is not None:
            self.bed.obey("gnt-instance", "remove", "-f", "--shutdown-timeout=0", NAME)

    def _have_running(self) -> None:
        """With both copies equal, and something written."""
        instance = self.bed.instance()
        if instance is not None and instance["disk"]["size"] >= LARGEST_MIB:
            self._remove()
            instance = None
        if instance is None:
            self._add("mirror")
        elif instance["admin_state"] != "up":
            self.bed.obey("gnt-instance", "startup", NAME)
        with self.bed.going_on():
            self.bed.wait(lambda: is_whole(self.bed), "both copies are equal", every_s=0.05)
        self.guest.write_some(self._draw.randint(3, 10))

    def _words(self, operation: str) -> tuple[str, ...]:
        """Prepare for an operation; gives the command that carries it out."""
        if operation == "create":
            self._remove()
            return self._creation("mirror")
        if operation == "convert" and self._draw.random() < 0.5:
            self._remove()
            self._add("file", "--no-start", "--no-install")
            self.guest.write_to_image(10)
            instance = self.bed.instance()
            assert instance is not None
            other = self._draw.choice([node for node in KEEPERS if node != instance["primary"]])
            return ("gnt-instance", "modify", "-t", "mirror", "-n", other, NAME)
        self._have_running()
        instance = self.bed.instance()
        assert instance is not None
        if operation == "convert":
            self.bed.obey("gnt-instance", "shutdown", "--timeout=0", NAME)
            return ("gnt-instance", "modify", "-t", "file", NAME)
        if operation == "sync":
            self._fall_behind(instance["secondary"])
            return ("gnt-instance", "activate-disks", "--wait-for-sync", NAME)
        if operation == "replace":
            third = next(node for node in KEEPERS if node not in (instance["primary"], instance["secondary"]))
            return ("gnt-instance", "replace-disks", *self._draw.choice((("-n", third), ("-s",))), NAME)
        return {
            "grow": ("gnt-instance", "grow-disk", NAME, "0", "4m"),
            "remove": ("gnt-instance", "remove", "-f", "--shutdown-timeout=0", NAME),
            "swap": ("gnt-instance", self._draw.choice(SWAPS), "-f", NAME),
        }[operation]

    def _fall_behind(self, secondary: str) -> None:
        for pid in self.bed.pids(secondary, STORAGE_DAEMON):
            os.kill(pid, signal.SIGKILL)
        self.guest.write_some(5)
        self.bed.wait(lambda: not is_whole(self.bed), "the loss is seen", every_s=0.05)

    # The operation and the fault

    def _play(self, case: Case) -> None:
        words = self._words(case.operation)
        if case.operation == "create":
            primary, secondary = words[words.index("-n") + 1].split(":")
        else:
            instance = self.bed.instance()
            assert instance is not None
            primary, secondary = instance["primary"], instance["secondary"] or words[words.index("-n") + 1]
        self.tell(f"{' '.join(words)}; primary {primary}, secondary {secondary}")
        wait_quiet(self.bed)
        moves = case.operation in ("swap", "remove", "convert")
        with contextlib.nullcontext() if moves else self.guest.writing():
            job = self.bed.submit(*words)
            struck = self._strike(job, FAULTS[case.fault], case.step, primary, secondary)
            try:
                self._let_it_meet(job, struck)
            finally:
                struck.heal()
            status = self.bed.end_of(job, ENDED_WITHIN_S)
        self.tell(f"job {job}: {status}; {self.bed.why(job)}"[:600])
        self.outcomes.append((str(case), status))
        self._settle(case, status, words)

    def _strike(self, job: int, fault: Fault, step: int, primary: str, secondary: str) -> Struck:
        """At that stop of the job, or the next one at which there is something to hit, or when it has ended."""
        for stop in itertools.count(1):
            pid = self._next_stop(job)
            if pid is None:
                break
            self.guest.write_some(1)
            struck = fault.strike(self.bed, primary, secondary, pid) if stop >= step else None
            if struck is not None:
                self.tell(f"stop {stop}: {struck.what}")
                self.hit_while_running += 1
                return struck
            os.kill(pid, signal.SIGCONT)
        struck = fault.strike(self.bed, primary, secondary, None) or Struck("nothing is left to hit")
        self.tell(f"job {job} had ended after {stop - 1} stops: {struck.what}")
        return struck

    def _next_stop(self, job: int) -> int | None:
        found: list[int] = []

        def stopped_or_ended() -> bool:
            found[:] = list(self.bed.stopped())
            return bool(found) or self.bed.has_ended(job)

        self.bed.wait(stopped_or_ended, f"the next stop of job {job}")
        return found[0] if found else None

    def _let_it_meet(self, job: int, struck: Struck) -> None:
        """The job goes on beside the fault, and the guest writes at its steps."""
        until_s = time.monotonic() + self._draw.uniform(*HEALED_AFTER_S)
        while time.monotonic() < until_s:
            for pid in self.bed.stopped():
                self.guest.write()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            if self.bed.has_ended(job):
                self.guest.write_some(2)
                if struck.is_done:
                    return
            time.sleep(0.01)

    # What became of it

    def _settle(self, case: Case, status: str, words: tuple[str, ...]) -> None:
        self._watch()
        unfinished = case.operation in ("grow", "replace") and status != "success"
        check_all(self.bed, self.guest, unfinished=unfinished)
        verify(self.bed, unfinished=unfinished)
        again: dict[str, Callable[[], bool]] = {
            "create": lambda: self.bed.instance() is None,
            "remove": lambda: self.bed.instance() is not None,
        }
        tried = again.get(case.operation, lambda: status != "success")()
        if tried:
            self._try_again(case, words)
        if case.operation == "convert":
            self._be_mirrored()
            self._have_running()
        if tried or case.operation == "convert":
            check_all(self.bed, self.guest)

    def _watch(self) -> None:
        self.bed.obey("ganeti-watcher", "--ignore-pause", "--no-strict")

    def _try_again(self, case: Case, words: tuple[str, ...]) -> None:
        """Whatever was left undone is done now."""
        if case.operation == "create":
            self._guest = Guest(self.bed, NumberedBlocks(self._draw, SIZE_MIB))
        if case.operation in ("swap", "replace", "grow"):
            self._have_running()
        if self._is_done(words):
            self.tell("it was done nevertheless")
            return
        self.bed.obey(*words)
        self.tell("the second try did it")
        assert (self.bed.instance() is None) == (case.operation == "remove")

    def _is_done(self, words: tuple[str, ...]) -> bool:
        """Whether the successor of a job that died has completed it: then it cannot be done again."""
        instance = self.bed.instance()
        if instance is None:
            return False
        verb, option, value = words[1:4]
        template = words[words.index("-t") + 1] if verb == "modify" else ""
        return template == instance["disk"]["dev_type"] or (
            verb == "replace-disks" and option == "-n" and value == instance["secondary"]
        )

    def _be_mirrored(self) -> None:
        instance = self.bed.instance()
        assert instance is not None
        if instance["disk"]["dev_type"] == "file":
            check_all(self.bed, self.guest)
            other = self._draw.choice([node for node in KEEPERS if node != instance["primary"]])
            self.bed.obey("gnt-instance", "modify", "-t", "mirror", "-n", other, NAME)
