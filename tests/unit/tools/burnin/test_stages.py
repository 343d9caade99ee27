# SPDX-License-Identifier: BSD-2-Clause
"""What `burnin` does: opcodes that every operation takes, and only what the template and the command line allow."""

import dataclasses

import pytest

from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.model.templates import TEMPLATES
from ganeti.tools.burnin import stages
from ganeti.tools.burnin.stages import BurninPlan

operations.load()
WANTED = BurninPlan(
    instances=["a", "b"],
    system="noop+default",
    template=TEMPLATES["file"],
    nodes=["n1", "n2"],
    allocator=None,
    disks=[64],
    growth=[16],
    backend={"maxmem": 128, "minmem": 128, "vcpus": 1},
)
TEMPLATE_NAMES = ("diskless", "file", "sharedfile", "plain", "drbd", "mirror")


def titles(wanted: BurninPlan) -> list[str]:
    return [stage.title for stage in stages.stages(wanted)]


@pytest.mark.parametrize("template", TEMPLATE_NAMES)
@pytest.mark.parametrize("allocator", [None, "hail"])
def test_every_opcode_is_one_that_is_taken(template: str, allocator: str | None) -> None:
    nodes = [] if allocator else ["n1", "n2"]
    wanted = dataclasses.replace(WANTED, template=TEMPLATES[template], allocator=allocator, nodes=nodes, rename="c")
    for stage in (stages.making(wanted), *stages.stages(wanted), stages.removing(wanted.instances)):
        assert len(stage.jobs) == 2
        for opcode in (opcode for job in stage.jobs for opcode in job):
            decode(opcode)


def test_a_template_is_asked_for_what_it_can(template: str = "diskless") -> None:
    assert "Moving instances" in titles(WANTED) and "Migrating instances" not in titles(WANTED)
    diskless = titles(dataclasses.replace(WANTED, template=TEMPLATES[template]))
    assert "Migrating instances" in diskless and not [title for title in diskless if "disk" in title]


@pytest.mark.parametrize("left_out", ["move", "importexport", "startstop", "reinstall", "add_disks", "add_nics"])
def test_what_is_left_out_is_not_done(left_out: str) -> None:
    without = titles(dataclasses.replace(WANTED, left_out=frozenset([left_out])))
    assert len(without) == len(titles(WANTED)) - 1


def test_no_growth_and_no_nics() -> None:
    assert "Growing disks" not in titles(dataclasses.replace(WANTED, growth=[0]))
    assert "Adding and removing NICs" not in titles(dataclasses.replace(WANTED, nics=False))
