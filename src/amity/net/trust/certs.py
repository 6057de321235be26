"""A small certificate authority: who runs a network decides with it who takes part.

A peer makes its key and never hands it out; it sends a request, and the authority answers with a
certificate. What the request asks for beyond a name and hosts is ignored, so that nobody becomes an
authority by asking.
"""

from __future__ import annotations

import ipaddress
import math
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import AttributeOID, ExtendedKeyUsageOID, NameOID

from amity.errors import IdentityError, StorageError
from amity.files import write_atomically
from amity.net.trust.identity import (
    CA,
    KEY,
    common_name,
    fingerprint_of,
    hosts_of,
    load_certificates,
    load_key,
    public_of,
)
from amity.net.trust.roster import check_host, check_name

CA_KEY, REQUEST = "ca-key.pem", "request.pem"
EARLIER = timedelta(minutes=5)
"""Clocks of members differ a little: a new certificate is valid at once for all of them."""
LONGEST = 36500.0
_PORT = AttributeOID.UNSTRUCTURED_NAME
_PEM = serialization.Encoding.PEM
_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def make_key(folder: Path, name: str, hosts: Sequence[str], port: int | None = None) -> None:
    """A new key, and the request for its first certificate. The request tells the port, for the
    roster; no certificate says anything of it."""
    request = _names(name, hosts)
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / KEY, key, "a new request from it: `amity peer request`")
    _write_request(folder, request, key, port)


def make_request(folder: Path, name: str, hosts: Sequence[str], port: int | None = None) -> None:
    """A new request from the key that is there: the fingerprint stays, so no roster changes."""
    _write_request(folder, _names(name, hosts), load_key(folder / KEY), port)


def asked_port(path: Path) -> int | None:
    """The port on which the sender of a request says that it listens; 0: it does not listen; None:
    it does not say."""
    try:
        said = load_request(path).attributes.get_attribute_for_oid(_PORT).value.decode()
    except (x509.AttributeNotFound, ValueError):
        return None
    return int(said) if said.isdecimal() and int(said) <= 65535 else None


def ca_init(folder: Path, name: str = "Amity CA", days: float = 3650) -> None:
    """A new authority. It signs members and no further authorities."""
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise IdentityError(
            f"name: {name!r} is no name of an authority; use 1 to 64 printable characters"
        )
    start, end = _dates(days)
    if (folder / CA).exists():
        raise IdentityError(
            f"{folder / CA}: is there already and is kept; name a folder of its own for a new CA"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / CA_KEY, key, "name a folder of its own for a new CA")
    subject = _subject(name)
    builder = _builder(subject, subject, key.public_key(), key.public_key(), start, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
    write_atomically(folder / CA, builder.sign(key, hashes.SHA256()).public_bytes(_PEM))


def ca_sign(
    ca_folder: Path,
    request: Path,
    out: Path,
    name: str,
    days: float = 90,
    hosts: Sequence[str] | None = None,
) -> str:
    """Sign the request of the peer that the operator names, and return the fingerprint of its key.

    `hosts` stand in the certificate instead of those that the request asks for.
    """
    asked, public = _asked(request, name)
    names = _names(name, _asked_hosts(request, asked) if hosts is None else hosts)[1]
    start, end = _dates(days)
    key, authority = _authority(ca_folder, end)
    _guard(out, name)
    builder = _builder(_subject(name), authority.subject, public, key.public_key(), start, end)
    builder = builder.add_extension(names, critical=False)
    sides = x509.ExtendedKeyUsage(
        [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    )
    builder = builder.add_extension(sides, critical=False)
    builder = builder.add_extension(_usage("digital_signature"), critical=True)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    write_atomically(out, builder.sign(key, hashes.SHA256()).public_bytes(_PEM))
    return fingerprint_of(public_of(asked))


def load_request(path: Path) -> x509.CertificateSigningRequest:
    """A request whose sender holds the key that it is for."""
    try:
        request = x509.load_pem_x509_csr(path.read_bytes())
        proven = request.is_signature_valid
    except OSError as error:
        raise IdentityError(
            f"{path}: cannot be read ({error.strerror}); expected the {REQUEST} of a peer"
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise IdentityError(
            f"{path}: is no request in PEM; make one with `amity peer request`"
        ) from None
    if not proven:
        raise IdentityError(
            f"{path}: its signature is wrong, so it was changed on the way; ask the peer to send it"
            " again"
        )
    return request


def _asked(
    path: Path, name: str
) -> tuple[x509.CertificateSigningRequest, ec.EllipticCurvePublicKey]:
    request = load_request(path)
    public = request.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(
        public.curve, ec.SECP256R1
    ):
        raise IdentityError(
            f"{path}: is for another kind of key than EC P-256; make one with `amity peer init`"
        )
    check_name(name)
    if common_name(request.subject) != name:
        asks = common_name(request.subject)
        raise IdentityError(
            f"{path}: asks to be {asks!r}, not {name!r}; sign with name={asks} only if that is who"
            " sent it"
        )
    return request, public


def _asked_hosts(path: Path, request: x509.CertificateSigningRequest) -> Sequence[str]:
    hosts = hosts_of(request)
    try:
        extension = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        raise IdentityError(
            f"{path}: names no host; make one with `amity peer request` and the hosts of the peer"
        ) from None
    if len(hosts) != len(list(extension.value)):
        raise IdentityError(
            f"{path}: asks for more than hosts; only IP addresses and DNS names are signed"
        )
    return hosts


def _names(name: str, hosts: Sequence[str]) -> tuple[x509.Name, x509.SubjectAlternativeName]:
    check_name(name)
    if isinstance(hosts, str) or not hosts:
        raise IdentityError(
            f"{name}: needs at least one host by which others dial it, such as 10.0.0.1 or"
            " localhost"
        )
    return _subject(name), x509.SubjectAlternativeName(
        [_host(host) for host in dict.fromkeys(map(check_host, hosts))]
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*uses: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in uses for use in _USES})


def _dates(days: float) -> tuple[datetime, datetime]:
    if not math.isfinite(days) or not 0 < days <= LONGEST:
        raise IdentityError(
            f"days: {days} is no span of validity; use more than 0 and at most {LONGEST:.0f}"
        )
    now = datetime.now(UTC)
    return now - EARLIER, now + timedelta(days=days)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    start: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(
        issuer, subject, public, x509.random_serial_number(), start, end
    )
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(public), critical=False
    )
    return builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False
    )


def _authority(folder: Path, end: datetime) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """The CA's key and the certificate of that key, which must outlive what it signs."""
    key = load_key(folder / CA_KEY)
    own = [one for one in load_certificates(folder / CA) if public_of(one) == public_of(key)]
    if not own:
        raise IdentityError(
            f"{folder / CA}: belongs to another key than {CA_KEY}; restore both from the same copy"
        )
    last = own[0].not_valid_after_utc
    if end > last:
        raise IdentityError(
            f"{folder / CA}: ends on {last:%Y-%m-%d}, before the certificate; use fewer days= or a"
            " new CA"
        )
    return key, own[0]


def _guard(out: Path, name: str) -> None:
    """Renewal replaces a certificate of the same name, and nothing else."""
    if out.is_dir():
        raise IdentityError(f"{out}: is a folder; name a file, such as {out / 'cert.pem'}")
    if out.exists() and common_name(load_certificates(out)[0].subject) != name:
        raise IdentityError(
            f"{out}: holds another certificate than one of {name!r} and is kept; name another file"
        )


def _write_request(
    folder: Path,
    names: tuple[x509.Name, x509.SubjectAlternativeName],
    key: ec.EllipticCurvePrivateKey,
    port: int | None,
) -> None:
    builder = x509.CertificateSigningRequestBuilder(names[0]).add_extension(
        names[1], critical=False
    )
    if port is not None:
        builder = builder.add_attribute(_PORT, str(port).encode())
    write_atomically(folder / REQUEST, builder.sign(key, hashes.SHA256()).public_bytes(_PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey, remedy: str) -> None:
    """For its owner alone from the first byte on, and never over another key."""
    data = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        if os.path.lexists(path):
            raise IdentityError(f"{path}: is there already and is kept; {remedy}") from None
        raise StorageError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot be written ({error.strerror})") from None
