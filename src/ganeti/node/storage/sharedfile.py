# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `sharedfile`: image files on a file system that every node of the group has mounted.

The image lock (`image_lock`) keeps all but one node from writing; the file system must know hard links.
"""

from ganeti.node.storage.image_files import ImageFileTemplate, of_image_files


class SharedFileDisks(ImageFileTemplate):
    traits = of_image_files("sharedfile")
