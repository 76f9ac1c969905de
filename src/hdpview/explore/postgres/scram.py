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


class ScramError(Exception):
    """The exchange failed: a wrong password or a broken message. Carries no details."""


@dataclass(frozen=True)
class Verifier:
    """The form in which a server stores a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, password: str) -> Verifier:
        """A verifier of a new password, with a new salt."""
        salt, text = secrets.token_bytes(_SALT_BYTES), unicodedata.normalize("NFKC", password)
        salted = hashlib.pbkdf2_hmac("sha256", text.encode(), salt, _ITERATIONS)
        stored_key = hashlib.sha256(_mac(salted, b"Client Key")).digest()
        return cls(salt, stored_key, _mac(salted, b"Server Key"))


class Exchange:
    """One login. `first` answers the client's first message, `final` its second."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._signed, self._expected = "", ""

    def first(self, message: bytes) -> bytes:
        """The salt, the iterations and a nonce. ScramError if the message is malformed."""
        binding, _, rest = _text(message).partition(",")
        identity, _, bare = rest.partition(",")
        nonce = next((part[2:] for part in bare.split(",") if part.startswith("r=")), "")
        if binding not in ("n", "y") or not nonce:  # without channel binding
            raise ScramError
        nonce += secrets.token_urlsafe(_NONCE_BYTES)
        answer = f"r={nonce},s={_base64(self._verifier.salt)},i={_ITERATIONS}"
        self._signed = f"{bare},{answer}"
        self._expected = f"c={_base64(f'{binding},{identity},'.encode())},r={nonce}"
        return answer.encode()

    def final(self, message: bytes) -> bytes:
        """The server's own proof. ScramError if the client's is wrong."""
        without_proof, _, proof_text = _text(message).rpartition(",p=")
        signed = f"{self._signed},{without_proof}".encode()
        signature = _mac(self._verifier.stored_key, signed)
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except ValueError:
            raise ScramError from None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        is_known = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        if without_proof != self._expected or len(proof) != len(signature) or not is_known:
            raise ScramError
        return b"v=" + _base64(_mac(self._verifier.server_key, signed)).encode()


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError from None
