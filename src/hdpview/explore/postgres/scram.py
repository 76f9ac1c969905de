"""SCRAM-SHA-256 (RFC 5802 and 7677): client and server prove to each other that they know the
password, without sending it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import unicodedata
from dataclasses import dataclass

MECHANISM = "SCRAM-SHA-256"
# PostgreSQL's default; passwords are long and random here.
_ITERATIONS = 4_096
_SALT_BYTES = 16
_NONCE_BYTES = 18
_NO_BINDING = ("n", "y")


class ScramError(Exception):
    """The exchange failed: a wrong password or a broken message. Carries no details."""


@dataclass(frozen=True)
class Verifier:
    """The form in which a server stores a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int = _ITERATIONS

    @classmethod
    def of(cls, password: str) -> Verifier:
        """A verifier of a new password, with a new salt."""
        salt = secrets.token_bytes(_SALT_BYTES)
        text = unicodedata.normalize("NFKC", password).encode()
        salted = hashlib.pbkdf2_hmac("sha256", text, salt, _ITERATIONS)
        client_key = _mac(salted, b"Client Key")
        return cls(salt, hashlib.sha256(client_key).digest(), _mac(salted, b"Server Key"))


class Exchange:
    """One login. `first` answers the client's first message, `final` its second."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._signed = b""
        self._nonce = ""
        self._header = b""

    def first(self, message: bytes) -> bytes:
        """The salt, the iterations and a nonce. ScramError if the message is malformed."""
        text = _text(message)
        binding, _, rest = text.partition(",")
        identity, _, bare = rest.partition(",")
        attributes = _attributes(bare)
        if binding not in _NO_BINDING or not attributes.get("r"):
            raise ScramError
        self._header = f"{binding},{identity},".encode()
        self._nonce = attributes["r"] + secrets.token_urlsafe(_NONCE_BYTES)
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}".encode()
        self._signed = bare.encode() + b"," + answer
        return answer

    def final(self, message: bytes) -> bytes:
        """The server's own proof. ScramError if the client's is wrong."""
        text = _text(message)
        without_proof, _, proof_text = text.rpartition(",p=")
        attributes = _attributes(without_proof)
        if (
            attributes.get("r") != self._nonce
            or attributes.get("c") != base64.b64encode(self._header).decode()
        ):
            raise ScramError
        signed = self._signed + b"," + without_proof.encode()
        signature = _mac(self._verifier.stored_key, signed)
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except ValueError:
            raise ScramError from None
        if len(proof) != len(signature):
            raise ScramError
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key):
            raise ScramError
        return b"v=" + base64.b64encode(_mac(self._verifier.server_key, signed))


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError from None


def _attributes(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
