# SPDX-License-Identifier: BSD-2-Clause
"""A third drawing: every tool over several unlike groups from any source, and odd words in single fields.

What the two other drawings do not have: groups of one node or of none, each with a policy, hardware and templates of
its own; nodes filled to their last MiB; numbers as other languages write them, letters that end lines elsewhere; hspace
and hail over all of these.
"""

import json
import random
from typing import Any

from tests.differential.cases import CLUSTER, LOADS, REQUEST, Case
from tests.differential.other_cluster import TEMPLATES, USING_MEMORY, Picture, left_on
from tests.differential.other_remote import to_answers, to_reports
from tests.differential.other_request import to_message

TOOLS = ("hail", "hbal", "hcheck", "hinfo", "hroller", "hscan", "hspace", "hsqueeze")
_STATUSES = ("running",) * 6 + (*USING_MEMORY, "ADMIN_down", "ADMIN_offline", "ERROR_down", "USER_down")
_ODD_WORDS = (
    *("", " ", "-", "?", "0", "-1", "+1", "007", "0x1f", "0o17", "0b11", "1_000", "1e3", "1.5", "1.", ".5", "(7)"),
    *(" 7", "7 ", "\t7", "\u00a07", "\u0663", "\uff17", "NaN", "Infinity", "-Infinity", "inf", "nan", "None", "Just 3"),
    *("18446744073709551617", "99999999999999999"),  # sums near 2^63 wrap at other places
    *("running", "RUNNING", "drbd", "drbd8", "Y", "y", "N", "M", "Yes", "True", "preferred", "alloc_preferred", "1,2"),
    *("1;2", ";", ",", ",,", "a,,b", "\u2028", "x\u0085y", "x\x0by", "x\x0cy", "x\x1cy", "x\ry", "\ufeff"),
    *("\x00", "e\u0301", "é", "\x7f"),
)  # fmt: skip
_ODD_LOADS = (
    *("", "\n", "x\n", "inst0 1 1 1\n", "inst0  1 1 1 1\n", "nobody a b c d\n", "inst0\t1\t1\t1\t1\n"),
    "inst0 0x1 1_0 1 1\n",
)
_HARDWARE = (
    (8192, 512, 102400, 4, 3),
    (16384, 1024, 204800, 8, 6),
    (32768, 0, 51200, 6, 4),
    (4096, 256, 409600, 2, 12),
)
_GUESTS = ((512, 4096, 1), (1024, 10240, 1), (2048, 20480, 2), (3072, 5120, 4), (128, 1024, 1))
_NODE_TAGS = ("rack:a", "rack:b", "power:1", "power:2", "os:old", "os:new", "htools:standby:auto")
_GUEST_TAGS = ("service:dns", "service:web", "rack:a", "rack:b", "power:1", "customer:x", "service")
_CLUSTER_TAGS = (
    *("htools:iextags:service", "htools:iextags:customer", "htools:nlocation:rack", "htools:nlocation:power"),
    *("htools:desiredlocation:rack", "htools:desiredlocation:power", "htools:migration:os", "htools:migration:rack"),
    *("htools:allowmigration:os:old::os:new", "htools:allowmigration:os:new::os:old"),
    "htools:bandwidth:rack:a::rack:b::10",
    *("htools:migration", "htools:nlocation", "htools:iextags::", "htools:allowmigration:os:old"),
    "HTOOLS:iextags:customer",
)  # fmt: skip


def cases(seed: int, tools: list[str]) -> list[Case]:
    """Everything that is tried for *seed*, of the tools in `TOOLS`."""
    return [_Line(seed, tool).case for tool in tools]


class _Scene:
    """One cluster: some groups, each of its own kind."""

    def __init__(self, dice: random.Random, tool: str) -> None:
        self.dice, self.small = dice, tool == "hspace"
        self.fill = dice.choice((0.2, 0.5, 0.8, 1.0))
        self.tagged, self.uneven = dice.random() < 0.5, dice.random() < 0.4
        self.forthcoming = tool not in ("hspace", "hail") and dice.random() < 0.1
        self.suffix = dice.choice(("", ".example.com", ".a.example.com"))
        self.picture = Picture()
        self.left: dict[str, list[int]] = {}
        for number in range(dice.choice((1, 2, 2, 3, 4))):
            self._group(
                number,
                dice.choice((0, 1, 1, 2, 3)) if number else dice.choice((1, 2, 3) if self.small else (1, 2, 3, 4)),
            )
        for number in range(dice.choice((0, 2, 5, 9, 14))):
            self._instance(number)
        self._settle()
        if self.tagged:
            self.picture.tags = dice.sample(_CLUSTER_TAGS, dice.randrange(7))
        if dice.random() < 0.8:
            owners = ["", *(group[0] for group in self.picture.groups)]
            self.picture.policies = [self._policy(owner) for owner in owners]
        if dice.random() < 0.25:
            self.picture.loads = "".join(f"{one[0]} 1 {dice.random():.3f} 0 2.5\n" for one in self.picture.instances)

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def _some(self, stock: tuple[str, ...], share: float) -> str:
        return ",".join(word for word in stock if self.tagged and self.chance(share))

    def _group(self, number: int, nodes: int) -> None:
        dice = self.dice
        uuid = f"{number}f-uuid"
        policy = dice.choice(("preferred", "preferred", "last_resort", "unallocable"))
        self.picture.groups.append([f"group{number}", uuid, policy, self._some(("rack:a", "g:1"), 0.3), ""])
        exclusive, speed = self.chance(0.15), dice.choice(("1.0", "1.0", "1.0", "0.5", "2"))
        hardware = dice.choice(_HARDWARE)
        for place in range(nodes):
            memory, own, disk, cpus, spindles = dice.choice(_HARDWARE) if self.uneven else hardware
            name = f"node{number}{place}{self.suffix}"
            self.left[name] = [memory - own, disk, spindles, number]
            flag = dice.choice("NNNNNNNY")
            row = [name, str(memory), str(own), "", str(disk), "", str(cpus), flag, uuid, str(spindles)]
            row += [self._some(_NODE_TAGS, 0.3), "Y" if exclusive else "N", "0", dice.choice(("1", "1", "0")), speed]
            self.picture.nodes.append(row)
        if number == 0:
            self.picture.nodes[0][7] = "M"

    def _instance(self, number: int) -> None:
        dice = self.dice
        memory, disk, cpus = dice.choice(_GUESTS)
        template = dice.choice(("drbd", "drbd", "drbd", *TEMPLATES))
        primary, *others = dice.sample(sorted(self.left), len(self.left))
        mates = [name for name in others if self.left[name][3] == self.left[primary][3]]
        if template == "drbd" and not mates:
            template = dice.choice(("rbd", "ext", "plain", "sharedfile"))
        secondary = mates[0] if template == "drbd" else ""
        if self.left[primary][0] - memory < (1 - self.fill) * 4096 and self.chance(0.9):
            return
        here = [self.left[name] for name in (primary, secondary) if name]
        if template in ("drbd", "plain") and any(room[1] <= disk or room[2] < 1 for room in here):
            return
        self.left[primary][0] -= memory
        for room in here if template in ("drbd", "plain") else ():
            room[1] -= disk
            room[2] -= 1
        exclusive = any(node[0] == primary and node[11] == "Y" for node in self.picture.nodes)
        row = [f"inst{number}{self.suffix}", str(memory), "0" if template == "diskless" else str(disk), str(cpus)]
        row += [dice.choice(_STATUSES), dice.choice("YYYYYYN"), primary, secondary, template]
        row += [self._some(_GUEST_TAGS, 0.25), dice.choice("1112"), "1" if exclusive else "-"]
        row += ["Y" if self.forthcoming and self.chance(0.4) else "N"]
        self.picture.instances.append(row)

    def _settle(self) -> None:
        full = self.chance(0.2)
        for node in self.picture.nodes:
            memory, disk, spindles = left_on(node, self.picture.instances)
            if full and self.chance(0.5):
                node[2], memory = str(int(node[2]) + max(0, memory - 64)), min(memory, 64)
            node[3], node[5] = str(max(0, memory)), str(max(0, disk))
            node[12] = str(max(0, spindles)) if node[11] == "Y" else "0"

    def _policy(self, owner: str) -> list[str]:
        dice = self.dice
        low, high = dice.choice((64, 128, 512)), dice.choice((1024, 2048, 4096))
        ranges = [f"{low},1,1024,1,1,1", f"{high},4,{dice.choice((10240, 20480))},{dice.choice((1, 4))},8,4"]
        if self.chance(0.3):
            ranges += [f"{high},2,10240,1,1,1", f"{high * 2},8,40960,16,8,12"]
        some = [name for name in TEMPLATES if self.chance(0.75)] or ["plain"]
        dice.shuffle(some)
        standard = f"{dice.choice((512, 1024))},1,{dice.choice((4096, 10240))},1,1,1"
        ratios = [dice.choice(("1.0", "2.5", "4", "16.0")), dice.choice(("1.5", "8", "32.0"))]
        return [owner, standard, ";".join(ranges), ",".join(some), *ratios]


class _Line:
    """A command line over a scene."""

    def __init__(self, seed: int, tool: str) -> None:
        self.dice, self.tool = random.Random(f"third-{seed}-{tool}"), tool
        self.scene = _Scene(self.dice, tool)
        self.picture = self.scene.picture
        self.case = Case(seed, tool)
        self.words: list[list[str]] = []
        self._last: list[str] = []
        {"hail": self._hail, "hscan": self._hscan}.get(tool, self._usual)()
        self.dice.shuffle(self.words)
        self.case.arguments = [word for option in self.words for word in option] + self._last

    def add(self, share: float, *choices: str) -> None:
        if self.dice.random() < share:
            self.words.append([self.dice.choice(choices)])

    def _rows(self) -> str:
        """The text file; in some, one field of one line says something else."""
        picture, dice = self.picture, self.dice
        sections = [picture.groups, picture.nodes, picture.instances, [[tag] for tag in picture.tags], picture.policies]
        if dice.random() < 0.3:
            rows = dice.choice([section for section in sections if section])
            row = dice.choice(rows)
            place = dice.randrange(len(row))
            kind = dice.random()
            if kind < 0.75:
                row[place] = dice.choice(_ODD_WORDS)
            elif kind < 0.85:
                row[place] += dice.choice(_ODD_WORDS)
            elif kind < 0.9:
                del row[place + 1 :]
            elif kind < 0.95:
                rows.append(list(row))
            else:
                row[place] = dice.choice([word for other in rows for word in other])
        if not picture.policies and dice.random() < 0.5:
            sections.pop()
        end = "\r\n" if dice.random() < 0.01 else "\n"
        text = end.join("".join(f"{'|'.join(row)}{end}" for row in section) for section in sections)
        if dice.random() < 0.02:
            text = dice.choice(
                ("\ufeff" + text, text + end + "rest", end + text, "", end, text.replace(end * 2, end * 3, 1))
            )
        if dice.random() < 0.02:
            text = text.replace("node", dice.choice(("n\udce9de", "\udcff", "\udcc3\udca9\udcc3")), 2)
        return text

    def _source(self) -> None:
        kind, dice = self.dice.random(), self.dice
        if kind < 0.1 and self.tool != "hsqueeze":
            self.picture.instances = []
            self.case.files[REQUEST] = json.dumps(to_message(self.picture, dice))
            self.words.append(["-I", REQUEST])
        elif kind < 0.2 and self.tool != "hsqueeze":
            self.case.files |= to_answers(self.picture, dice)
            self.words.append(["-m", "file://."])
        elif kind < 0.26 and self.tool == "hspace":
            for _ in range(dice.choice((1, 1, 2, 3))):
                self.words.append([f"--simulate={self._simulated()}"])
        else:
            self.case.files[CLUSTER] = self._rows()
            self.words.append(["-t", CLUSTER])

    def _simulated(self) -> str:
        dice = self.dice
        disk, memory = (
            dice.choice(("100g", "50G", "1t", "102400", "99.5g", "0", "-1g", "5 g", "2TB")),
            dice.choice(("4g", "8192m", "8G", "4096", "1e3", "4GiB")),
        )
        words = [dice.choice(("p", "a", "u", "preferred", "last_resort", "x", "P")), dice.choice(("1", "2", "3", "0"))]
        words += [disk, memory, dice.choice(("4", "8", "0", "2.5"))]
        words += [dice.choice(("1", "6", "x"))] if dice.random() < 0.3 else []
        words += [dice.choice(("True", "False", "Y", "true"))] if len(words) == 6 and dice.random() < 0.6 else []
        return ",".join(words)

    def _voices(self) -> None:
        self.words += [["-v"]] * self.dice.choice((0, 0, 0, 1, 2, 3, 4))
        if self.tool not in ("hail", "hscan", "hsqueeze"):
            self.add(0.1, "-q")

    def _usual(self) -> None:
        self._source()
        self._voices()
        getattr(self, f"_{self.tool}")()
        if self.tool in ("hbal", "hinfo", "hspace", "hroller", "hcheck"):
            for _ in range(self.dice.choice((0, 0, 0, 1, 2))):
                self.add(1, f"-O{self.dice.choice(self.picture.nodes)[0]}", "-Onode00", "-Onode0")
        if self.tool in ("hbal", "hinfo", "hspace", "hroller", "hsqueeze"):
            self.add(0.05, *(f"--static-kvm-node-memory={word}" for word in ("0", "512", "0x200", "1e2", "")))

    def _limits(self) -> None:
        self.add(0.15, "--max-cpu=2", "--max-cpu=0.25", "--max-cpu=1e1", "--max-cpu=0x2")
        self.add(0.15, "--min-disk=0.3", "--min-disk=0.95", "--min-disk=1", "--min-disk=-1")

    def _balancing(self) -> None:
        self.add(0.97, "-l3", "-l2", "-l1", "-l0", "-l5", "-l0x2", "-l-1" if len(self.picture.instances) < 6 else "-l1")
        self._limits()
        self.add(0.2, "-g0", "-g0.5", "-g-1", "-gNaN", "-g1e-4")
        self.add(0.2, "--min-gain-limit=0", "--min-gain-limit=3", "--min-gain-limit=100")
        self.add(0.2, "-e0", "-e1", "-e4", "-e1e-2", "-e-3")
        for share, word in (
            (0.2, "-E"),
            (0.1, "--no-disk-moves"),
            (0.1, "--no-instance-moves"),
            (0.2, "--ignore-soft-errors"),
        ):
            self.add(share, word)
        names = [one[0] for one in self.picture.instances]
        for option in ("--select-instances", "--exclude-instances"):
            self.add(0.12, f"{option}={','.join(name for name in names if self.dice.random() < 0.5)}")
        self.add(0.1, "--exclusion-tags=customer", "--exclusion-tags=service,customer", "--exclusion-tags=,")
        self._loads()

    def _loads(self) -> None:
        if self.picture.loads is not None:
            self.case.files[LOADS] = self.picture.loads
            self.words.append(["-U", LOADS])
            if self.dice.random() < 0.15:
                self.case.files[LOADS] += self.dice.choice(_ODD_LOADS)
        self.add(0.1, "--ignore-dynu")

    def _tables(self) -> None:
        self.add(0.3, "-p", "-p+plist,slist", "-pname,pfmem,ptags,peermap", "-pstatus,+name", "-pname,,idx", "-p++idx")
        self.add(0.25, "--print-instances")

    def _hbal(self) -> None:
        self._balancing()
        self._tables()
        groups = self.picture.groups
        if len(groups) > 1 or self.dice.random() < 0.1:
            self.add(0.95, *(f"-G{group[0]}" for group in groups))
        self.add(0.15, "--restricted-migration")
        self.add(0.3, "-C", "-Ccommands.sh", "--print-commands=commands.sh")
        self.add(0.1, "--first-job-group")
        self.add(0.1, "-Ssaved")
        if self.dice.random() < 0.08:
            self.case.files["reports"] = to_reports(self.picture, self.dice)
            self.words += [["--mond"], ["--mond-data=reports"]]
            self.add(0.3, "--mond-xen")
        self.add(0.02, "-X", "--idle-default", "--mond=maybe")

    def _hcheck(self) -> None:
        self._balancing()
        self.add(0.5, "--machine-readable", "--machine-readable=yes", "--machine-readable=no", "--machine-readable=1")
        self.add(0.3, "--no-simulation")
        self.add(0.3, "--no-capacity-checks")

    def _hinfo(self) -> None:
        self._tables()
        self.add(0.2, "--ignore-dynu")

    def _hspace(self) -> None:
        self._limits()
        self.add(0.6, *(f"--disk-template={name}" for name in (*TEMPLATES, "drbd", "drbd8", "")))
        self.add(0.5, "--machine-readable", "--machine-readable=yes", "--machine-readable=no")
        self.add(0.35, "-l1", "-l3", "-l20")
        sizes = (
            "10g,2g,2",
            "4g,512m,1",
            "20g,1g,4,2",
            "3000m,700,1",
            "10G,1G,1",
            "0,512,1",
            "5g,0,1",
            "5g,1g,0",
            "5g,1g",
            "1g,1g,1,1,1",
        )
        self.add(0.6, *(f"--standard-alloc={size}" for size in sizes))
        self.add(0.8, *(f"--tiered-alloc={size}" for size in sizes))
        self.add(0.1, "--spindle-use=2", "--spindle-use=0", "--spindle-use=x")
        for share, word in (
            (0.3, "--accept-existing-errors"),
            (0.3, "--independent-groups"),
            (0.2, "--no-capacity-checks"),
        ):
            self.add(share, word)
        self.add(0.2, "-p", "-pname,fmem,fdsk,pcnt")
        self.add(0.1, "-Ssaved")

    def _hroller(self) -> None:
        self.add(0.3, *(f"-G{group[0]}" for group in self.picture.groups))
        for share, word in (
            (0.3, "--offline-maintenance"),
            (0.2, "--no-headers"),
            (0.4, "--print-moves"),
            (0.2, "--skip-non-redundant"),
            (0.3, "--ignore-non-redundant"),
            (0.3, "-f"),
            (0.2, "--one-step-only"),
            (0.1, "-Ssaved"),
        ):
            self.add(share, word)
        self.add(0.2, "--node-tags=rack:a", "--node-tags=rack:a,power:1", "--node-tags=", "--node-tags=nothing")

    def _hsqueeze(self) -> None:
        for option in ("--minimal-resources", "--target-resources"):
            self.add(0.5, *(f"{option}={word}" for word in ("0", "1", "4", "15", "2.5", "-1", "0x2")))
        self.add(0.4, "-C", "-Ccommands.sh")
        self.add(0.1, "-Ssaved")
        self.add(0.1, "--no-headers")

    def _hscan(self) -> None:
        self._voices()
        self.case.files |= to_answers(self.picture, self.dice)
        self._last = self.dice.choice((["file://."], ["file://.", "file://./"], ["file:///nowhere", "file://."]))
        self.add(0.3, "-p", "-pname,fmem", "-p+idx")
        self.add(0.2, "--no-headers")
        self.add(0.2, "-d.", "-dnowhere", "-d..")
        self.add(0.1, "--static-kvm-node-memory=0")

    def _hail(self) -> None:
        dice = self.dice
        message = to_message(self.picture, dice)
        message["version"], message["request"] = 2, self._request()
        self.case.files[REQUEST] = json.dumps(message)
        self.words += [["-v"]] * dice.choice((0, 0, 0, 1))
        named = message["request"].get("group_name") is not None
        self.add(1.0 if named else 0.25, "--no-capacity-checks")
        self.add(0.15, "--ignore-soft-errors")
        self.add(0.1, "--ignore-dynu")
        self.add(0.3, "--static-kvm-node-memory=0", "--static-kvm-node-memory=300")
        names = ",".join(node[0] for node in self.picture.nodes if dice.random() < 0.6)
        self.add(0.1, f"--restrict-allocation-to={names}")
        self._last = [REQUEST]

    def _request(self) -> dict[str, Any]:
        dice = self.dice
        names = [one[0] for one in self.picture.instances]
        groups = [group[0] for group in self.picture.groups]
        kind = dice.choice(("allocate", "multi-allocate", "relocate", "node-evacuate", "change-group", "change-group"))
        if kind == "allocate" or not names:
            # One that is named by its UUID 3.0.2 takes for one of exclusive storage.
            named = {"group_name": dice.choice(groups)} if dice.random() < 0.3 else {}
            return {"type": "allocate", **self._wanted(0), **named}
        if kind == "multi-allocate":
            exclusive = any(node[11] == "Y" for node in self.picture.nodes)
            count = 1 if exclusive else dice.choice((1, 2, 4, 8))
            return {"type": kind, "instances": [self._wanted(number) for number in range(count)]}
        if kind == "relocate":
            one = dice.choice(self.picture.instances)
            return {"type": kind, "name": one[0], "required_nodes": 1, "relocate_from": [one[7] or one[6]]}
        some = [name for name in names if dice.random() < 0.3] or names[:1]
        if kind == "node-evacuate":
            mode = dice.choice(("primary-only", "secondary-only", "all"))
            return {"type": kind, "instances": some, "evac_mode": mode}
        # Of a group that is named twice 3.0.2 leaves one mention although instances are in it.
        targets = [dice.choice(group[:2]) for group in self.picture.groups if dice.random() < 0.4]
        dice.shuffle(targets)
        return {"type": kind, "instances": some, "target_groups": targets}

    def _wanted(self, number: int) -> dict[str, Any]:
        dice = self.dice
        memory, disk, cpus = dice.choice(_GUESTS)
        template = dice.choice(("drbd", "drbd", *TEMPLATES))
        exclusive = any(node[11] == "Y" for node in self.picture.nodes)
        disks = [{"size": disk, "mode": "rw"} | ({"spindles": 1} if exclusive else {})] * dice.choice((1, 1, 2, 3))
        return {
            "name": f"new{number}{self.scene.suffix}",
            "memory": memory,
            "vcpus": cpus,
            "spindle_use": dice.choice((1, 1, 2)),
            "disks": [] if template == "diskless" else disks,
            "disk_space_total": 0 if template == "diskless" else len(disks) * (disk + 128 * (template == "drbd")),
            "disk_template": template,
            "required_nodes": 1 + (template == "drbd"),
            "nics": [],
            "os": "noop",
            "tags": [tag for tag in _GUEST_TAGS if self.scene.tagged and dice.random() < 0.25],
            "hypervisor": "kvm",
        }
