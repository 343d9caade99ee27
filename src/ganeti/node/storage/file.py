# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `file`: image files on the node's own file system; the instance runs nowhere else."""

from ganeti.model.traits import TemplateTraits
from ganeti.node.storage.image_files import DRIVERS, FORMATS, PARAMETERS, ImageFileTemplate


class FileDisks(ImageFileTemplate):
    traits = TemplateTraits(
        name="file",
        storage_type="file",
        directory_based=True,
        directory_setting="file_storage_dir",
        formats=FORMATS,
        parameters=PARAMETERS,
        logical_id_driver=DRIVERS[0],
    )
