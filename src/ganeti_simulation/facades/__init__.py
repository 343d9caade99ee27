# SPDX-License-Identifier: BSD-2-Clause
"""What stands in for modules of the standard library and of the product in a simulated process."""
