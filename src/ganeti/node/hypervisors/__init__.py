# SPDX-License-Identifier: BSD-2-Clause
"""Hypervisor drivers: one file or folder each, behind one interface."""
