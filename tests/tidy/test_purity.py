# SPDX-License-Identifier: BSD-2-Clause
"""Decide here, act there: what decides has no clock, file, socket, process, randomness or logger of its own."""

import ast

from parsed_tree import told

PURE = {"base", "model", "ports", "placement", "wire", "master"}
WORLDLY_MODULES = {
    "aiohttp": "a port",
    "fcntl": "system/livelock.py",
    "logging": "ctx.log",
    "multiprocessing": "a port",
    "pyroute2": "a port",
    "random": "a seed passed in",
    "secrets": "a value passed in",
    "select": "a port",
    "shutil": "a port",
    "signal": "a port",
    "socket": "a port",
    "sqlite3": "the ConfigStore protocol",
    "ssl": "a port",
    "subprocess": "a port",
    "tempfile": "a port",
    "threading": "one loop, or the rooms that touch the world",
}
WORLDLY_CALLS = {
    "asyncio.as_completed": "asyncio.gather, which keeps the order",
    "asyncio.create_subprocess_exec": "a port",
    "asyncio.get_event_loop": "ctx.clock",
    "asyncio.open_connection": "a port",
    "asyncio.open_unix_connection": "a port",
    "asyncio.sleep": "ctx.clock",
    "asyncio.start_server": "a port",
    "asyncio.start_unix_server": "a port",
    "asyncio.to_thread": "the rooms that touch the world",
    "asyncio.wait": "asyncio.gather, which keeps the order",
    "datetime.date.today": "a time passed in",
    "datetime.datetime.now": "a time passed in",
    "datetime.datetime.today": "a time passed in",
    "datetime.datetime.utcnow": "a time passed in",
    "input": "nothing",
    "open": "a port",
    "pathlib.Path": "a port; PurePosixPath for the name alone",
    "print": "ctx.log",
    "time.monotonic": "ctx.clock",
    "time.monotonic_ns": "ctx.clock",
    "time.perf_counter": "ctx.clock",
    "time.sleep": "ctx.clock",
    "time.time": "ctx.clock",
    "time.time_ns": "ctx.clock",
    "uuid.uuid1": "an id passed in",
    "uuid.uuid4": "an id passed in",
}
# Of os, only what handles names; everything else asks the machine.
HARMLESS_OS = {"os.fspath", "os.fsencode", "os.fsdecode", "os.PathLike", "os.strerror"} | {
    f"os.path.{name}"
    for name in ("basename", "commonpath", "commonprefix", "dirname", "isabs", "join", "normpath", "split", "splitext")
}
BANNED_EVERYWHERE = {
    "asyncio.create_subprocess_shell": "argument lists",
    "eval": "a parser",
    "exec": "an import",
    "os.popen": "subprocess with an argument list",
    "os.system": "subprocess with an argument list",
    "pickle.dumps": "msgspec",
    "pickle.loads": "msgspec",
    "subprocess.getoutput": "subprocess.run with an argument list",
    "tempfile.mktemp": "tempfile.mkstemp",
}


def test_what_decides_does_not_touch_the_world(modules, exemptions):
    faults = {}
    for module in modules:
        if module.layer not in PURE:
            continue
        for line, name in module.imports():
            instead = WORLDLY_MODULES.get(name.split(".")[0])
            if instead:
                faults[module.place, name] = f"{module.place}:{line} imports {name}; use {instead}"
        for node in module.nodes:
            if isinstance(node, ast.Call | ast.Attribute):
                name = module.dotted(node.func if isinstance(node, ast.Call) else node)
                instead = WORLDLY_CALLS.get(name)
                if name.startswith("os.") and isinstance(node, ast.Call) and name not in HARMLESS_OS:
                    instead = "a port"
                if instead:
                    faults[module.place, name] = f"{module.place}:{node.lineno} uses {name}; use {instead}"
    left = exemptions.sift("world", faults)
    assert not left, told(left)


def test_no_shell_no_code_from_data(modules, exemptions):
    faults = {}
    for module in modules:
        for call, name in module.calls():
            instead = BANNED_EVERYWHERE.get(name)
            if instead:
                faults[module.place, name] = f"{module.place}:{call.lineno} uses {name}; use {instead}"
            for keyword in call.keywords:
                if keyword.arg == "shell" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    faults[module.place, "shell"] = f"{module.place}:{call.lineno} gives {name} a shell; use a list"
        for line, name in module.imports():
            if name.split(".")[0] in {"pickle", "marshal", "shelve"}:
                faults[module.place, name] = f"{module.place}:{line} imports {name}; use msgspec"
    left = exemptions.sift("unsafe", faults)
    assert not left, told(left)
