# SPDX-License-Identifier: BSD-2-Clause
"""The remote API `/3`: every operation and query, from their declarations."""
