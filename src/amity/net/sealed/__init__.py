"""What members say to each other is sealed to its receiver, so that a relay passes it on unread.

| what | sealed by |
|---|---|
| an ask | HPKE (RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305) to the key of whom it is asked |
| its answer, part by part | ChaCha20-Poly1305 with a key that came inside the ask |
| a published card | ChaCha20-Poly1305 with the sender's card key, which members are given |
| `hello`, which exchanges these keys | signed, and in the clear: versions and public keys alone |

Keys are made whenever a link is opened, are signed by the key on the roster (`hello` is), and are
never written down. Sealing hides; who speaks is proved by signatures, inside (`amity.net.wire`).
"""

from amity.net.sealed.keys import Keys
from amity.net.sealed.link import Sealed

__all__ = ["Keys", "Sealed"]
