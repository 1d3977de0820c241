"""What can go wrong between a client and a cluster. Everything the client raises is a `ClientError`."""

from barnabas.protocol.batch import CorruptBatch
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition


class ClientError(Exception):
    """The base of all errors of the client. `retriable`: the same call may succeed a moment later."""

    retriable = False


class KafkaError(ClientError):
    """A broker answered an error. `message` is the broker's own text, or a short one of ours."""

    def __init__(self, error: ErrorCode, message: str | None = None, *, context: str = "") -> None:
        text = message or error.name.lower().replace("_", " ")
        super().__init__(f"{context}: {text} ({error.name})" if context else f"{text} ({error.name})")
        self.error = error
        self.message = message
        self.retriable = error.retriable


class ConnectionFailed(ClientError):
    """A connection could not be made, or ended before the answer was there. Whether the request acted is not known."""

    retriable = True


class ClusterUnreachable(ClientError):
    """None of the addresses to start with answers, and no other is known."""


class RequestTimedOut(ClientError):
    """No answer in time. Whether the request acted is not known."""

    retriable = True


class OutcomeUnknown(ClientError):
    """The request may have acted or not, and asking again could let it act twice: look first."""


class UnsupportedByBroker(ClientError):
    """Client and broker have no version of an API in common, or none that can say what is needed."""


class ProtocolViolation(ClientError):
    """The peer sent what is not Kafka's protocol."""


class ProducerClosed(ClientError):
    """The producer was closed before the record was sent, or takes none any more."""


class ProducerFenced(ClientError):
    """Another producer with this transactional id took over: this one can do nothing more, and must not."""


class TransactionFailed(ClientError):
    """Something of the transaction did not work: it can only be aborted. `cause` is what went wrong."""

    def __init__(self, message: str, cause: ClientError) -> None:
        super().__init__(message)
        self.cause = cause


class TransactionAborted(ClientError):
    """The record was not sent: its transaction was aborted before."""


class WrongTransactionState(ClientError):
    """The call does not fit where the transaction is: a mistake of the program."""


def corrupt_batch(topic_partition: TopicPartition, error: CorruptBatch) -> ProtocolViolation:
    """What a reader raises for a batch that cannot be read."""
    return ProtocolViolation(f"{topic_partition}: the broker sent a batch that cannot be read: {error}")


def error_code(number: int) -> ErrorCode:
    """Return the error code of a response; a number that we do not know is UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def raise_for(number: int, message: str | None = None, *, context: str = "") -> None:
    """Raise KafkaError unless a response's error code is NONE."""
    if number:
        code = error_code(number)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR and number != ErrorCode.UNKNOWN_SERVER_ERROR:
            message = f"error {number}" + (f": {message}" if message else "")
        raise KafkaError(code, message, context=context)
