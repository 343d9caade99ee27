# SPDX-License-Identifier: BSD-2-Clause
"""What everything stands on: errors, units, names, paths, declarations. Imports nothing of the product."""
