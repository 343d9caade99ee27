# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the C of the product when a package of it is built; what results goes into the wheel."""

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompilingHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is there at build time only
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; the wheel is then one of this machine's kind, for any interpreter."""
        subprocess.run([Path(self.root) / "setup" / "compile"], check=True)
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
