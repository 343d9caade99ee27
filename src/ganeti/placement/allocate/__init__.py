# SPDX-License-Identifier: BSD-2-Clause
"""New instances, relocation, evacuation and change of group."""
