# SPDX-License-Identifier: BSD-2-Clause
"""Where the tools read a cluster from: files, the master, RAPI, MonD, a description."""
