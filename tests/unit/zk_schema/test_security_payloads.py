import pytest

from zk_schema.json_text import InvalidPayload
from zk_schema.security_payloads import (
    AccessControlList,
    AclChange,
    AclEntry,
    DelegationToken,
    ExtendedAclChange,
    ScramCredential,
    TokenChange,
)


def test_an_access_control_list_is_written_as_kafka_does() -> None:
    acl = AccessControlList((AclEntry("User:alice", "Allow", "Read", "*"),))
    text = '{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
    assert acl.encode().decode() == text
    assert AccessControlList.decode(text.encode()) == acl
    assert AccessControlList.decode(b"") == AccessControlList(())
    with pytest.raises(InvalidPayload, match="version 2"):
        AccessControlList.decode(b'{"version":2,"acls":[]}')


def test_a_literal_acl_change_is_text_with_the_type_in_upper_case() -> None:
    assert AclChange("Topic", "a:b").encode() == b"TOPIC:a:b"
    assert AclChange.decode(b"Topic:a:b") == AclChange.decode(b"TOPIC:a:b") == AclChange("TOPIC", "a:b")
    for data in (b"TOPIC", b"\xff:"):
        with pytest.raises(InvalidPayload):
            AclChange.decode(data)


def test_an_extended_acl_change_is_json() -> None:
    change = ExtendedAclChange("TOPIC", "t", "PREFIXED")
    text = '{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}'
    assert change.encode().decode() == text
    assert ExtendedAclChange.decode(text.encode()) == change
    with pytest.raises(InvalidPayload, match="version 2"):
        ExtendedAclChange.decode(text.replace("1", "2").encode())


def test_a_scram_credential_is_text_of_four_parts() -> None:
    credential = ScramCredential(b"salt", b"stored+", b"server", 4096)
    text = "salt=c2FsdA==,stored_key=c3RvcmVkKw==,server_key=c2VydmVy,iterations=4096"
    assert credential.encode() == text
    assert ScramCredential.decode(text) == credential
    for broken in ("", "salt=c2FsdA==", text.replace("c2VydmVy", "*"), text.replace("4096", "many")):
        with pytest.raises(InvalidPayload):
            ScramCredential.decode(broken)


def test_principals_of_a_delegation_token_are_encoded() -> None:
    token = DelegationToken("id", "User:a b", ("User:c",), 1, 2, 3)
    text = (
        '{"version":1,"owner":"User%3Aa%20b","renewers":["User%3Ac"],"issueTimestamp":1,"maxTimestamp":2,'
        '"expiryTimestamp":3,"tokenId":"id"}'
    )
    assert token.encode().decode() == text
    assert DelegationToken.decode(text.encode()) == token
    with pytest.raises(InvalidPayload, match="version 4"):
        DelegationToken.decode(text.replace('"version":1', '"version":4').encode())


def test_a_token_change_is_the_tokens_id() -> None:
    assert TokenChange("id").encode() == b"id"
    assert TokenChange.decode(b"id") == TokenChange("id")
    with pytest.raises(InvalidPayload):
        TokenChange.decode(b"\xff")
