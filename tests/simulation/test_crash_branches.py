# SPDX-License-Identifier: BSD-2-Clause
"""A play that shared its way to the crash with others ends as one that was played from the beginning."""

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from ganeti_simulation.facades import loader
from ganeti_simulation.facades import stand_ins
loader.install(stand_ins.PATCHES)
from ganeti_simulation.crashes import branches as crash_branches
from ganeti_simulation.crashes import campaign as crash_campaign
from ganeti_simulation.crashes import cases as crash_cases
from ganeti_simulation.crashes import points as crash_points
from ganeti_simulation.apart import each_apart
from ganeti_simulation.cluster.world import prepared

prepared(crash_points.NODES)
case = next(case for case in crash_cases.CASES if case.name == sys.argv[1])
crashes = list(crash_campaign.crashes_of(crash_campaign.undisturbed(case).points, int(sys.argv[2])))
if sys.argv[3] == "drawn":
    together = crash_branches.play_drawn(case, lambda point: crash_campaign.crashes_of([point], int(sys.argv[2])))
    assert together.drawn == crashes
    assert together.whole == crash_points.play(case)
else:
    together = crash_branches.play_branches(case, crashes)
alone = {}
for crash, ending in each_apart(lambda crash: crash_points.play(case, crash), crashes, crash_points.Ending, 1):
    alone[crash] = ending
for index, crash in enumerate(crashes):
    assert together.ending(index) == alone[crash], f"{crash}: {together.ending(index)} and alone {alone[crash]}"
print(len(crashes), len(set(crash.victim for crash in crashes)))
"""


@pytest.mark.parametrize(("case", "every", "how"), [("create", 223, "drawn"), ("node-demoted", 149, "known before")])
def test_it_makes_no_difference_who_shares_the_way(case, every, how):
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, case, str(every), how],
        capture_output=True,
        text=True,
        timeout=3600,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plays, victims = map(int, done.stdout.split())
    assert plays >= 4 and victims >= 3, done.stdout
