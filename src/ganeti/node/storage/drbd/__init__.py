# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `drbd`: logical volumes on two nodes that the kernel module DRBD keeps equal."""
