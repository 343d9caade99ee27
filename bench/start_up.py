# SPDX-License-Identifier: BSD-2-Clause
"""CPU of a command that does nothing: `gnt-instance --version` (bar: 0.04 CPU s), beside a bare interpreter."""

from __future__ import annotations

from measure import BIN, peer, repeat, report, run

TIMES = 15


def main() -> None:
    ours = repeat(TIMES, lambda _: run(str(BIN / "gnt-instance"), "--version"))
    bare = repeat(TIMES, lambda _: run(str(BIN / "python"), "-c", "pass"))
    other = peer(5, "gnt-instance", "--version")
    report("gnt-instance --version, CPU", ours.cpu_s, "s", peer=other.cpu_s if other else None, bar="0.04 s")
    report("bare interpreter, CPU", bare.cpu_s, "s")


if __name__ == "__main__":
    main()
