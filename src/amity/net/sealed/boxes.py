"""The cryptography of sealing: all of it from `cryptography`, none of our own."""

from __future__ import annotations

import hashlib
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from amity.net.wire import Refused

KEY = 32
"""Bytes of every key."""
NONCE = 12
OVERHEAD = NONCE + 16
"""Bytes by which `lock` makes a message longer."""
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class Box:
    """My keys, for as long as one link is open: in memory alone."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()
        self.ring = secrets.token_bytes(KEY)
        """Locks the cards that I publish; members are given it."""

    def open(self, sealed: bytes, about: str) -> bytes:
        """What was sealed to me, about the same thing."""
        try:
            return _SUITE.decrypt(sealed, self._private, info=about.encode())
        except (InvalidTag, ValueError):
            raise Refused("other key", "sealed to another key than mine, or altered") from None

    def shared(self, public: bytes) -> bytes:
        """A secret that only I and the holder of another key can know."""
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise Refused("malformed", "no X25519 key") from None


def seal(text: bytes, public: bytes, about: str) -> bytes:
    """To the holder of a key, who must know what it is about."""
    try:
        key = X25519PublicKey.from_public_bytes(public)
        return _SUITE.encrypt(text, key, info=about.encode())
    except ValueError:
        raise Refused("malformed", "no X25519 key") from None


def lock(key: bytes, text: bytes, about: str) -> bytes:
    """Under a key that both sides have."""
    nonce = secrets.token_bytes(NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, text, about.encode())


def unlock(key: bytes, locked: bytes, about: str) -> bytes:
    """The opposite of `lock`."""
    try:
        return ChaCha20Poly1305(key).decrypt(locked[:NONCE], locked[NONCE:], about.encode())
    except (InvalidTag, ValueError):
        raise Refused("bad seal", "altered on the way, or of another key") from None


def name_of(key: bytes) -> bytes:
    """Eight bytes that tell one key from another, and nothing about it."""
    return hashlib.sha256(b"amity key\n" + key).digest()[:8]
