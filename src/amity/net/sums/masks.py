"""Masks between any two members of a crowd, and who that crowd is."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from amity.core import PeerId
from amity.net.wire import Refused
from amity.peer.fixed import Words

MOST = 32
"""Members of a crowd: an ask names them all, and is short."""
_MEMBER = re.compile(r"([^ :]{1,63}):([0-9a-f]{16}):([0-9]{1,10})")
_NUMBER = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Summed:
    """For whom, under which number, and whose models, each with the name of its key and the round
    of its model. All compute the same masks or none; and as a model is in one sum for each
    receiver, no mask comes twice, whatever number a receiver chooses."""

    network: str
    receiver: PeerId
    number: str
    keys: Mapping[PeerId, str]
    rounds: Mapping[PeerId, int]

    @classmethod
    def of(
        cls,
        network: str,
        receiver: PeerId,
        keys: Mapping[PeerId, str],
        rounds: Mapping[PeerId, int],
    ) -> Summed:
        """A new one."""
        names = sorted(keys)
        number = secrets.token_hex(16)
        return cls(
            network, receiver, number, {j: keys[j] for j in names}, {j: rounds[j] for j in names}
        )

    @property
    def text(self) -> str:
        """As it stands in an ask."""
        return " ".join(f"{name}:{key}:{self.rounds[name]}" for name, key in self.keys.items())

    @classmethod
    def read(cls, network: str, receiver: PeerId, number: object, text: object) -> Summed:
        """The crowd of an ask: sorted, and nobody twice."""
        found = [_MEMBER.fullmatch(word) for word in str(text).split(" ")]
        keys = {one[1]: one[2] for one in found if one is not None}
        if not _NUMBER.fullmatch(str(number)) or len(keys) != len(found) or len(keys) > MOST:
            raise Refused("malformed", "sum: no crowd")
        if list(keys) != sorted(keys):
            raise Refused("malformed", "sum: a crowd is sorted by name")
        rounds = {one[1]: int(one[3]) for one in found if one is not None}
        return cls(network, receiver, str(number), keys, rounds)

    def about(self, one: PeerId, other: PeerId) -> bytes:
        """What the mask of two members depends on, besides their keys."""
        pair = sorted((one, other))
        said = [self.network, self.receiver, self.number, self.text, *pair]
        return b"amity mask\n" + json.dumps(said).encode()


def stream(secret: bytes, about: bytes, count: int) -> Words:
    """So many numbers that nobody can tell from chance without the secret."""
    key = HKDF(hashes.SHA256(), 32, salt=None, info=about).derive(secret)
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(4 * count)), "<u4")


def masked(term: Words, me: PeerId, crowd: Summed, secret: Callable[[PeerId], bytes]) -> Words:
    """My term under the masks that I have with all others of the crowd. `secret`: what only I and
    another member know."""
    total = term.copy()
    for other in crowd.keys:
        if other != me:
            mask = stream(secret(other), crowd.about(me, other), len(total))
            (np.add if me < other else np.subtract)(total, mask, out=total)
    return total
