# SPDX-License-Identifier: BSD-2-Clause
"""A disk that is about to be made: all that its logical id can be built from (protocols, section 14)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ganeti.base import names
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError


@dataclass(frozen=True)
class Part:
    """A disk of another template that each copy of a disk lies on."""

    template: str
    logical_id: list[Any]
    size_mib: int


@dataclass(frozen=True)
class NewDisk:
    """One disk, before it has a place."""

    template: str
    uuid: str
    index: int
    instance_name: str
    directory: str = ""
    """Directory of the cluster that its files lie below, where the template has files."""
    volume_group: str = ""
    """The cluster's."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What the user said of it."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Filled disk parameters."""
    size_mib: int = 0
    node_uuids: tuple[str, ...] = ()
    secret: str = ""
    """What its copies prove to each other by, where the template has it."""

    @property
    def name(self) -> str:
        """A name that no other disk has, as 3.1 gives it."""
        return f"{self.uuid}.{self.template}.disk{self.index}"

    def word(self, key: str, remedy: str) -> str:
        """Give what the user said for *key*; raises `PrerequisiteError` with the *remedy* where that is no name."""
        value = self.asked.get(key)
        if value is None or value == "":
            raise PrerequisiteError(f"Disk {self.index}: {key} is missing: {remedy}", WRONG_INPUT)
        fault = names.file_name_fault(value) if isinstance(value, str) else "it must be text"
        if fault is not None:
            raise PrerequisiteError(
                f"Disk {self.index}: {key} '{names.shown(str(value))}' cannot be a name: {fault}", WRONG_INPUT
            )
        return str(value)


def adopts(asked: Mapping[str, Any]) -> bool:
    """Whether the disk is there already, and only gets a name."""
    return asked.get("adopt") is not None
