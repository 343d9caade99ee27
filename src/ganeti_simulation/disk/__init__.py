# SPDX-License-Identifier: BSD-2-Clause
"""The simulated disk: files, names, loss of power, databases."""
