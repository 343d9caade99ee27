# SPDX-License-Identifier: BSD-2-Clause
"""Programs in place of `rbd` and `ceph`: one image's metadata in files, and a cluster that can be told to hang."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fakes.one_node import OneNode

from ganeti.node.storage.ceph_silence import CephSilence
from ganeti.ports.node_world import Completed

_TOOL = """
cd {top}
echo "$*" >>asked
[ ! -e hangs ] || exec sleep 600
case "$1 $2" in
  "info --format") echo '{{"size": 1048576}}';;
  "image-meta list") separator=; printf '{{'
    for file in meta/*; do
      [ -e "$file" ] && printf '%s"%s": "%s"' "$separator" "${{file##*/}}" "$(cat "$file")" && separator=,
    done; printf '}}';;
  "image-meta set") printf %s "$5" >"meta/$4";;
  "image-meta remove") rm "meta/$4";;
  "status --format") echo '{{"watchers": []}}';;
  *) echo "rbd: $* is not known to the stand-in" >&2; exit 1;;
esac
"""


class CephTools:
    """Those of one node."""

    def __init__(self, node: OneNode, limit_s: float) -> None:
        self.top = Path(node.paths.under("/ceph"))
        (self.top / "meta").mkdir(parents=True)
        tools = {name: str(node.program(f"/ceph/{name}", _TOOL.format(top=self.top))) for name in ("rbd", "ceph")}
        run = node.state.world.run

        async def run_ours(argv: Sequence[str], **options: Any) -> Completed:
            return await run([tools.get(argv[0], argv[0]), *argv[1:]], **options)

        node.state.world.run = run_ours  # type: ignore[method-assign]
        node.state.template("rbd").ask.silence = CephSilence(limit_s)  # type: ignore[attr-defined]

    def hang(self, *, stopped: bool) -> None:
        (self.top / "hangs").touch() if stopped else (self.top / "hangs").unlink()

    def note(self, key: str, value: str) -> None:
        """As another node notes it."""
        (self.top / "meta" / key).write_text(value)

    def noted(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.top / "meta").iterdir()}

    @property
    def asked(self) -> int:
        return len((self.top / "asked").read_text().splitlines())
