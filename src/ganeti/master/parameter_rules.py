# SPDX-License-Identifier: BSD-2-Clause
"""Which rule of `base.names` the texts in an opcode's parameters must follow, by the parameters' names. Pure.

Every text in every parameter follows one, whatever it is nested in: what is not named here is one line without control
characters. So nothing gets past the door that a node, a script's environment or a file name would refuse later.
"""

from collections.abc import Mapping

from ganeti.base import names

_FREE_TEXT = (
    *("comment", "reason", "depends", "messages", "result", "fail", "submit_jobs", "qfilter", "pattern"),
    *("osparams", "osparams_private", "osparams_private_cluster", "osparams_secret"),
    *("source_x509_ca", "source_handshake", "tags"),
)
"""What may have several lines: texts of people, certificates, what only scripts of an OS read. `model.tags` has the
rule of tags; an odd one of an imported configuration can still be removed."""
_REFERENCES = (
    *("instance_name", "instance_uuid", "instances", "source_instance_name"),
    *("node_name", "node_uuid", "node_names", "node_uuids", "pnode", "pnode_uuid", "snode", "snode_uuid"),
    *("target_node", "target_node_uuid", "src_node", "src_node_uuid", "on_nodes", "on_node_uuids"),
    *("group", "group_name", "node_groups", "target_groups", "name", "names"),
    *("disk_template", "default_template", "hypervisor"),
)
RULES: Mapping[str, names.Rule] = {
    **dict.fromkeys(_FREE_TEXT, names.text_fault),
    **dict.fromkeys(_REFERENCES, names.reference_fault),
    "iallocator": names.program_name_fault,
    "default_iallocator": names.reference_fault,
    **dict.fromkeys(
        ("file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir", "src_path"), names.path_fault
    ),
    "os_type": names.os_name_fault,
    "vg_name": names.file_name_fault,
}
"""Those of names that an opcode makes are checked by the operation, which says more of them."""
