# SPDX-License-Identifier: BSD-2-Clause
"""Storage drivers: one file each, behind one interface."""
