# SPDX-License-Identifier: BSD-2-Clause
"""Plans: what another operation would do."""
