"""DescribeUserScramCredentials (API key 50): which SCRAM credentials users have (KIP-554).

Administrators send it to any broker.

Version 0 is flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class UserName:
    """A user."""

    name: Str = ""


@message(versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest:
    """Whose credentials; null or none means all users'."""

    users: list[UserName] | None = field(default_factory=list)


@struct
class CredentialInfo:
    """A credential: `mechanism` 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: I8 = 0
    iterations: I32 = 0


@struct
class DescribeUserScramCredentialsResult:
    """A user's credentials, without the secrets."""

    user: Str = ""
    error_code: I16 = 0
    error_message: NullableStr = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse:
    """The users."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)


API: Final = Api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
)
