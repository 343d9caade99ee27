# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `sharedfile`: image files on a file system that every node of the group has mounted.

The image lock (`image_lock`) keeps all but one node from writing; the file system must know hard links.
"""

from ganeti.model.traits import TemplateTraits
from ganeti.node.storage.image_files import DRIVERS, FORMATS, PARAMETERS, ImageFileTemplate


class SharedFileDisks(ImageFileTemplate):
    traits = TemplateTraits(
        name="sharedfile",
        storage_type="sharedfile",
        shared=True,
        directory_based=True,
        directory_setting="shared_file_storage_dir",
        formats=FORMATS,
        parameters=PARAMETERS,
        logical_id_driver=DRIVERS[0],
    )
