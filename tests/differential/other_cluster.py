# SPDX-License-Identifier: BSD-2-Clause
"""A second way to draw clusters, from the description of the text format alone: rows of fields, the odd ones too.

It shares nothing with ``tests/fakes/cluster_drawing.py``: what one author never thinks of, another may.
"""

import random
from dataclasses import dataclass, field

TEMPLATES = ("drbd", "plain", "ext", "file", "sharedfile", "diskless", "rbd", "blockdev", "gluster")
STATUSES = (
    *("running", "ADMIN_down", "ERROR_up", "ERROR_down", "ADMIN_offline", "USER_down"),
    *("ERROR_nodedown", "ERROR_nodeoffline", "ERROR_wrongnode"),
)
HARDWARE = (  # memory, node memory, disk, CPUs, spindles
    (16000, 512, 200000, 4, 1),
    (32057, 1024, 953674, 8, 2),
    (64311, 1500, 1907348, 16, 4),
    (128743, 2048, 3814697, 32, 8),
    (257600, 4096, 7629394, 64, 12),
    (8192, 0, 102400, 2, 1),
    (65536, 1024, 0, 24, 1),
)
GUESTS = ((1024, 10240, 1), (2048, 20480, 2), (4096, 51200, 2), (8192, 102400, 4), (512, 5120, 1), (16384, 40960, 8))
LOCATIONS = ("rack:a", "rack:b", "rack:c", "power:1", "power:2", "room:x")


@dataclass
class Picture:
    """The sections of a text file, field by field."""

    groups: list[list[str]] = field(default_factory=list)
    nodes: list[list[str]] = field(default_factory=list)
    instances: list[list[str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    policies: list[list[str]] = field(default_factory=list)
    loads: str | None = None


class Painter:
    """Draws one picture; *size* bounds the nodes."""

    def __init__(self, dice: random.Random, size: int) -> None:
        self.dice, self.size = dice, size
        self.picture = Picture()
        self.taken: set[str] = set()
        self.odd = dice.random() < 0.35
        self.exclusive = dice.random() < 0.12
        self.forthcoming = dice.random() < 0.12
        self.tagged = dice.random() < 0.6
        self.names = dice.choice((self._short, self._full, self._two_domains, self._prefixes, self._strange))
        self.fill = dice.choice((0.3, 0.6, 0.9, 1.15))
        self.templates = self._mix()
        self.statuses = dice.choice((1.0, 1.0, 0.8, 0.4))

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def rare(self, share: float) -> bool:
        """Something odd, in the odd pictures."""
        return self.odd and self.chance(share)

    def name(self, kind: str, number: int) -> str:
        """A new name; of nodes or instances that are called the same 3.0 takes the last, in places."""
        while (found := self.names(kind, number)) in self.taken:
            number += 5
        self.taken.add(found)
        return found

    def paint(self) -> Picture:
        self._groups()
        self._nodes()
        self._instances()
        self._settle()
        self._tags()
        self._policies()
        self._loads()
        return self.picture

    # names

    def _short(self, kind: str, number: int) -> str:
        return f"{kind}{number}"

    def _full(self, kind: str, number: int) -> str:
        return f"{kind}{number:02d}.cluster.example.com"

    def _two_domains(self, kind: str, number: int) -> str:
        return f"{kind}{number}.{'a' if number % 3 else 'bb'}.example.org"

    def _prefixes(self, kind: str, number: int) -> str:
        return ("{0}", "{0}.x", "{0}1", "{0}1.x", "{0}1.x.y")[number % 5].format(f"{kind}{number // 5 or ''}")

    def _strange(self, kind: str, number: int) -> str:
        return self.dice.choice(
            ("{0}-é{1}.λ.net", "{0} {1}.net", "{0}_{1}.net", "{0}'{1}.net", '"{0}{1}.net', "{0}{1}.net", "№{0}{1}")
        ).format(kind, number)

    def _mix(self) -> list[str]:
        kind = self.dice.randrange(6)
        if kind < 2:
            return ["drbd"]
        if kind == 2:
            return ["drbd", "drbd", "plain"]
        if kind == 3:
            return [
                "drbd",
                "drbd",
                "drbd",
                "plain",
                "ext",
                "file",
                "sharedfile",
                "diskless",
                "rbd",
                "blockdev",
                "gluster",
            ]
        return self.dice.sample(TEMPLATES, self.dice.randint(1, 4))

    # sections

    def _groups(self) -> None:
        for number in range(self.dice.choice((1, 1, 1, 1, 2, 2, 3))):
            policy = self.dice.choice(("preferred", "preferred", "last_resort", "unallocable"))
            row = [
                f"group{number + 1}" if number else "default",
                f"uuid-{number}-{self.dice.randrange(99):02x}",
                policy,
            ]
            row.append(",".join(self.dice.sample(("g:one", "g:two", "htools:x", ""), self.dice.randrange(3))))
            if self.chance(0.5):
                row.append(self.dice.choice(("", "net-1", "net-1,net-2")))
            if self.rare(0.1):
                row.append("more")
            self.picture.groups.append(row)
        self.dice.shuffle(self.picture.groups)

    def _nodes(self) -> None:
        count = max(1, round(self.size * self.dice.random()) + 1)
        common = self.dice.choice(HARDWARE[:6])
        uneven = self.chance(0.4)
        speeds = self.dice.choice((("1.0",), ("1.0",), ("1", "0.75", "1.25"), ("2.0", "1.0", "1e-1", "3")))
        for number in range(count):
            memory, own, disk, cpus, spindles = self.dice.choice(HARDWARE) if uneven else common
            if self.rare(0.05):
                memory, cpus = self.dice.choice(((0, cpus), (memory, 0), (0, 0)))
            group = self.dice.choice(self.picture.groups)
            flag = self.dice.choice("NNNNNNNNYN") if self.chance(0.5) else "N"
            free_spindles = spindles if self.exclusive else self.dice.choice((0, 0, 0, spindles))
            self.picture.nodes.append(
                [
                    *(self.name("node" if self.chance(0.99) else "inst", number), str(memory), str(own), "", str(disk)),
                    *("", str(cpus), flag, group[1], str(spindles), self._some_tags(LOCATIONS, 0.5)),
                    *("Y" if self.exclusive and self.chance(0.95) else "N", str(free_spindles)),
                    *(self.dice.choice(("1", "1", "0", "2")), self.dice.choice(speeds)),
                ]
            )
        if self.chance(0.9):
            self.dice.choice(self.picture.nodes)[7] = "M"
            if self.rare(0.05):
                self.dice.choice(self.picture.nodes)[7] = "M"

    def _some_tags(self, stock: tuple[str, ...], share: float) -> str:
        if not self.tagged or not self.chance(share):
            return "," if self.rare(0.05) else ""
        return ",".join(self.dice.sample(stock, self.dice.randint(1, min(3, len(stock)))))

    def _instances(self) -> None:
        groups: dict[str, list[list[str]]] = {}
        for node in self.picture.nodes:
            groups.setdefault(node[8], []).append(node)
        goal = self.dice.choice((0, 1, 2, 3, 4, 6)) if self.chance(0.9) else 12
        skewed = self.chance(0.4)
        for number in range(min(round(goal * len(self.picture.nodes) * self.dice.random() * 1.5), 120)):
            members = groups[self.dice.choice(self.picture.nodes)[8]]
            primary = members[0] if skewed and self.chance(0.5) else self.dice.choice(members)
            template = self.dice.choice(self.templates)
            others = [node for node in members if node is not primary]
            if template == "drbd" and not others:
                template = self.dice.choice(TEMPLATES[1:])
            secondary = self.dice.choice(others)[0] if template == "drbd" else ""
            if template == "drbd" and self.rare(0.01) and len(groups) > 1:
                secondary = self.dice.choice([n for n in self.picture.nodes if n is not primary])[0]
            self.picture.instances.append(self._instance(number, primary[0], secondary, template))

    def _instance(self, number: int, primary: str, secondary: str, template: str) -> list[str]:
        memory, disk, cpus = self.dice.choice(GUESTS)
        if self.rare(0.1):
            memory, disk, cpus = self.dice.choice(
                ((0, disk, cpus), (memory, 0, cpus), (memory, disk, 0), (memory + 1, disk + 7, 3))
            )
        status = "running" if self.chance(self.statuses) else self.dice.choice(STATUSES)
        owners = ("owner:x", "owner:y", "owner:z", "service:dns", "service:web", "rack:a", "power:2", "plainer", "own")
        return [
            *(
                self.name("inst" if self.chance(0.99) else "node", number),
                str(memory),
                str(0 if template == "diskless" else disk),
            ),
            *(str(cpus), status, "N" if self.chance(0.06) else "Y", primary, secondary, template),
            *(self._some_tags(owners, 0.7), self.dice.choice(("1", "1", "1", "2", "0"))),
            str(self.dice.randint(1, 2)) if self.exclusive else ("3" if self.rare(0.1) else "-"),
            "Y" if self.forthcoming and self.chance(0.3) else "N",
        ]

    def _settle(self) -> None:
        """Give each node the free memory, disk and spindles its instances leave; more or less, in places."""
        for node in self.picture.nodes:
            memory, disk, spindles = left_on(node, self.picture.instances)
            noise = self.dice.choice((0, 0, 0, 37, 400, 900)) if self.chance(0.5) else 0
            node[3] = str(memory - noise + (self.rare(0.1) and 2000))
            node[5] = str(disk - (self.dice.choice((0, 100, 5000)) if self.chance(0.3) else 0))
            if self.chance(0.7):  # real nodes do not report less than nothing
                node[3], node[5] = (str(max(0, int(value))) for value in (node[3], node[5]))
            if self.exclusive:
                node[12] = str(max(0, spindles))
            if node[7] == "Y" and self.chance(0.3):
                node[1:7] = [self.dice.choice(("?", "0")) for _ in range(6)] if self.chance(0.5) else ["0"] * 6
            if self.rare(0.03):
                node[self.dice.randint(1, 6)] = "?"
            if self.rare(0.05) and "?" not in node:
                node[1], node[4], node[6] = f"{node[1]}.5", f"{node[4]}.0", f"{node[6]}.25"

    def _tags(self) -> None:
        if not self.tagged:
            return
        stock = (
            *("htools:iextags:owner", "htools:iextags:service", "htools:iextags:", "htools:iextags:rack"),
            *("htools:nlocation:rack", "htools:nlocation:power", "htools:nlocation:", "htools:desiredlocation:rack"),
            *(
                "htools:desiredlocation:power",
                "htools:desiredlocation:",
                "htools:migration:rack",
                "htools:migration:room",
            ),
            *(
                "htools:allowmigration:rack:a::rack:b",
                "htools:allowmigration:rack:b::rack:c",
                "htools:allowmigration:x",
            ),
            *("some:tag", "other"),
        )
        likely = [tag for tag in stock if not tag.endswith(":")] if self.chance(0.8) else list(stock)
        self.picture.tags = self.dice.sample(likely, self.dice.randrange(6))

    def _policies(self) -> None:
        if self.chance(0.3):
            return
        owners = ["", *(group[0] for group in self.picture.groups)]
        if self.chance(0.3):
            owners = owners[: self.dice.randint(0, len(owners))]
        self.picture.policies = [self._policy(owner) for owner in owners]

    def _policy(self, owner: str) -> list[str]:
        ranges = []
        for number in range(self.dice.choice((1, 1, 1, 2, 3))):
            low, high = self.dice.choice((128, 512, 1024)) << number, self.dice.choice((4096, 32768, 65536)) << number
            ranges += [
                f"{low},1,{self.dice.choice((1024, 5120))},1,1,1",
                f"{high},{self.dice.choice((4, 8, 64))},1048576,16,8,12",
            ]
        templates = [name for name in TEMPLATES if self.chance(0.9)] or ["drbd"]
        self.dice.shuffle(templates)
        ratios = self.dice.choice(("4.0", "64", "1.5", "2", "0.5")), self.dice.choice(("32.0", "4", "1.5", "64.0"))
        return [
            owner,
            self.dice.choice(("1024,1,20480,1,1,1", "128,1,1024,1,1,1", "4096,2,51200,2,1,2")),
            ";".join(ranges),
            ",".join(templates),
            *ratios,
        ]

    def _loads(self) -> None:
        if not self.chance(0.35):
            return
        rows = []
        for one in self.picture.instances:
            if self.chance(0.85):
                parts = [self.dice.choice(("0", "1", "0.25", "3.75", "1e-2", "12.5")) for _ in range(4)]
                rows.append(" ".join([one[0], *parts]))
        if self.chance(0.5):
            rows.append("stranger 1 2 3 4")
        self.picture.loads = "\n".join(rows) + ("\n" if self.chance(0.8) else "")


USING_MEMORY = ("running", "ERROR_up", "ERROR_nodedown", "ERROR_nodeoffline", "ERROR_wrongnode")


def to_text(picture: Picture, dice: random.Random) -> str:
    """The text file; with the odd ends that editors and older versions leave."""
    sections = [
        ["|".join(row) for row in picture.groups],
        ["|".join(row) for row in picture.nodes],
        ["|".join(row) for row in picture.instances],
        list(picture.tags),
        ["|".join(row) for row in picture.policies],
    ]
    if dice.random() < 0.1:
        sections[1] = ["|".join(row[: dice.choice((9, 10, 11, 12, 13, 14))]) for row in picture.nodes]
    if dice.random() < 0.1:
        sections[2] = ["|".join(row[: dice.choice((10, 11, 12))]) for row in picture.instances]
    if not picture.policies and dice.random() < 0.5:
        sections.pop()
    text = (
        "\n\n".join("\n".join(lines) for lines in sections)
        if dice.random() < 0.02
        else "\n".join("".join(f"{line}\n" for line in lines) for lines in sections)
    )
    odd = dice.random()
    if odd < 0.03:
        text = text.rstrip("\n")
    elif odd < 0.05:
        text += "\nmore\n"
    elif odd < 0.06:
        text = text.replace("\n", "\r\n")
    elif odd < 0.07:
        text = "# a comment\n" + text
    elif odd < 0.10:
        text = mangled(text, dice)
    return text


def mangled(text: str, dice: random.Random) -> str:
    """*text* with a few letters changed, lost or doubled."""
    letters = list(text)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        if not letters:
            break
        at = dice.randrange(len(letters))
        kind = dice.randrange(6)
        if kind == 0:
            del letters[at]
        elif kind == 1:
            letters[at] = dice.choice("|,;\n 0-9.xYN?é\t\r\"'")
        elif kind == 2:
            letters.insert(at, dice.choice("|,;\n 01-.eY?"))
        elif kind == 3:
            del letters[at : at + dice.choice((3, 10, 40))]
        elif kind == 4:
            letters[at:at] = letters[at : at + dice.choice((5, 60))]
        else:
            letters = letters[:at] if dice.random() < 0.3 else letters
    return "".join(letters)


def left_on(node: list[str], instances: list[list[str]]) -> tuple[int, int, int]:
    """Memory and disk (MiB) and spindles that *instances* leave on *node*; below nothing where they overfill it."""
    memory, disk, spindles = int(node[1]) - int(node[2]), int(node[4]), int(node[9])
    for one in instances:
        if one[12] == "Y":
            continue
        memory -= int(one[1]) if one[6] == node[0] and one[4] in USING_MEMORY else 0
        if node[0] in one[6:8] and one[8] in ("drbd", "plain"):
            disk -= int(one[2])
            spindles -= int(one[11]) if one[11] != "-" else 0
    return memory, disk, spindles
