# SPDX-License-Identifier: BSD-2-Clause
"""The commands setup/ writes: every one there, and a client starts isolated, without `site` and what it drags along."""

import os
import subprocess
import sys

from ganeti.tools.testbed import guest

PROGRAM = """
import sys
def run(name):
    print(name, sys.flags.isolated, sys.flags.no_site, "site" in sys.modules, "re" in sys.modules, sys.argv[1:])
    return 7
def leave(status):
    sys.exit(status)
"""


def test_commands_start_isolated_and_pass_their_status(tmp_path):
    commands = tmp_path / ".venv" / "bin"
    commands.mkdir(parents=True)
    (commands / "python").symlink_to(sys.executable)
    package = tmp_path / "src" / "ganeti" / "cli"
    package.mkdir(parents=True)
    (package / "main.py").write_text(PROGRAM)
    script = guest.tree() / "setup" / "launchers"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    names = sorted(path.name for path in commands.iterdir() if path.name != "python")
    assert {
        "gnt-cluster",
        "gnt-instance",
        "ganeti-noded",
        "daemon-util",
        "hail",
        "hbal",
        "htools",
        "gnt-testbed",
    } <= set(names)
    assert all(os.access(commands / name, os.X_OK) for name in names)
    done = subprocess.run([commands / "gnt-job", "list", "-o", "id"], capture_output=True, text=True, check=False)
    assert done.stdout == "gnt-job 1 1 False False ['list', '-o', 'id']\n"
    assert done.returncode == 7
