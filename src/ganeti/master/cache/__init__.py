# SPDX-License-Identifier: BSD-2-Clause
"""What LuxiD keeps in memory of the cluster, so that queries ask nobody."""
