"""What znodes hold for security: access control lists and their changes, SCRAM credentials, delegation tokens. Pure.

Written and read as in `payloads`. Names of types are spelled as Kafka spells them in each place: `Topic` in a path,
`TOPIC` in a change, `Allow` and `Read` in an entry.
"""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from zk_schema.json_text import InvalidPayload, JsonObject, decode_integer_text, encode_json
from zk_schema.paths import desanitize, sanitize

_TOKEN_VERSION: Final = 1
_TOKEN_VERSIONS: Final = (1, 2, 3)


class AclEntry(NamedTuple):
    """One line of an access control list, e.g. ("User:alice", "Allow", "Read", "*")."""

    principal: str
    permission_type: str
    operation: str
    host: str


@dataclass(frozen=True, slots=True)
class AccessControlList:
    """/kafka-acl/TYPE/NAME and /kafka-acl-extended/prefixed/TYPE/NAME."""

    entries: tuple[AclEntry, ...]

    def encode(self) -> bytes:
        acls = [
            {
                "principal": each.principal,
                "permissionType": each.permission_type,
                "operation": each.operation,
                "host": each.host,
            }
            for each in self.entries
        ]
        return encode_json({"version": 1, "acls": acls})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """A znode without data allows and denies nothing."""
        if not data:
            return cls(())
        json = JsonObject.parse("access control list", data)
        if (version := json.integer("version")) != 1:
            raise InvalidPayload(f"access control list: version {version} is not known")
        return cls(tuple(_acl_entries(json.objects("acls"))))


@dataclass(frozen=True, slots=True)
class AclChange:
    """/kafka-acl-changes/acl_changes_N: text, type and name of a literal resource; the type in any case when read."""

    resource_type: str
    name: str

    def encode(self) -> bytes:
        return f"{self.resource_type.upper()}:{self.name}".encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        try:
            resource_type, separator, name = data.decode().partition(":")
        except UnicodeDecodeError as error:
            raise InvalidPayload(f"ACL change: not UTF-8: {data!r:.100}") from error
        if not separator:
            raise InvalidPayload(f"ACL change: TYPE:NAME is wanted, not {data!r:.100}")
        return cls(resource_type.upper(), name)


@dataclass(frozen=True, slots=True)
class ExtendedAclChange:
    """/kafka-acl-extended-changes/acl_changes_N: a resource pattern that is not literal."""

    resource_type: str
    name: str
    pattern_type: str

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "resourceType": self.resource_type,
                "name": self.name,
                "patternType": self.pattern_type,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        json = JsonObject.parse("extended ACL change", data)
        if (version := json.integer("version")) > 1:
            raise InvalidPayload(f"extended ACL change: version {version} is not known")
        return cls(json.text("resourceType"), json.text("name"), json.text("patternType"))


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The value of SCRAM-SHA-256 or -512 in /config/users/U: text inside the configuration's JSON."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def encode(self) -> str:
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    @classmethod
    def decode(cls, text: str) -> Self:
        # Base64 ends in "=": only the first one of a part separates.
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        if set(parts) != {"salt", "stored_key", "server_key", "iterations"}:
            raise InvalidPayload("SCRAM credential: salt, stored_key, server_key and iterations are wanted")
        try:
            salt, stored, server = (
                base64.b64decode(parts[key], validate=True) for key in ("salt", "stored_key", "server_key")
            )
        except binascii.Error as error:
            raise InvalidPayload("SCRAM credential: a part is not base64") from error
        return cls(salt, stored, server, decode_integer_text("SCRAM iterations", parts["iterations"]))


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """/delegation_token/tokens/ID. Principals are percent-encoded in the JSON and plain here."""

    token_id: str
    owner: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiry_timestamp_ms: int

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": _TOKEN_VERSION,
                "owner": sanitize(self.owner),
                "renewers": [sanitize(each) for each in self.renewers],
                "issueTimestamp": self.issue_timestamp_ms,
                "maxTimestamp": self.max_timestamp_ms,
                "expiryTimestamp": self.expiry_timestamp_ms,
                "tokenId": self.token_id,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        json = JsonObject.parse("delegation token", data)
        if (version := json.integer("version")) not in _TOKEN_VERSIONS:
            raise InvalidPayload(f"delegation token: version {version} is not known")
        return cls(
            token_id=json.text("tokenId"),
            owner=desanitize(json.text("owner")),
            renewers=tuple(map(desanitize, json.texts("renewers"))),
            issue_timestamp_ms=json.integer("issueTimestamp"),
            max_timestamp_ms=json.integer("maxTimestamp"),
            expiry_timestamp_ms=json.integer("expiryTimestamp"),
        )


@dataclass(frozen=True, slots=True)
class TokenChange:
    """/delegation_token/token_changes/token_change_N: the token's id as text."""

    token_id: str

    def encode(self) -> bytes:
        return self.token_id.encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        try:
            return cls(data.decode())
        except UnicodeDecodeError as error:
            raise InvalidPayload(f"token change: not UTF-8: {data!r:.100}") from error


def _acl_entries(objects: Iterable[JsonObject]) -> Iterable[AclEntry]:
    return (
        AclEntry(each.text("principal"), each.text("permissionType"), each.text("operation"), each.text("host"))
        for each in objects
    )
