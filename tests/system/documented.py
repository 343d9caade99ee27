# SPDX-License-Identifier: BSD-2-Clause
"""The tables of docs/operator/security.md, which a cluster is held to."""

import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/operator/security.md"
_CODE = re.compile(r"`([^`]+)`")
RENEW = "gnt-cluster renew-crypto"


def rows(heading: str, first: str) -> Iterator[list[str]]:
    """The cells of each row of the table below *heading* whose first column is called *first*."""
    text = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = text.partition(f"\n| {first}")[2].partition("\n\n")[0].splitlines()
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def users() -> dict[str, str]:
    """The user of each daemon."""
    found = {}
    for daemons, user, *_ in rows("Who a daemon is", "daemon"):
        found.update(dict.fromkeys(_CODE.findall(daemons), user.strip("`")))
    return found


def ports() -> dict[tuple[str, str], str]:
    """(``1811``, ``TCP``) to the program that listens there."""
    found = {}
    for port, program, *_ in rows("Ports", "port"):
        number, kind = port.split()
        found[number, kind] = _CODE.findall(program)[0]
    return found


def key_files() -> dict[str, str]:
    """Each key file of the data directory to mode and owner: ``440 gnt-masterd``, ``440 gnt-masterd:gnt-confd``."""
    found = {}
    for names, mode_and_owner, *_ in rows("Files", "key"):
        mode, owner = mode_and_owner.split()
        found.update(dict.fromkeys(_CODE.findall(names), f"{mode.lstrip('0')} {owner}"))
    return found


def remedies() -> dict[str, list[str]]:
    """The key files of each row, as the row names them, to the commands for when they are lost or known to others."""
    found = {}
    for names, _, _, remedy in rows("Files", "key"):
        spans = _CODE.findall(remedy)
        found[names] = [span if span.startswith("gnt-") else f"{RENEW} {span}" for span in spans if span[0] in "-g"]
    return found


def steps_after_a_theft() -> list[list[str]]:
    """The commands of each step of the section for nodes and keys in wrong hands; options alone belong to the last."""
    text = PAGE.read_text().partition("\n## A node or a key is in wrong hands\n")[2].partition("\n## ")[0]
    steps = []
    for step in re.split(r"^\d\. ", text, flags=re.MULTILINE)[1:]:
        spans = [" ".join(span.split()) for span in _CODE.findall(step)]
        steps.append([span for span in spans if span.startswith(("gnt-", "--"))])
    return steps
