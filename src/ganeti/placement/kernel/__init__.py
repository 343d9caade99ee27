# SPDX-License-Identifier: BSD-2-Clause
"""The compiled kernel: its C sources, and the cluster state that Python keeps in it."""
