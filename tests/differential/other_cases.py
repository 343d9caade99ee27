# SPDX-License-Identifier: BSD-2-Clause
"""The second drawing's command lines: any option that a tool has, in any spelling, now and then a wrong one."""

import json
import random

from tests.differential.cases import CLUSTER, LOADS, REQUEST, Case
from tests.differential.other_cluster import Painter, Picture, mangled, to_text
from tests.differential.other_remote import to_answers, to_reports
from tests.differential.other_request import to_message

SIZES = {"hbal": 9, "hcheck": 7, "hinfo": 30, "hroller": 24, "hsqueeze": 7}
TOOLS = tuple(SIZES)
_NUMBERS = ("abc", "", "1x", "-1", "1e400", "NaN", "Infinity", "0x10", " 7", "(3)", "1.5", ".5", "5.", "+1", "1e2")
_FIELDS = (
    *("status", "name", "fqdn", "idx", "tmem", "nmem", "imem", "xmem", "fmem", "umem", "rmem", "amem", "tdsk", "fdsk"),
    *("tcpu", "ucpu", "pcnt", "scnt", "plist", "slist", "pfmem", "pfdsk", "rcpu", "cload", "mload", "dload", "nload"),
    *("ptags", "peermap", "spindle_count", "hi_spindles", "inst_spindles", "nonsense", ""),
)


def case(seed: int, tool: str) -> Case:
    """The case of *tool* for *seed*."""
    dice = random.Random(f"{seed}-{tool}")
    return _Line(dice, seed, tool, Painter(dice, SIZES[tool]).paint()).write()


def cases(seed: int, tools: list[str]) -> list[Case]:
    """Everything that is tried for *seed*, of the tools in `TOOLS`."""
    return [case(seed, tool) for tool in tools]


class _Line:
    def __init__(self, dice: random.Random, seed: int, tool: str, picture: Picture) -> None:
        self.dice, self.tool, self.picture = dice, tool, picture
        self.case = Case(seed, tool)
        self.options: list[list[str]] = []

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def write(self) -> Case:
        self._source()
        getattr(self, f"_{self.tool}")()
        self.dice.shuffle(self.options)
        words = [word for option in self.options for word in option]
        if self.chance(0.01):
            words.insert(
                self.dice.randint(0, len(words)),
                self.dice.choice(("stray", "--", "-", "-Z", "--nonsense", "--no=1", "--m")),
            )
        self.case.arguments = words
        return self.case

    # one option

    def switch(self, name: str, share: float, short: str = "") -> None:
        if self.chance(share):
            spelled = f"--{name}={self.dice.choice(('', 'yes'))}" if self.chance(0.005) else f"--{name}"
            self.options.append([f"-{short}" if short and self.chance(0.6) else spelled])

    def value(
        self, name: str, share: float, values: tuple[object, ...], short: str = "", wrong: tuple[str, ...] = ()
    ) -> None:
        if not self.chance(share):
            return
        text = str(self.dice.choice(wrong if wrong and self.chance(0.04) else values))
        if self.chance(0.4):
            self.options.append([f"--{name}={text}"])
        elif short and self.chance(0.6):
            self.options.append([f"-{short}{text}"] if text and self.chance(0.3) else [f"-{short}", text])
        else:
            self.options.append([f"--{name}", text])
        if self.chance(0.01):
            self.options[-1] = self.options[-1][:1]

    def attached(self, name: str, share: float, values: tuple[str | None, ...], short: str = "") -> None:
        if not self.chance(share):
            return
        text = self.dice.choice(values)
        word = f"-{short}" if short and self.chance(0.7) else f"--{name}"
        self.options.append([word if text is None else f"{word}{'=' if word.startswith('--') else ''}{text}"])

    # what all of them have

    def _source(self) -> None:
        kind = self.dice.random()
        allocator = 0.0 if self.tool == "hsqueeze" else 0.12
        text = to_text(self.picture, self.dice)
        if kind < allocator:
            if self.chance(0.7):  # 3.0 counts every instance twice that comes from such a file
                self.picture.instances = []
            message = json.dumps(
                to_message(self.picture, self.dice), indent=self.dice.choice((None, 1)), ensure_ascii=self.chance(0.5)
            )
            self.case.files[REQUEST] = message
            self.options.append(self.dice.choice((["-I", REQUEST], [f"--ialloc-src={REQUEST}"])))
        elif kind < allocator + (0.0 if self.tool == "hsqueeze" else 0.1):
            self.case.files |= to_answers(self.picture, self.dice)
            self.options.append(self.dice.choice((["-m", "file://."], ["--master=file://."])))
        elif kind < 0.99:
            self.case.files[CLUSTER] = text
            self.options.append(
                self.dice.choice((["-t", CLUSTER], [f"-t{CLUSTER}"], [f"--text-data={CLUSTER}"], ["--text", CLUSTER]))
            )
        if self.chance(0.02):
            self.options.append(
                self.dice.choice(
                    (
                        ["-t", "missing"],
                        ["-m", ""],
                        ["-t", "."],
                        ["-I", "missing"],
                        ["-L/nowhere"],
                        ["-m", "file:///nowhere"],
                    )
                )
            )

    def _voices(self) -> None:
        for _ in range(self.dice.choice((0, 0, 0, 1, 1, 2, 3, 4, 5))):
            self.options.append([self.dice.choice(("-v", "-v", "--verbose", "-vv"))])
        if self.tool not in ("hsqueeze",):
            for _ in range(self.dice.choice((0, 0, 0, 0, 0, 1, 2))):
                self.options.append([self.dice.choice(("-q", "--quiet"))])

    def _offline(self) -> None:
        for _ in range(self.dice.choice((0, 0, 0, 0, 1, 2))):
            name = self.dice.choice(self.picture.nodes)[0]
            kind = self.dice.random()
            name = name.partition(".")[0] if kind < 0.3 else "nowhere" if kind < 0.35 else name
            self.options.append(self.dice.choice((["-O", name], [f"--offline={name}"])))

    def _memory(self) -> None:
        self.value("static-kvm-node-memory", 0.1, (0, 1024, 8192, -5), wrong=_NUMBERS)

    def _loads(self) -> None:
        if self.picture.loads is not None:
            self.case.files[LOADS] = mangled(self.picture.loads, self.dice) if self.chance(0.06) else self.picture.loads
            self.options.append(self.dice.choice((["-U", LOADS], [f"--dynu-file={LOADS}"])))
        self.switch("ignore-dynu", 0.12)

    def _reports(self) -> None:
        if self.chance(0.1):
            self.case.files["reports"] = to_reports(self.picture, self.dice)
            self.options += [[self.dice.choice(("--mond", "--mond=yes"))], ["--mond-data=reports"]]
            self.switch("mond-xen", 0.0 if self.tool == "hinfo" else 0.4)
        else:
            self.attached("mond", 0.04, ("no", "no", "maybe", ""))

    def _names(self, share: float) -> str:
        chosen = []
        for one in self.picture.instances:
            if self.chance(share):
                chosen.append(one[0].partition(".")[0] if self.chance(0.2) else one[0])
        if self.chance(0.04):
            chosen.append("nobody")
        return ",".join(chosen)

    def _balancing(self, lengths: tuple[int, ...]) -> None:
        self.value("max-length", 1.0, lengths, "l", _NUMBERS)
        self.value("min-gain", 0.2, (0, 0.001, 0.5, "1e-3", 3, -1), "g", _NUMBERS)
        self.value("min-gain-limit", 0.2, (0, 0.5, 5, 100), "", _NUMBERS)
        self.value("min-score", 0.2, (0.5, 0.01, "1e-3", 5, 100, 0, -1), "e", _NUMBERS)
        self.value("max-cpu", 0.15, (0.5, 1.5, 3, 16, 0, -1), "", _NUMBERS)
        self.value("min-disk", 0.15, (0, 0.1, 0.5, 0.9, 1.5, -0.2), "", _NUMBERS)
        self.switch("evac-mode", 0.15, "E")
        self.switch("no-disk-moves", 0.12)
        self.switch("no-instance-moves", 0.12)
        self.switch("ignore-soft-errors", 0.2)
        self.value("exclusion-tags", 0.12, ("owner", "owner,service", "rack", "", "own", "x,,y"))
        self.value("select-instances", 0.12, (self._names(0.5),))
        self.value("exclude-instances", 0.12, (self._names(0.2),))

    def _tables(self) -> None:
        some = ",".join(self.dice.sample(_FIELDS, self.dice.randint(1, 9)))
        self.attached("print-nodes", 0.3, (None, some, f"+{some}", "+", "", "name,+ptags"), "p")
        self.switch("print-instances", 0.25)

    def _group(self, share: float) -> None:
        group = self.dice.choice(self.picture.groups)
        self.value("group", share, (group[0], group[1], group[0], group[1], group[0][:3]), "G", ("nowhere", ""))

    # the tools

    def _hbal(self) -> None:
        self._voices()
        self._offline()
        self._memory()
        self._loads()
        self._balancing((0, 1, 2, 3, 4, 6) if len(self.picture.nodes) < 9 else (1, 2))
        self._tables()
        self._group(0.92 if len(self.picture.groups) > 1 else 0.2)
        self.switch("restricted-migration", 0.12)
        self.attached("print-commands", 0.35, (None, None, "commands.sh", "", "no/where"), "C")
        self.switch("first-job-group", 0.12)
        self.value("save", 0.1, ("saved", "saved", "no/where", ""), "S")
        self.value("reason", 0.05, ("because", ""))
        self.value("priority", 0.05, ("low", "normal", "high"), "", ("urgent", ""))
        self.switch("exec", 0.04, "X")
        self._reports()
        self.switch("exit-on-missing-mond-data", 0.03)

    def _hinfo(self) -> None:
        self._voices()
        self._offline()
        self._memory()
        self.switch("ignore-dynu", 0.15)
        self._tables()
        self._reports()

    def _hcheck(self) -> None:
        self._voices()
        self._offline()
        self._loads()
        self._balancing((0, 1, 2, 3) if len(self.picture.nodes) < 6 else (0, 1))
        self.attached("machine-readable", 0.5, (None, None, "yes", "no", "maybe", ""))
        self.switch("no-simulation", 0.3)
        self.switch("no-capacity-checks", 0.3)

    def _hroller(self) -> None:
        self._voices()
        self._offline()
        self._memory()
        self._group(0.3)
        self.switch("offline-maintenance", 0.3)
        self.switch("no-headers", 0.2)
        self.value("node-tags", 0.2, ("rack:a", "rack:a,power:1", "", "rack", "rack:b,,x"))
        self.value("save", 0.1, ("saved", "saved", "no/where"), "S")
        # Of a full evacuation 3.0 puts both copies of an instance on one node, in places.
        self.switch(self.dice.choice(("print-moves", "print-moves", "full-evacuation")), 0.6)
        self.switch("skip-non-redundant", 0.2)
        self.switch("ignore-non-redundant", 0.3)
        self.switch("force", 0.4, "f")
        self.switch("one-step-only", 0.15)

    def _hsqueeze(self) -> None:
        self._voices()
        self._memory()
        self.value("minimal-resources", 0.5, (0, 0.5, 1, 2, 3.3, 20), "", _NUMBERS)
        self.value("target-resources", 0.5, (0, 0.5, 1, 2, 3.3, 20), "", _NUMBERS)
        self.value("save", 0.1, ("saved", "saved", "no/where"), "S")
        self.attached("print-commands", 0.35, (None, None, "commands.sh"), "C")
        self.switch("no-headers", 0.2)
        self.switch("exec", 0.04, "X")
