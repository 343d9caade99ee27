# SPDX-License-Identifier: BSD-2-Clause
"""`random`, `secrets` and `uuid` of a simulated process: everything from the seed."""

import random as real_random
import uuid as real_uuid
from types import ModuleType
from typing import Any

from ganeti_simulation.system.kernel import Running


class RandomFacade(ModuleType):
    """Everything from the seed."""

    def __init__(self) -> None:
        super().__init__("random")

        class Random(real_random.Random):
            def __init__(self, seed: Any = None) -> None:
                super().__init__(Running.kernel.random.getrandbits(64) if seed is None else seed)

        self.Random = Random

    def __getattr__(self, name: str) -> Any:
        return getattr(Running.kernel.random, name)


class SecretsFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("secrets")

    @staticmethod
    def token_bytes(count: int = 32) -> bytes:
        return Running.kernel.random.randbytes(count)

    @staticmethod
    def token_hex(count: int = 32) -> str:
        return Running.kernel.random.randbytes(count).hex()

    @staticmethod
    def randbelow(limit: int) -> int:
        return Running.kernel.random.randrange(limit)

    @staticmethod
    def choice(items: Any) -> Any:
        return Running.kernel.random.choice(items)


class UuidFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("uuid")
        for name in ("UUID", "uuid5", "NAMESPACE_DNS", "NAMESPACE_URL"):
            setattr(self, name, getattr(real_uuid, name))

    @staticmethod
    def uuid4() -> real_uuid.UUID:
        return real_uuid.UUID(bytes=Running.kernel.random.randbytes(16), version=4)
