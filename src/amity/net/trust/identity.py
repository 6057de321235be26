"""Who a peer is: its key, and the certificate that binds the key to a name.

Everything that the network would refuse later, without saying why, is refused here before a peer
starts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from amity.errors import IdentityError

KEY, CERT, CA = "key.pem", "cert.pem", "ca.pem"
_ECDSA = ec.ECDSA(hashes.SHA256())
_SIDES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


def renewal(folder: Path) -> str:
    """What to do about a certificate that is missing, foreign or old."""
    peer = folder.parent if folder.name == "identity" else folder
    return f"`amity peer request {peer}`, then `amity ca sign`"


def fingerprint_of(public: bytes) -> str:
    """The name of a key itself: it outlives every certificate that is issued for it."""
    return hashlib.sha256(public).hexdigest()


def public_of(
    holder: x509.Certificate | x509.CertificateSigningRequest | ec.EllipticCurvePrivateKey,
) -> bytes:
    """The public key as SubjectPublicKeyInfo, in DER."""
    return _spki(holder.public_key())


def _spki(public: PublicKeyTypes) -> bytes:
    return public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@dataclass(frozen=True)
class Identity:
    """A name, and the key that proves it."""

    name: str
    folder: Path
    key: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    @classmethod
    def load(cls, folder: Path, name: str) -> Identity:
        """The identity in a folder, if the network will accept it under this name today."""
        identity = cls(name, folder, load_key(folder / KEY))
        certificate = load_certificates(identity.cert_path)[0]
        authority = issuer_of(certificate, load_certificates(identity.ca_path))
        if authority is None:
            remedy = f"copy {CA} from the CA that signed it, or renew: {renewal(folder)}"
            raise IdentityError(
                f"{identity.cert_path}: is not signed by the {CA} beside it; {remedy}"
            )
        if public_of(certificate) != identity.public:
            raise IdentityError(
                f"{identity.cert_path}: belongs to another key than {KEY}; renew it:"
                f" {renewal(folder)}"
            )
        if common_name(certificate.subject) != name:
            has = common_name(certificate.subject)
            raise IdentityError(
                f"{identity.cert_path}: is for {has!r}, not {name!r}; start as {has!r} or renew:"
                f" {renewal(folder)}"
            )
        for path, one in ((identity.ca_path, authority), (identity.cert_path, certificate)):
            _check_dates(path, one, folder)
        if not has_both_sides(certificate):
            lack = "lacks serverAuth or clientAuth, but a peer serves and dials"
            raise IdentityError(f"{identity.cert_path}: {lack}; renew: {renewal(folder)}")
        return identity

    @cached_property
    def public(self) -> bytes:
        return public_of(self.key)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of(self.public)

    @property
    def key_path(self) -> Path:
        return self.folder / KEY

    @property
    def cert_path(self) -> Path:
        return self.folder / CERT

    @property
    def ca_path(self) -> Path:
        return self.folder / CA

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data, _ECDSA)


def verify(public: bytes, signature: bytes, data: bytes) -> bool:
    """Whether the holder of a public key signed this. Garbage from the network is no reason to
    raise: it is not signed.

    A signature proves, but does not name: ECDSA has two for the same data, so never use one as an
    identifier.
    """
    key = _public_key(bytes(public))
    if key is None:
        return False
    try:
        key.verify(signature, data, _ECDSA)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


@lru_cache(maxsize=256)
def _public_key(public: bytes) -> ec.EllipticCurvePublicKey | None:
    """A P-256 key in its one spelling, so that one key cannot have two fingerprints."""
    try:
        key = serialization.load_der_public_key(public)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return (
        key
        if _is_p256(key) and isinstance(key, ec.EllipticCurvePublicKey) and _spki(key) == public
        else None
    )


def _is_p256(key: object) -> bool:
    kinds = (ec.EllipticCurvePublicKey, ec.EllipticCurvePrivateKey)
    return isinstance(key, kinds) and isinstance(key.curve, ec.SECP256R1)


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A private key that nobody else on this machine can read."""
    try:
        with open(path, "rb") as stream:
            mode, data = os.fstat(stream.fileno()).st_mode, stream.read()
    except FileNotFoundError:
        raise IdentityError(
            f"{path}: there is no key; make one with `amity peer init` (or `amity ca init` for"
            " a CA)"
        ) from None
    except OSError as error:
        raise IdentityError(
            f"{path}: cannot be read ({error.strerror}); it must belong to the user who starts the"
            " peer"
        ) from None
    if mode & 0o077:
        raise IdentityError(
            f"{path}: others can read this key (mode {mode & 0o777:o}); run: chmod 600 {path}"
        )
    try:
        key = serialization.load_pem_private_key(data, None)
    except TypeError:
        raise IdentityError(
            f"{path}: is encrypted; a peer starts without a passphrase, so store the key"
            " unencrypted"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise IdentityError(
            f"{path}: is no private key in PEM; restore it or make a new one with `amity peer init`"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not _is_p256(key):
        raise IdentityError(
            f"{path}: is no EC P-256 key; move it away and make one with `amity peer init`"
        )
    return key


def load_certificates(path: Path) -> Sequence[x509.Certificate]:
    """All in a file, at least one. An authority that is being replaced stands beside its
    successor."""
    remedy = (
        "copy it from the CA's folder" if path.name == CA else f"get it with {renewal(path.parent)}"
    )
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise IdentityError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise IdentityError(f"{path}: is no certificate in PEM; {remedy}") from None


def expires(cert_path: Path) -> datetime:
    """When the certificate in a file ends, in UTC."""
    return load_certificates(cert_path)[0].not_valid_after_utc


def common_name(subject: x509.Name) -> str:
    """The one common name, or nothing: a second one could be read by one program and not by
    another."""
    found = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def hosts_of(holder: x509.Certificate | x509.CertificateSigningRequest) -> tuple[str, ...]:
    """The hosts in the subject alternative name."""
    try:
        names = holder.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return tuple(
        str(name.value) for name in names if isinstance(name, (x509.DNSName, x509.IPAddress))
    )


def has_both_sides(certificate: x509.Certificate) -> bool:
    """Whether a certificate is for serving and for dialling, as a peer does both."""
    try:
        found = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return all(side in found for side in _SIDES)


def issuer_of(
    certificate: x509.Certificate, authorities: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    """The authority that signed a certificate; None: none of these did."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
            if authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
                return authority
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            continue
    return None


def _check_dates(path: Path, certificate: x509.Certificate, folder: Path) -> None:
    now, start, end = (
        datetime.now(UTC),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )
    if now < start:
        raise IdentityError(
            f"{path}: is valid only from {start:%Y-%m-%d %H:%M:%S} UTC; is this machine's clock"
            " right?"
        )
    if now >= end:
        what = (
            "make a new CA with `amity ca init` and sign all members again"
            if path.name == CA
            else f"renew: {renewal(folder)}"
        )
        raise IdentityError(f"{path}: has expired since {end:%Y-%m-%d %H:%M:%S} UTC; {what}")
