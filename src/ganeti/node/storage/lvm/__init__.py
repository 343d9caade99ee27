# SPDX-License-Identifier: BSD-2-Clause
"""Disks that are logical volumes, by the tools of LVM 2: the template `plain`, and what others build on volumes."""
