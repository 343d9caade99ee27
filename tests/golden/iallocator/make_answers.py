# SPDX-License-Identifier: BSD-2-Clause
"""Write ``answers.jsonl``: random messages with what Debian's hail answers.

    make_answers.py HAIL > answers.jsonl

HAIL is a command that behaves as hail. Only messages it answers with JSON are kept, and none whose text is a dump of
its own records ("no groups for evacuation: allowed groups was ..."), which is said in a sentence of our own. And none
of several instances on exclusive storage: Debian's forgets each of them before it places the next, and overbooks nodes.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from random_messages import KINDS, build

SEEDS = (11, 12)
REQUESTS = ("allocate", "relocate", "node-evacuate", "change-group", "allocate-secondary", "multi-allocate")


def ask(hail: str, message: dict, *options: str) -> dict | None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(message, file)
        file.flush()
        found = subprocess.run([hail, *options, file.name], capture_output=True, text=True, check=False)
    return json.loads(found.stdout) if found.returncode == 0 else None


def main() -> None:
    hail = sys.argv[1]
    for kind in KINDS:
        for request in REQUESTS:
            if (kind, request) == ("exclusive", "multi-allocate"):
                continue
            for seed in SEEDS:
                message = build(seed, kind, request)
                checks = seed % 2 == 0
                found = ask(hail, message, *(() if checks else ("--no-capacity-checks",)))
                if found is not None and "no groups for evacuation" not in json.dumps(found):
                    name = f"{Path(kind).name}-{request}-{seed}"
                    line = {"name": name, "capacity_checks": checks, "message": message, "answer": found}
                    print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    main()
