# SPDX-License-Identifier: BSD-2-Clause
"""Names, types, sources and titles of query fields are those of docs/spec/rapi.md, section 4."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti.master.query.fields import Field
from ganeti.master.query.resources import declared
from ganeti.node.catalogue import build_catalogue

SPEC = (Path(__file__).parents[2] / "docs" / "spec" / "rapi.md").read_text()
SECTION = re.compile(
    r"^#### (\w+) \((?:via|\d+)[^\n]*\n(.*?)(?=^#### |^Instance status values|\Z)", re.MULTILINE | re.DOTALL
)
ROW = re.compile(r"^\| `(.+?)` \| (.+?) \| (.+?) \| (.*) \|$", re.MULTILINE)
TITLES = re.compile(r"\b(Node|Instance|Group|Network|Job): (.*?)(?= Network: |\n)")
ASKED_FOR = {"instance.status"}
"""Computed from what the nodes say, which the spec counts as configuration."""
ABBREVIATED = {"nic.X/N"}
"""Titles that the spec writes short."""
PER_DISK, PER_NIC = 16, 8
RESOURCES = {name: each.with_drivers(build_catalogue()) for name, each in declared().items()}


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Resource, field, type and kind, both empty where the spec names the field alone."""
    for resource, text in SECTION.findall(SPEC):
        for names, types, kind, meaning in ROW.findall(text):
            if names == "aliases":
                yield from ((resource, name, "", "") for name in aliases(meaning))
                continue
            of_each = types.split(", ")
            for index, name in enumerate(names.split(", ")):
                for one in expanded(name, meaning):
                    yield resource, one, of_each[min(index, len(of_each) - 1)], kind
        if not ROW.search(text):
            names = re.sub(r"\(alias (\w+)\)", r", \1", text).split(". (")[0]
            yield from ((resource, name, "", "") for name in re.findall(r"\w+", names))


def expanded(name: str, meaning: str) -> list[str]:
    """``ndp/X`` stands for the names in brackets, ``disk.size/N`` for one name a disk."""
    if name.endswith("/N"):
        return [f"{name[:-1]}{number}" for number in range(PER_DISK if name.startswith("disk.") else PER_NIC)]
    if not name.endswith("/X"):
        return [name]
    listed = re.search(r"[:(] ?((?:\w+, )+\w+)\)?$", meaning)
    return [f"{name[:-1]}{each}" for each in listed[1].split(", ")] if listed else []


def aliases(meaning: str) -> list[str]:
    return [name for names in re.findall(r"([\w/, ]+) =", meaning) for name in names.strip(" ,").split(", ")]


def titles() -> Iterator[tuple[str, str, str]]:
    """Resource, field and title, where the spec writes both out."""
    for resource, text in TITLES.findall(SPEC):
        for part in text.split("; "):
            prefix, colon, items = part.rpartition("/: ")
            for item in items.rstrip(". ").split(", "):
                found = re.fullmatch(r"([\w./]+) ([\w/]+)(?: \(.*)?", item)
                if found and found[1] not in ABBREVIATED:
                    name = f"{prefix}{'/' if colon else ''}{found[1]}"
                    yield resource.lower(), name.replace("/N", "/1"), found[2].replace("/N", "/1")


def field(resource: str, name: str) -> Field:
    return RESOURCES[resource].fields[name]


@pytest.mark.parametrize("resource", sorted({resource for resource, *_ in rows()}))
def test_fields_are_as_in_the_spec(resource):
    for _, name, types, kind in (row for row in rows() if row[0] == resource):
        found = field(resource, name)
        assert types in ("", "per type", found.kind), name
        if resource in ("node", "instance") and f"{resource}.{name}" not in ASKED_FOR:
            assert kind in ("", "live" if found.live else "config"), name


def test_titles_are_as_in_the_spec():
    wanted = list(titles())
    assert [(resource, name, field(resource, name).title) for resource, name, _ in wanted] == wanted


PARAMETERS = re.compile(r"^\| `(\w+)` \| (string|string or null|bool|int|float|[^|]*bytes[^|]*) \|", re.MULTILINE)
KINDS = {"bool": "bool", "int": "number", "float": "float"}
FOR_THE_WHOLE_CLUSTER = {"migration_port", "migration_bandwidth", "migration_mode"}


def hypervisor_parameters() -> Iterator[tuple[str, str]]:
    """Name and type of each parameter of a hypervisor that an instance may have."""
    text = (Path(__file__).parents[2] / "docs" / "spec" / "opcodes.md").read_text()
    for _, table in re.findall(r"^### `(kvm|xen-pvm|xen-hvm|lxc|chroot|fake)` [^\n]*\n(.*?)(?=^##)", text, re.M | re.S):
        yield from (found for found in PARAMETERS.findall(table) if found[0] not in FOR_THE_WHOLE_CLUSTER)


def test_lists_know_the_parameters_of_every_hypervisor() -> None:
    wanted = {(name, KINDS.get(kind, "other")) for name, kind in hypervisor_parameters()}
    assert len(wanted) > 80
    assert {(name, field("instance", f"hv/{name}").kind) for name, _ in wanted} == wanted


@pytest.mark.parametrize("resource", ["node", "group"])
def test_text_among_node_parameters_is_of_another_kind(resource: str) -> None:
    names = [name for name in RESOURCES[resource].fields if name.startswith("ndp/")]
    kinds = {name: field(resource, name).kind for name in names}
    assert len(kinds) == 8
    assert {name for name, kind in kinds.items() if kind == "other"} == {
        "ndp/oob_program",
        "ndp/ovs_link",
        "ndp/ovs_name",
    }
    assert "text" not in kinds.values()


def test_every_resource_of_the_spec_is_read():
    assert {resource for resource, _, _, _ in rows()} == set(RESOURCES)
    assert len(list(rows())) > 300
    assert len(list(titles())) > 100
