"""AlterUserScramCredentials (API key 51): sets and deletes SCRAM credentials (KIP-554).

Administrators send it to the controller.

Version 0 is flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, Bytes, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class ScramCredentialDeletion:
    """A credential to delete."""

    name: Str = ""
    mechanism: I8 = 0


@struct
class ScramCredentialUpsertion:
    """A credential to set; the client has salted the password."""

    name: Str = ""
    mechanism: I8 = 0
    iterations: I32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@message(versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest:
    """What to change."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@struct
class AlterUserScramCredentialsResult:
    """What became of one user's credentials."""

    user: Str = ""
    error_code: I16 = 0
    error_message: NullableStr = ""


@message(versions=(0, 0), flexible=0)
class AlterUserScramCredentialsResponse:
    """What was changed."""

    throttle_time_ms: I32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)


API: Final = Api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
)
