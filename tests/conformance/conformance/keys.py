# SPDX-License-Identifier: MIT
"""Names of entries: LIST:NAME:DTYPE."""

import hashlib

DBS = ("op", "module", "optim")


def key_of(db: str, name: str, dtype: str) -> str:
    return f"{db}:{name}:{dtype}"


def split_key(key: str) -> tuple:
    db, rest = key.split(":", 1)
    name, dtype = rest.rsplit(":", 1)
    return db, name, dtype


def sample(keys: list, count: int) -> list:
    """The keys with the smallest SHA-256, in the order of the list. The sample is the same
    on every machine, a larger sample contains a smaller one, and a new entry replaces at
    most one key."""
    least = sorted(keys, key=lambda key: hashlib.sha256(key.encode()).digest())
    chosen = set(least[:count])
    return [key for key in keys if key in chosen]
