# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `file`: image files on the node's own file system; the instance runs nowhere else."""

from ganeti.node.storage.image_files import ImageFileTemplate, of_image_files


class FileDisks(ImageFileTemplate):
    traits = of_image_files("file")
