# SPDX-License-Identifier: BSD-2-Clause
"""Why a node was not chosen, and what would admit the instance."""
