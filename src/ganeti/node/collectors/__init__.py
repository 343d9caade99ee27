# SPDX-License-Identifier: BSD-2-Clause
"""What the monitoring tells of a node: readers from text to data, one file a collector (protocols, 5)."""
