# SPDX-License-Identifier: BSD-2-Clause
"""What hook scripts of operations are told: variables common to all, and those of the operation (protocols, 10)."""

from collections.abc import Mapping

from ganeti.master.operation import Hooks
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView

HOOKS_VERSION = "2"
_DATA_DIR = "/var/lib/ganeti"


def pre_environment(view: ConfigView, op_id: str, hooks: Hooks) -> dict[str, str]:
    """What the pre hooks get."""
    return _common(view, op_id, hooks, "pre") | _prefixed("GANETI_", _own(hooks, hooks.env))


def post_environment(view: ConfigView, op_id: str, hooks: Hooks, catalogue: Catalogue) -> dict[str, str]:
    """What the post hooks get: *view* is that after the operation, whose variables are in it as before, too."""
    after = hooks.env if hooks.env_after is None else hooks.env_after(view, catalogue)
    return config_update_environment(view, op_id, hooks) | _prefixed("GANETI_POST_", _own(hooks, after))


def config_update_environment(view: ConfigView, op_id: str, hooks: Hooks) -> dict[str, str]:
    """In the post phase, what the operation told before it."""
    return _common(view, op_id, hooks, "post") | _prefixed("GANETI_", _own(hooks, hooks.env))


def _own(hooks: Hooks, env: Mapping[str, str]) -> dict[str, str]:
    return ({"OP_TARGET": hooks.target} if hooks.target else {}) | dict(env)


def _common(view: ConfigView, op_id: str, hooks: Hooks, phase: str) -> dict[str, str]:
    master = view.get("nodes", view.cluster.master_node)
    env = {
        "HOOKS_VERSION": HOOKS_VERSION,
        "HOOKS_PHASE": phase,
        "HOOKS_PATH": hooks.path,
        "CLUSTER": view.cluster.cluster_name,
        "MASTER": getattr(master, "name", ""),
        "OP_CODE": op_id,
        "OBJECT_TYPE": hooks.object_type,
        "DATA_DIR": _DATA_DIR,
    }
    return _prefixed("GANETI_", env)


def _prefixed(prefix: str, env: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}{key}": str(value) for key, value in env.items()}
