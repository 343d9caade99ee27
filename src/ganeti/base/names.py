# SPDX-License-Identifier: BSD-2-Clause
"""What a name and a path may be: one set of rules for commands, opcodes and node daemons. Standard library only.

A rule gives what is wrong with a text and what would be right, None if nothing is wrong; the caller says whose text
it is. `shown` quotes a refused text, so that an error message stays one line whatever the text holds.
"""

import os.path
import re
from collections.abc import Callable, Iterable
from typing import Final

Rule = Callable[[str], str | None]

LONGEST_NAME_BYTES: Final = 255
"""What file systems take as one name in a directory, and more than any host name has."""
LONGEST_PATH_BYTES: Final = 1024
"""A file is made some levels deeper, with locks beside it, and all must stay below the 4096 of the kernel."""
NO_HOST_NAME: Final = "it cannot be the name of a host"
"""Why a resolver did not even ask."""
_SHOWN_CHARACTERS: Final = 60
_PARTING: Final = re.compile(r"[\s/|,]")
_LIKE_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_HOST_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,62})?(\.[a-z0-9]([a-z0-9-]{0,62})?)*", re.IGNORECASE | re.ASCII)
_INSTANCE_NAME: Final = re.compile(
    r"[a-z0-9_]([a-z0-9_-]{0,62})?(\.[a-z0-9_]([a-z0-9_-]{0,62})?)*", re.IGNORECASE | re.ASCII
)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_OS_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(\+[^/+]*)*")


def shown(text: str) -> str:
    """The text on one line and not too long, for an error message."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], cut)


def is_named(hostname: str, node_name: str) -> bool:
    """Whether *node_name* is that of the host; one that only knows its short name is accepted."""
    return node_name == hostname or ("." not in hostname and node_name.startswith(f"{hostname}."))


def nearest(name: str, names: Iterable[str]) -> str:
    """What ends a message about an unknown *name*: those there are, at first such that begin alike; empty for none."""
    known = sorted(names)
    near = [other for other in known if other.lower().startswith(name[:3].lower())][:5] or known[:5]
    return f": there are {', '.join(near)}{' and more' if len(known) > len(near) else ''}" if near else ""


def line_fault(text: str) -> str | None:
    """Of anything that stands on one line of a file, a list or an environment."""
    return "it holds a control character, such as a line break: leave that out" if _CONTROL.search(text) else None


def text_fault(text: str) -> str | None:
    """Of free text: a script's environment and a file's name end at the first zero byte."""
    return "it holds a zero byte: leave that out" if "\0" in text else None


def reference_fault(text: str) -> str | None:
    """Of the name or UUID of something that is there already: whether it exists is asked later."""
    return line_fault(text) or _length_fault(text, LONGEST_NAME_BYTES)


def host_name_fault(name: str) -> str | None:
    """Of the name of a node or a cluster, which is that of a host and stands in certificates."""
    if len(name) > 253 or not _HOST_NAME.fullmatch(name):
        return "use letters, digits, dots and hyphens, as for a host name"
    return address_fault(name)


def instance_name_fault(name: str) -> str | None:
    """Of the name of an instance: that of a host, of directories and of volumes.

    Ganeti 3.1 takes underscores, too, which no DNS needs to know.
    """
    if len(name) > 253 or not _INSTANCE_NAME.fullmatch(name):
        return "use letters, digits, dots, hyphens and underscores, as for a host name"
    return address_fault(name)


def address_fault(name: str) -> str | None:
    """Of a host's name: one whose last part is a number is read as an address by resolvers."""
    if ":" in name or _NUMBER.fullmatch(name.rpartition(".")[2]):
        return "it would be read as an IP address: use a name whose last part is no number"
    return None


def new_label_fault(name: str) -> str | None:
    """Of the name that a group or network gets: it stands in lists, in tables of files and in paths of the remote API.

    Not of one that is there already: Ganeti 3.1 lets such a name be anything.
    """
    if fault := reference_fault(name):
        return fault
    if not name or name.startswith("-") or _PARTING.search(name):
        return "use no spaces and none of the signs , / |, and no hyphen at its start"
    return "it looks like a UUID" if _LIKE_UUID.fullmatch(name) else None


def file_name_fault(name: str) -> str | None:
    """Of the name of a file or directory that this program makes."""
    if not _FILE_NAME.fullmatch(name):
        return "use letters, digits and the characters _ . + -, and begin with a letter, a digit or _"
    return _length_fault(name, LONGEST_NAME_BYTES)


def os_name_fault(name: str) -> str | None:
    if not _OS_NAME.fullmatch(name) or _CONTROL.search(name):
        return "it cannot be the name of an OS: write NAME or NAME+VARIANT"
    return _length_fault(name, LONGEST_NAME_BYTES)


def program_name_fault(name: str) -> str | None:
    """Of a program that is looked for in a search path, such as an allocator; ``.`` may stand for the usual one."""
    if "/" in name:
        return "give the plain name of the program"
    return reference_fault(name)


def path_fault(path: str) -> str | None:
    """Of a path of either kind."""
    if _CONTROL.search(path):
        return line_fault(path)
    parts = path.split("/")
    if ".." in parts:
        return "it must be written without '..'"
    if any(len(part.encode()) > LONGEST_NAME_BYTES for part in parts):
        return f"a part of it is too long: {LONGEST_NAME_BYTES} bytes are the most"
    return _length_fault(path, LONGEST_PATH_BYTES)


def absolute_path_fault(path: str) -> str | None:
    """One place has one spelling: paths are compared as texts."""
    if not path.startswith("/"):
        return "it must be an absolute path"
    usual = os.path.normpath(path)
    if not _CONTROL.search(path) and (path != usual or path.startswith("//")):
        return f"it must be written without '.', '..', doubled and final slashes: {shown(usual.replace('//', '/'))}"
    return path_fault(path)


def relative_path_fault(path: str) -> str | None:
    """Of a directory below one that is known."""
    return "it must be a relative path" if path.startswith("/") else path_fault(path)


def _length_fault(text: str, most_bytes: int) -> str | None:
    length = len(text.encode(errors="replace"))
    return f"it is too long: it has {length} bytes, {most_bytes} are the most" if length > most_bytes else None
