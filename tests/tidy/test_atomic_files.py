# SPDX-License-Identifier: BSD-2-Clause
"""Drivers replace their files by `system/files.py` and learn the machine's boot from `system/boot.py`."""

import ast

from parsed_tree import told

DRIVERS = ("src/ganeti/node/hypervisors/", "src/ganeti/node/storage/")
OWN_PROTOCOL = {
    "src/ganeti/node/hypervisors/fake/guests.py": "draws no random name: stories of the simulator stay as they are",
    "src/ganeti/node/hypervisors/kvm/launch.py": "moves the log of an earlier run away, and writes nothing",
    "src/ganeti/node/storage/image_io.py": "publishes an image that qemu-img has written",
    "src/ganeti/node/storage/image_lock.py": "drafts of locks have the name of their node",
}


def test_drivers_write_their_files_through_system(modules):
    faults = []
    for module in modules:
        if not module.place.startswith(DRIVERS):
            continue
        for node in module.nodes:
            renames = isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.replace", "os.rename")
            if renames and module.place not in OWN_PROTOCOL:
                faults.append(f"{module.place}:{node.lineno} renames a file: use write_atomically of system/files.py")
            if isinstance(node, ast.Constant) and str(node.value).endswith("random/boot_id"):
                faults.append(f"{module.place}:{node.lineno} reads the boot id: use system/boot.py")
    assert not faults, told(faults)
