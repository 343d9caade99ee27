# SPDX-License-Identifier: BSD-2-Clause
"""The metadata daemon: what a guest may know of itself, over HTTP on its NIC for communication (protocols, 21)."""
