# SPDX-License-Identifier: BSD-2-Clause
"""Command lines and input files of the placement tools whose exact outcome is recorded from Debian's binaries.

    command_lines.py PEER... > command_lines.json

PEER is the command to put before a tool's name, such as what ``setup/peer-htools`` prints. Recorded are status, both
outputs and the files written. Only outcomes that do not depend on balancing or allocation are here, but for a few of
hail; release numbers are replaced by words, and explanations of options left out.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOOLS = ("hbal", "hail", "hcheck", "hinfo", "hroller", "hscan", "hspace", "hsqueeze", "harep")
GROUP = "default|u1|preferred||"
NODE_1 = "n1.x|16384|1024|14848|409600|368512|8|M|u1|1||N|0|1|1.0"
NODE_2 = "n2.x|16384|1024|15360|409600|368512|8|N|u1|1||N|0|1|1.0"
INSTANCE = "i1.x|512|41088|1|running|Y|n1.x|n2.x|drbd||1|-|N"
POLICY = "|1024,1,10240,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|diskless,drbd|4.0|32.0"
WORDS = ("", "x", "-5", "?", "1.5", "99999999999999999999", " 7", "1e3", "0x1F", "(3)", "n1.x", "plain", "N", "- 2")
REQUEST = json.dumps(
    {
        "nodegroups": {},
        "nodes": {},
        "instances": {},
        "cluster_tags": [],
        "request": {"type": "multi-allocate", "instances": []},
        "enabled_hypervisors": [],
        "ipolicy": {},
        "cluster_name": "c",
        "version": 2,
    }
)
SAVE = ("hbal", "-l0", "-S", "saved", "-t", "data", "-q")
"""Reads a cluster and writes it again; the rest of what it says is not recorded."""


@dataclass
class Case:
    """One run. *what* says which parts of the outcome count: ``oes`` for output, errors, and files written.

    *lenient*: a mistake of the input may be overlooked, or told in other words (old inputs are short: S5.43).
    """

    arguments: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    stdin: str = ""
    what: str = "oe"
    lenient: bool = False


def text(
    groups: tuple[str, ...] = (GROUP,),
    nodes: tuple[str, ...] = (NODE_1, NODE_2),
    instances: tuple[str, ...] = (INSTANCE,),
    tags: tuple[str, ...] = (),
    policies: tuple[str, ...] = (POLICY,),
) -> str:
    return "\n".join("".join(f"{line}\n" for line in part) for part in (groups, nodes, instances, tags, policies))


def saved(data: str, *options: str) -> Case:
    return Case((*SAVE, *options), {"data": data}, what="es")


def _apart(words: str) -> list[str]:
    return words.split("~")


def all_cases() -> Iterator[Case]:
    yield from help_texts()
    yield from bad_lines()
    yield from values()
    yield from back_ends()
    yield from text_files()
    yield from text_fields()
    yield from offline_and_instances()
    yield from simulations()
    yield from utilizations()
    yield from allocator_inputs()


def help_texts() -> Iterator[Case]:
    for tool in TOOLS:
        for option in ("--help", "--version", "--help-completion"):
            yield Case((tool, option))
    for words in (
        "-V -h",
        "-h -V",
        "--help-completion -V",
        "a -h",
        "-Eh",
        "-vqEV",
        "--vers",
        "--help-comp",
        "a --help-co",
    ):
        yield Case(("hbal", *words.split()))


def bad_lines() -> Iterator[Case]:
    lines = (
        *(
            "--nonsense",
            "-Z",
            "--min",
            "--pri",
            "--v",
            "--he",
            "--min-score",
            "-t",
            "-g",
            "--evac=1",
            "-E=1",
            "--help=1",
        ),
        *(
            "-Z -Y --foo --bar=1",
            "--min -Z --evac=1 -t",
            "-EZt",
            "--offline",
            "-vZq",
            "x y",
            "-",
            "-- -h",
            "-E--foo",
            "--",
        ),
        *(
            "-E-",
            "--=",
            "--=x",
            "---",
            "--no",
            "--no-d --no-i --no",
            "-h -Z",
            "-ltx",
            "-pZ -C -L --mond=",
            "x --evac-mode y",
        ),
    )
    for line in lines:
        yield Case(("hbal", *line.split()))
    for tool in TOOLS:
        if tool != "hscan":
            yield Case((tool, "a", "b"))
            yield Case((tool, "--nonsense"))


def values() -> Iterator[Case]:
    numbers = _apart(
        "x~~1~ 1~1 ~0x10~0o17~0b1~1.5~.5~5.~1e3~1e400~-1~- 1~+1~(1)~((-1))~(-(1))~-(1)~NaN~nan~Infinity~"
        "-Infinity~Infinit~NaNx~1_0~1e~1e+2~1.5e-3~0x~0xg~99999999999999999999~1 2~(1~1)~\t1~1\t~007~1.~"
        "1.e3~٣~²"
    )
    for option in ("-l", "--max-cpu=", "--static-kvm-node-memory="):
        for number in numbers:
            yield Case(("hbal", f"{option}{number}" if option != "-l" else f"--max-length={number}"))
    for option in ("--min-disk", "--min-gain", "--min-gain-limit", "--min-score", "-e", "-g"):
        yield Case(("hbal", option, "x1"))
    for word in ("", "low", "LOW", "foo"):
        yield Case(("hbal", f"--priority={word}"))
    for tool, option in (("hbal", "mond"), ("hcheck", "machine-readable"), ("hspace", "machine-readable")):
        for word in ("", "=", "=yes", "=no", "=x", "=YES"):
            yield Case((tool, f"--{option}{word}"))
    specs = _apart(
        "1,2~a,2,3~1,b,3~1,2,c~1g,2g,1,0~1,2,3,4,5~~1,2,3,x~-1,2,3~1 G,2 m,3~1gb,2xb,3~1.5g,2,3~1,2,3,~,,~"
        "0x10,2,3~ 1,2,3~1,2, 3~1t,1T,1~1tb,1TB,1~1mib,2,3~1k,2,3~g,1,1"
    )
    for option in ("standard-alloc", "tiered-alloc"):
        for spec in specs:
            yield Case(("hspace", f"--{option}={spec}"))
    for word in ("", "drbd", "drbd8", "DRBD", "x1"):
        yield Case(("hspace", f"--disk-template={word}"))
    for word in ("0", "-1", "x1", "1.5", "99999999999999999999"):
        yield Case(("hspace", f"--spindle-use={word}"))
    for option in ("--minimal-resources", "--target-resources"):
        yield Case(("hsqueeze", f"{option}=x1"))
    yield Case(("harep", "--job-delay=x1"))


def back_ends() -> Iterator[Case]:
    data = {"data": text()}
    for tool in ("hbal", "hcheck", "hinfo", "hspace"):
        yield Case((tool,))
        for options in (
            "-t none",
            "-t .",
            "-t data -m foo",
            "-t data -L",
            "-L -m foo",
            "-t data -m foo -L",
            "-t data/x",
        ):
            yield Case((tool, *options.split()), data)
    yield Case(("hbal", "-t", ""))
    yield Case(("hail",))
    yield Case(("hail", "a", "b"))
    for name in ("none", ".", "data/x"):
        yield Case(("hail", name), data)
    yield Case(("hbal", "-U", "none", "-t", "data"), data)


def text_files() -> Iterator[Case]:
    pieces = (GROUP, NODE_1, NODE_2, INSTANCE)
    first = f"{GROUP}\n\n{NODE_1}\n{NODE_2}\n\n{INSTANCE}\n"
    files = (
        "",
        "\n",
        "\n\n\n\n\n",
        GROUP,
        first,
        f"{first}\n",
        f"{first}\ntag",
        f"{first}\n\n\n\nfoo\n",
        f"{first}\ntag\nu|v\n",
    )
    for data in (
        *files,
        "\n".join(pieces),
        "\r\n".join((GROUP, "", NODE_1, "", INSTANCE, "", "")),
        first[:-20],
        f"\n{first}\n",
    ):
        yield saved(data)
    yield saved(text(nodes=(NODE_1, NODE_2.replace("n2.x", "né")), instances=(INSTANCE.replace("n2.x", "né"),)))
    yield saved(text(tags=("a", "htools:iextags:b", " c ", "d|e")))
    yield saved(text(nodes=(NODE_1, NODE_1, NODE_2)))
    yield saved(text(instances=(INSTANCE, INSTANCE)))
    yield saved(text(groups=(GROUP, GROUP)))
    yield saved(text(groups=(GROUP, GROUP.replace("u1", "u2")), policies=(f"default{POLICY}",)))
    yield saved(
        text(groups=(GROUP, "other|u2|unallocable|t1,t2|net1,net2|more"), policies=(f"other{POLICY}", POLICY)),
        "-Gdefault",
    )
    yield saved(text(policies=(POLICY, POLICY.replace("4.0", "2.5"))))
    yield saved(text(policies=(f"foo{POLICY}", POLICY.replace("4.0", "a"))))
    yield saved(text(policies=(f"foo{POLICY}".replace("4.0", "a"),)))
    yield saved(text(instances=(INSTANCE.replace("512", "a"),), policies=(f"foo{POLICY}",)))
    yield saved(text(instances=(INSTANCE.replace("n2.x", "n1.x"),)))
    yield saved(text(instances=(INSTANCE.replace("n2.x", "n1.x").replace("512", "a"),)))
    yield saved(text(instances=(INSTANCE.replace("n2.x", "n1.x").replace("drbd", "plain"),)))
    yield saved(text(instances=(INSTANCE.replace("|N", "|Z").replace("n2.x", "n1.x"),)))
    for quoted in ('a"b\\c', "é\t", "\x7f\x01", "１"):
        yield saved(text(groups=(quoted,)))


def _with(line: str, changes: dict[int, str], length: int | None = None) -> str:
    fields = line.split("|")
    for number, word in changes.items():
        if number < len(fields):
            fields[number] = word
        else:
            fields.append(word)
    return "|".join(fields[:length])


def text_fields() -> Iterator[Case]:
    """Each field of each line in turn, pairs of bad ones (which is told of first?), and shortened lines."""
    kinds = (("groups", GROUP, 6), ("nodes", NODE_1, 16), ("instances", INSTANCE, 14), ("policies", POLICY, 7))
    for section, line, fields in kinds:
        for length in range(1, fields - 1):
            yield saved(_section(section, _with(line, {}, length)))
        for number in range(fields):
            for word in WORDS:
                yield saved(_section(section, _with(line, {number: word})))
        for first in range(1, fields - 1):
            for second in range(first + 1, fields - 1):
                yield saved(_section(section, _with(line, {first: f"a{first}", second: f"b{second}"})))
    for word in (
        "1,2,3,4,5,6",
        "1,2,3,4,5,6;1,2,3,4,5,6",
        "1,2,3,4,5,6;1,2,3,4,5,y",
        "1,x,3,4,5,6;1,2",
        "1,2,3,4,5,6;",
        ";",
        "drbd,foo",
    ):
        for number in (1, 2, 3):
            yield saved(_section("policies", _with(POLICY, {number: word})))
            yield saved(_section("policies", _with(f"default{POLICY}", {number: word})))
    for ratio in (
        "1e3",
        "1e-3",
        "0.1",
        "0.05",
        "12345678.5",
        "9999999.0",
        "1e7",
        "1e22",
        "5e-324",
        "0",
        "-0.0",
        "NaN",
        "0.1e0",
        "123456.789",
    ):
        yield saved(_section("policies", _with(POLICY, {4: ratio, 5: f"-{ratio}"})))
        yield saved(_section("nodes", _with(NODE_1, {1: ratio, 4: ratio, 6: ratio, 14: ratio})))


def _section(name: str, line: str) -> str:
    if name == "groups":
        return text(groups=(GROUP, line))
    if name == "nodes":
        return text(nodes=(line, NODE_2))
    return text(instances=(line,)) if name == "instances" else text(policies=(line,))


def offline_and_instances() -> Iterator[Case]:
    data = text(instances=(INSTANCE, INSTANCE.replace("i1.x", "i10.x"), INSTANCE.replace("i1.x", "i10.x.y")))
    for word in ("n1", "n1.x", "n", "foo", "n1.", "", "n1,n2", "N1", "n1.x "):
        yield saved(data, "-O", word)
    yield saved(data, "-Ofoo", "-Obar", "-On1")
    for word in ("i1", "i1.x", "i10", "i10.x", "i", "foo", "foo,bar", "", "i1,i1", "i1,foo", ",", "i1,"):
        yield saved(data, f"--select-instances={word}")
        yield saved(data, f"--exclude-instances={word}")
    yield saved(data, "--select-instances=foo", "--exclude-instances=bar", "-Obaz")
    yield saved(data, "--select-instances=foo", "--select-instances=i1")
    yield saved(data, "--exclude-instances=foo", "--exclude-instances=i1")


def simulations() -> Iterator[Case]:
    specs = _apart(
        "p,3,1t,32g,16~preferred,2,1t,32g,16,4,True~a,1,1,1,1,1,False~u,1,1g,1g,1~x,1,1,1,1~p,x,1,1,1~"
        "p,1,x,1,1~p,1,1,x,1~p,1,1,1,x~p,1,1,1,1,x~p,1,1,1,1,1,x~p,1~~p,1,1,1,1,1,True,1~p,0,1,1,1~"
        "p,-1,1,1,1~p,2,1gb,1gb,4~p,1,1,1,1,~p,1000,1,1,1~p,1,1q,1,1~last_resort,1,1,1,1~p, 1,1,1,1~"
        "p,1,-1,-1,-1~p,1,1.5,1,1~p,1,1,1,1.5~p,1,1,1,1,1,true"
    )
    for spec in specs:
        yield Case(("hail", "-S", "saved", "request", f"--simulate={spec}"), {"request": REQUEST}, what="es")
    for several in (("p,2,1g,1g,1", "a,1,2g,2g,2"), ("p,2,1g,1g,1", "z", "y")):
        options = [f"--simulate={spec}" for spec in several]
        yield Case(("hail", "-S", "saved", "request", *options), {"request": REQUEST}, what="es")


def utilizations() -> Iterator[Case]:
    lines = _apart(
        "i1.x 1 2 3 4\n~i1 1 2 3 4~zz 1 2 3 4~i1.x 1 2 3~i1.x a 2 3 4~i1.x  1 2 3 4~~\n~i1.x 1 2 3 4\n\n~"
        "i1.x 1 2 3 4 5~i1.x -1 2 3 1e9~i1.x 1 2 3 4\ni1.x 5 6 7 8~i1.x 1 2 3 x\n~i1.x .5 1 1 1"
    )
    for content in lines:
        yield Case((*SAVE, "-U", "load"), {"data": text(), "load": content}, what="es")
        yield Case((*SAVE, "-U", "load", "--ignore-dynu"), {"data": text(), "load": content}, what="es")


SPEC = {"memory-size": 128, "cpu-count": 1, "disk-size": 1024, "disk-count": 1, "nic-count": 1, "spindle-use": 1}
IPOLICY = {
    "std": SPEC,
    "minmax": [{"min": SPEC, "max": SPEC}],
    "disk-templates": ["drbd", "plain"],
    "vcpu-ratio": 4.0,
    "spindle-ratio": 32.0,
}
NODE = {
    "tags": ["t"],
    "offline": False,
    "drained": False,
    "vm_capable": True,
    "group": "u1",
    "ndparams": {"spindle_count": 2, "exclusive_storage": False},
    "total_memory": 16384,
    "reserved_memory": 1024,
    "free_memory": 14848,
    "total_disk": 409600,
    "free_disk": 368512,
    "total_cpus": 8,
    "reserved_cpus": 1,
    "total_spindles": 0,
    "free_spindles": 0,
}
PLACED = {
    "tags": ["a:b"],
    "admin_state": "up",
    "vcpus": 1,
    "memory": 512,
    "spindle_use": 1,
    "nodes": ["n1.x", "n2.x"],
    "disks": [{"mode": "rw", "size": 40960}],
    "disk_space_total": 41088,
    "disk_template": "drbd",
    "nics": [{"ip": None, "mac": "aa:00:00:00:00:01", "mode": "bridged", "link": "br0", "network": None}],
}
NEW = {
    "type": "allocate",
    "name": "new.x",
    "required_nodes": 2,
    "disk_space_total": 1152,
    "disks": [{"mode": "rw", "size": 1024}],
    "nics": [],
    "vcpus": 1,
    "disk_template": "drbd",
    "memory": 128,
    "tags": [],
    "spindle_use": 1,
}
REQUESTS: dict[str, dict[str, Any]] = {
    "allocate": NEW,
    "relocate": {"type": "relocate", "name": "i1.x", "required_nodes": 1, "relocate_from": ["n2.x"]},
    "node-evacuate": {"type": "node-evacuate", "evac_mode": "primary-only", "instances": ["i1.x"]},
    "change-group": {"type": "change-group", "target_groups": ["u2"], "instances": ["i1.x"]},
    "multi-allocate": {"type": "multi-allocate", "instances": [NEW]},
    "allocate-secondary": {"type": "allocate-secondary", "name": "i1.x"},
}
WRONG: tuple[Any, ...] = ("x", 5, -1, 1.5, 7.0, [], {}, True)
FORGIVEN = ("version", "tags", "networks", "network", "spindle_count", "exclusive_storage", "nodes", "ip", "mode")
"""What is read more leniently than 3.1 does, or not at all."""


def message() -> dict[str, Any]:
    """A small message that asks for nothing."""
    groups = {
        "u1": {"name": "default", "alloc_policy": "preferred", "networks": [], "ipolicy": IPOLICY, "tags": []},
        "u2": {"name": "other", "alloc_policy": "last_resort", "networks": ["net"], "ipolicy": IPOLICY, "tags": ["t"]},
    }
    found = json.loads(REQUEST) | {"nodegroups": groups, "nodes": {name: NODE for name in ("n1.x", "n2.x", "n3.x")}}
    found["nodes"]["n4.x"] = NODE | {"group": "u2"}
    found |= {"instances": {"i1.x": PLACED}, "cluster_tags": ["htools:iextags:a"], "enabled_hypervisors": ["kvm"]}
    copied: dict[str, Any] = json.loads(json.dumps(found))
    return copied


PARTS = (
    (),
    ("nodegroups", "u2"),
    ("nodegroups", "u2", "ipolicy"),
    ("nodegroups", "u2", "ipolicy", "std"),
    ("nodegroups", "u2", "ipolicy", "minmax", 0),
    ("nodes", "n1.x"),
    ("nodes", "n1.x", "ndparams"),
    ("instances", "i1.x"),
    ("instances", "i1.x", "disks", 0),
    ("instances", "i1.x", "nics", 0),
)


BAD_JSON = (
    *("", " ", "{", "[]", "{}", "nonsense", "5", '"x"', "{} x", "{}}", "[1", "[1,]", "[1}", "[,]", "{,}"),
    *(
        '{"a',
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":1,',
        '{"a":1,}',
        "{'a':1}",
        '{"a":[',
        '{"a":[1',
        '{"a":{"b":1',
        '{"a":tr',
    ),
    *('{"a":"x', '{"a":"x\\', '{"a":1 "b":2}', '{"a" 1}', '{"a":[1 2]}', '{"a":01}', '{"a":nope}', '{"a":"\\q"}'),
    *(
        '{"a":"\n"}',
        '{"a":.5}',
        '{"a":truex}',
        '{"a":[1,{"b":[1,2],"c":"}" 4}]}',
        "{} " + "y" * 30,
        '{"a":1 ' + "x" * 30,
    ),
)


def allocator_inputs() -> Iterator[Case]:
    """Messages to hail: bad JSON, and each key left out or of another type."""
    for data in BAD_JSON:
        yield Case(("hail", "-"), stdin=data)
    options = ("hail", "-S", "saved", "request")
    for part in PARTS:
        for key in list(_inside(message(), part)):
            for wrong in WRONG if key not in FORGIVEN else ():
                yield Case(options, {"request": json.dumps(_changed(message(), (*part, key), wrong))}, "", "es", True)
    for request in REQUESTS.values():
        for key in list(request):
            for wrong in WRONG if key not in FORGIVEN else ():
                changed = message() | {"request": _changed(json.loads(json.dumps(request)), (key,), wrong)}
                yield Case(("hail", "request"), {"request": json.dumps(changed)}, lenient=True)
        yield Case(("hail", "request"), {"request": json.dumps(message() | {"request": request})})
        yield Case(("hail", "-I", "request", "request"), {"request": json.dumps(message() | {"request": request})})
    for state in ("offline", "drained"):
        for key in NODE:
            node = {name: value for name, value in NODE.items() if name != key} | {state: True}
            yield Case(options, {"request": json.dumps(_changed(message(), ("nodes", "n3.x"), node))}, "", "es", True)
    yield Case(options, {"request": json.dumps(_changed(message(), ("nodes", "n3.x", "vm_capable"), False))}, what="es")
    yield Case(("hbal", "-I", "none"))
    yield Case(("hbal", "-I", "request"), {"request": "{"})
    yield Case(("hbal", "-I", "request"), {"request": "{}"})
    yield Case(("hbal", "-I", "request"), {"request": json.dumps(_changed(message(), ("nodes", "n1.x", "group"), "x"))})


def _inside(tree: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _changed(tree: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """*tree* with *value* at *path*, or without it for an ellipsis."""
    place = _inside(tree, path[:-1])
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return tree


def without_help(words: str) -> str:
    """Without the explanations of options, which each release has in its own words."""
    words = re.sub(r"^(Usage: \S+) .*", r"\1\n", words, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<=could be one of:\n)(?: .*\n)+", lambda found: _names(found[0]), words)


def _names(rows: str) -> str:
    return "".join(sorted(f"  {re.findall(r'--[a-z-]+', row)[0]}\n" for row in rows.splitlines()))


def normal(words: str) -> str:
    """Without what tells one release, system or way to start from another."""
    words = re.sub(r"^htools: ", "TOOL: ", words)
    words = re.sub(r"\(ganeti\) version \S+", "(ganeti) version RELEASE", words)
    words = re.sub(r"The cluster state .* has been written to file .*\n", "", words)
    words = re.sub(r"compiled with .*\nrunning on .*", "compiled with COMPILER\nrunning on SYSTEM", words)
    return without_help(words)


def run(peer: list[str], case: Case) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        for name, content in case.files.items():
            Path(place, name).write_bytes(content.encode())
        found = subprocess.run(
            [*peer, *case.arguments], input=case.stdin.encode(), capture_output=True, cwd=place, check=False
        )
        outcome: dict[str, Any] = {"status": found.returncode}
        if "o" in case.what:
            outcome["out"] = normal(found.stdout.decode())
        if "e" in case.what:
            outcome["err"] = normal(found.stderr.decode())
        if "s" in case.what:
            written = Path(place, "saved.pre-ialloc" if "hail" in case.arguments else "saved.original")
            outcome["saved"] = written.read_text() if written.exists() else None
    return outcome


def main() -> None:
    texts: dict[str, int] = {}
    outcomes = []
    for case in all_cases():
        found = run(sys.argv[1:], case)
        outcomes.append(
            {
                key: texts.setdefault(value, len(texts)) if isinstance(value, str) else value
                for key, value in found.items()
            }
        )
    print(json.dumps({"texts": list(texts), "outcomes": outcomes}, indent=0))


if __name__ == "__main__":
    main()
