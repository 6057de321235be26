"""Bytes to values and back, for what peers send each other. Nothing is believed before it is
checked.

A message is a **head** and, for some kinds, a **body**:

    head = "AMT1" | length of signature (2 bytes) | length of manifest (4 bytes)
           | signature | manifest (JSON)
    body = safetensors, as long as the manifest says and with the SHA-256 that it says;
           what a strategy says publicly is JSON: finite numbers by name;
           so are terms: what all members must have in common;
           cards that are handed on are whole messages, each after its length (4 bytes)

The sender signs the manifest with the key that the roster lists, so neither a relay nor another
member can alter a message or put words into somebody's mouth. Checks stand in the order of their
price: lengths, manifest, signature, who and when, SHA-256, the body's header, its tensors by name,
type and shape, and last the numbers themselves. There is no pickle here, and no code that a message
could choose to run.
"""

from amity.net.wire.bodies import (
    BLOCK,
    LARGEST_SKETCH,
    decode_share,
    decode_sketch,
    dequantise,
    encode_share,
    encode_sketch,
    pack,
    quantise,
    unpack,
)
from amity.net.wire.heads import (
    DOMAIN,
    LARGEST_MANIFEST,
    MAGIC,
    SKEW_MS,
    Expected,
    Stamp,
    check_body,
    frame,
    open_head,
    unframe,
)
from amity.net.wire.manifest import (
    LARGEST_HEADER,
    LARGEST_TERMS,
    PROTOCOL,
    CardData,
    Format,
    HandData,
    Kind,
    Manifest,
    Refused,
    ShareData,
    ShownData,
    VisitData,
    WireSchema,
    digest_of,
    losses_of,
    said,
    says_in,
)
from amity.net.wire.terms import Terms, other_protocol

__all__ = [
    "BLOCK",
    "DOMAIN",
    "LARGEST_HEADER",
    "LARGEST_MANIFEST",
    "LARGEST_SKETCH",
    "LARGEST_TERMS",
    "MAGIC",
    "PROTOCOL",
    "SKEW_MS",
    "CardData",
    "Expected",
    "Format",
    "HandData",
    "Kind",
    "Manifest",
    "Refused",
    "ShareData",
    "ShownData",
    "Stamp",
    "Terms",
    "VisitData",
    "WireSchema",
    "check_body",
    "decode_share",
    "decode_sketch",
    "dequantise",
    "digest_of",
    "encode_share",
    "encode_sketch",
    "frame",
    "losses_of",
    "open_head",
    "other_protocol",
    "pack",
    "quantise",
    "said",
    "says_in",
    "unframe",
    "unpack",
]
