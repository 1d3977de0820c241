"""Codecs of what carries record batches. Written by `barnabas/launcher/codec_writing.py`."""

import struct
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

from barnabas.protocol.decoder_source import bad_length, skip_tagged_fields, text_too_long, too_many, wrong_tag_size
from barnabas.protocol.encoder_source import absent, join_tagged_fields, not_nullable, unrepresentable_text
from barnabas.protocol.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchablePartitionResponse, FetchableTopicResponse, ForgottenTopic, LeaderIdAndEpoch
from barnabas.protocol.messages.produce import BatchIndexAndErrorMessage, PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData, TopicProduceResponse
from barnabas.protocol.primitives import InvalidText, TruncatedMessage, UnrepresentableField, read_uvarint, uvarint

join: Final = b"".join
new: Final = object.__new__
pack: Final = struct.pack
struct_error: Final = struct.error
unpack_from: Final = struct.unpack_from
pack_B: Final = Struct(">B").pack
pack_h: Final = Struct(">h").pack
pack_hii: Final = Struct(">hii").pack
pack_i: Final = Struct(">i").pack
pack_iB: Final = Struct(">iB").pack
pack_ih: Final = Struct(">ih").pack
pack_ihi: Final = Struct(">ihi").pack
pack_ihiB: Final = Struct(">ihiB").pack
pack_ihii: Final = Struct(">ihii").pack
pack_ihqq: Final = Struct(">ihqq").pack
pack_ihqqi: Final = Struct(">ihqqi").pack
pack_ihqqq: Final = Struct(">ihqqq").pack
pack_ihqqqB: Final = Struct(">ihqqqB").pack
pack_ihqqqi: Final = Struct(">ihqqqi").pack
pack_ii: Final = Struct(">ii").pack
pack_iiiibii: Final = Struct(">iiiibii").pack
pack_iiiibiiB: Final = Struct(">iiiibiiB").pack
pack_iiiibiii: Final = Struct(">iiiibiii").pack
pack_iiqiqix: Final = Struct(">iiqiqix").pack
pack_iiqqi: Final = Struct(">iiqqi").pack
pack_iix: Final = Struct(">iix").pack
pack_iqx: Final = Struct(">iqx").pack
pack_qq: Final = Struct(">qq").pack
pack_qqx: Final = Struct(">qqx").pack
unpack_B: Final = Struct(">B").unpack_from
unpack_h: Final = Struct(">h").unpack_from
unpack_hhih: Final = Struct(">hhih").unpack_from
unpack_hii: Final = Struct(">hii").unpack_from
unpack_i: Final = Struct(">i").unpack_from
unpack_iB: Final = Struct(">iB").unpack_from
unpack_ih: Final = Struct(">ih").unpack_from
unpack_ihiB: Final = Struct(">ihiB").unpack_from
unpack_ihii: Final = Struct(">ihii").unpack_from
unpack_ihqqqB: Final = Struct(">ihqqqB").unpack_from
unpack_ihqqqi: Final = Struct(">ihqqqi").unpack_from
unpack_ii: Final = Struct(">ii").unpack_from
unpack_iiB: Final = Struct(">iiB").unpack_from
unpack_iiiibi: Final = Struct(">iiiibi").unpack_from
unpack_iiiibiiB: Final = Struct(">iiiibiiB").unpack_from
unpack_iiiibiii: Final = Struct(">iiiibiii").unpack_from
unpack_iiqiqiB: Final = Struct(">iiqiqiB").unpack_from
unpack_iiqqi: Final = Struct(">iiqqi").unpack_from
unpack_iqB: Final = Struct(">iqB").unpack_from
unpack_iqi: Final = Struct(">iqi").unpack_from
unpack_iqqi: Final = Struct(">iqqi").unpack_from
unpack_qq: Final = Struct(">qq").unpack_from
unpack_qqB: Final = Struct(">qqB").unpack_from


def decode_request_header_1(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_5: int
        api_key_1, api_version_2, correlation_id_3, length_5 = unpack_hhih(buf, pos)
        pos += 10
        client_id_4: Any
        if length_5 == -1:
            client_id_4 = None
        else:
            end_6 = pos + length_5
            if length_5 < 0 or end_6 > limit:
                raise bad_length('RequestHeader.client_id', length_5, limit - pos)
            client_id_4 = str(buf[pos:end_6], 'utf-8')
            pos = end_6
        message = new(RequestHeader)
        message.api_key = api_key_1
        message.api_version = api_version_2
        message.correlation_id = correlation_id_3
        message.client_id = client_id_4
        return message, pos
    except struct_error:
        raise TruncatedMessage('RequestHeader v1 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'RequestHeader v1: {error}') from None


def decode_request_header_2(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_5: int
        api_key_1, api_version_2, correlation_id_3, length_5 = unpack_hhih(buf, pos)
        pos += 10
        client_id_4: Any
        if length_5 == -1:
            client_id_4 = None
        else:
            end_6 = pos + length_5
            if length_5 < 0 or end_6 > limit:
                raise bad_length('RequestHeader.client_id', length_5, limit - pos)
            client_id_4 = str(buf[pos:end_6], 'utf-8')
            pos = end_6
        tags_7, = unpack_B(buf, pos)
        pos += 1
        if tags_7:
            pos = skip_tagged_fields(buf, pos - 1, limit)
        message = new(RequestHeader)
        message.api_key = api_key_1
        message.api_version = api_version_2
        message.correlation_id = correlation_id_3
        message.client_id = client_id_4
        return message, pos
    except struct_error:
        raise TruncatedMessage('RequestHeader v2 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'RequestHeader v2: {error}') from None


def decode_response_header_0(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        correlation_id_1, = unpack_i(buf, pos)
        pos += 4
        message = new(ResponseHeader)
        message.correlation_id = correlation_id_1
        return message, pos
    except struct_error:
        raise TruncatedMessage('ResponseHeader v0 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ResponseHeader v0: {error}') from None


def decode_response_header_1(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        correlation_id_1, tags_2 = unpack_iB(buf, pos)
        pos += 5
        if tags_2:
            pos = skip_tagged_fields(buf, pos - 1, limit)
        message = new(ResponseHeader)
        message.correlation_id = correlation_id_1
        return message, pos
    except struct_error:
        raise TruncatedMessage('ResponseHeader v1 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ResponseHeader v1: {error}') from None


def decode_produce_request_3(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_2: int
        length_2, = unpack_h(buf, pos)
        pos += 2
        transactional_id_1: Any
        if length_2 == -1:
            transactional_id_1 = None
        else:
            end_3 = pos + length_2
            if length_2 < 0 or end_3 > limit:
                raise bad_length('ProduceRequest.transactional_id', length_2, limit - pos)
            transactional_id_1 = str(buf[pos:end_3], 'utf-8')
            pos = end_3
        length_7: int
        acks_4, timeout_ms_5, length_7 = unpack_hii(buf, pos)
        pos += 10
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of ProduceRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of ProduceRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('TopicProduceData.name', length_10, limit - pos)
            name_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 8 > limit - pos:
                raise bad_length('items of TopicProduceData.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of TopicProduceData.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                length_17: int
                partition_index_15, length_17 = unpack_ii(buf, pos)
                pos += 8
                records_16: Any
                if length_17 == -1:
                    records_16 = None
                else:
                    end_18 = pos + length_17
                    if length_17 < 0 or end_18 > limit:
                        raise bad_length('PartitionProduceData.records', length_17, limit - pos)
                    records_16 = memoryview(buf)[pos:end_18]
                    pos = end_18
                item_14 = new(PartitionProduceData)
                item_14.partition_index = partition_index_15
                item_14.records = records_16
                partitions_12.append(item_14)
            item_8 = new(TopicProduceData)
            item_8.name = name_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(ProduceRequest)
        message.transactional_id = transactional_id_1
        message.acks = acks_4
        message.timeout_ms = timeout_ms_5
        message.topics = topics_6
        return message, pos
    except struct_error:
        raise TruncatedMessage('ProduceRequest v3 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ProduceRequest v3: {error}') from None


def frame_produce_response_3(message: Any, correlation_id: int) -> list[Any]:
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_i(length_2))
        for item_3 in responses_1:
            name_4 = item_3.name
            raw_5 = name_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partitions_7 = item_3.partitions
            length_8 = len(partitions_7)
            parts.append(pack_i(length_8))
            for item_9 in partitions_7:
                parts.append(pack_ihqq(item_9.partition_index, item_9.error_code, item_9.base_offset, item_9.log_append_time_ms))
        parts.append(pack_i(message.throttle_time_ms))
    except struct_error as error:
        raise UnrepresentableField(f'ProduceResponse v3: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'ProduceResponse v3: {no_text}') from None
    parts[0] = pack_ii(4 + sum(map(len, parts)), correlation_id)
    return [join(parts)]


def decode_produce_request_4(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_2: int
        length_2, = unpack_h(buf, pos)
        pos += 2
        transactional_id_1: Any
        if length_2 == -1:
            transactional_id_1 = None
        else:
            end_3 = pos + length_2
            if length_2 < 0 or end_3 > limit:
                raise bad_length('ProduceRequest.transactional_id', length_2, limit - pos)
            transactional_id_1 = str(buf[pos:end_3], 'utf-8')
            pos = end_3
        length_7: int
        acks_4, timeout_ms_5, length_7 = unpack_hii(buf, pos)
        pos += 10
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of ProduceRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of ProduceRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('TopicProduceData.name', length_10, limit - pos)
            name_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 8 > limit - pos:
                raise bad_length('items of TopicProduceData.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of TopicProduceData.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                length_17: int
                partition_index_15, length_17 = unpack_ii(buf, pos)
                pos += 8
                records_16: Any
                if length_17 == -1:
                    records_16 = None
                else:
                    end_18 = pos + length_17
                    if length_17 < 0 or end_18 > limit:
                        raise bad_length('PartitionProduceData.records', length_17, limit - pos)
                    records_16 = memoryview(buf)[pos:end_18]
                    pos = end_18
                item_14 = new(PartitionProduceData)
                item_14.partition_index = partition_index_15
                item_14.records = records_16
                partitions_12.append(item_14)
            item_8 = new(TopicProduceData)
            item_8.name = name_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(ProduceRequest)
        message.transactional_id = transactional_id_1
        message.acks = acks_4
        message.timeout_ms = timeout_ms_5
        message.topics = topics_6
        return message, pos
    except struct_error:
        raise TruncatedMessage('ProduceRequest v4 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ProduceRequest v4: {error}') from None


def frame_produce_response_4(message: Any, correlation_id: int) -> list[Any]:
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_i(length_2))
        for item_3 in responses_1:
            name_4 = item_3.name
            raw_5 = name_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partitions_7 = item_3.partitions
            length_8 = len(partitions_7)
            parts.append(pack_i(length_8))
            for item_9 in partitions_7:
                parts.append(pack_ihqq(item_9.partition_index, item_9.error_code, item_9.base_offset, item_9.log_append_time_ms))
        parts.append(pack_i(message.throttle_time_ms))
    except struct_error as error:
        raise UnrepresentableField(f'ProduceResponse v4: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'ProduceResponse v4: {no_text}') from None
    parts[0] = pack_ii(4 + sum(map(len, parts)), correlation_id)
    return [join(parts)]


def decode_produce_request_5(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_2: int
        length_2, = unpack_h(buf, pos)
        pos += 2
        transactional_id_1: Any
        if length_2 == -1:
            transactional_id_1 = None
        else:
            end_3 = pos + length_2
            if length_2 < 0 or end_3 > limit:
                raise bad_length('ProduceRequest.transactional_id', length_2, limit - pos)
            transactional_id_1 = str(buf[pos:end_3], 'utf-8')
            pos = end_3
        length_7: int
        acks_4, timeout_ms_5, length_7 = unpack_hii(buf, pos)
        pos += 10
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of ProduceRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of ProduceRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('TopicProduceData.name', length_10, limit - pos)
            name_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 8 > limit - pos:
                raise bad_length('items of TopicProduceData.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of TopicProduceData.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                length_17: int
                partition_index_15, length_17 = unpack_ii(buf, pos)
                pos += 8
                records_16: Any
                if length_17 == -1:
                    records_16 = None
                else:
                    end_18 = pos + length_17
                    if length_17 < 0 or end_18 > limit:
                        raise bad_length('PartitionProduceData.records', length_17, limit - pos)
                    records_16 = memoryview(buf)[pos:end_18]
                    pos = end_18
                item_14 = new(PartitionProduceData)
                item_14.partition_index = partition_index_15
                item_14.records = records_16
                partitions_12.append(item_14)
            item_8 = new(TopicProduceData)
            item_8.name = name_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(ProduceRequest)
        message.transactional_id = transactional_id_1
        message.acks = acks_4
        message.timeout_ms = timeout_ms_5
        message.topics = topics_6
        return message, pos
    except struct_error:
        raise TruncatedMessage('ProduceRequest v5 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ProduceRequest v5: {error}') from None


def frame_produce_response_5(message: Any, correlation_id: int) -> list[Any]:
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_i(length_2))
        for item_3 in responses_1:
            name_4 = item_3.name
            raw_5 = name_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partitions_7 = item_3.partitions
            length_8 = len(partitions_7)
            parts.append(pack_i(length_8))
            for item_9 in partitions_7:
                parts.append(pack_ihqqq(item_9.partition_index, item_9.error_code, item_9.base_offset, item_9.log_append_time_ms, item_9.log_start_offset))
        parts.append(pack_i(message.throttle_time_ms))
    except struct_error as error:
        raise UnrepresentableField(f'ProduceResponse v5: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'ProduceResponse v5: {no_text}') from None
    parts[0] = pack_ii(4 + sum(map(len, parts)), correlation_id)
    return [join(parts)]


def decode_produce_request_6(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_2: int
        length_2, = unpack_h(buf, pos)
        pos += 2
        transactional_id_1: Any
        if length_2 == -1:
            transactional_id_1 = None
        else:
            end_3 = pos + length_2
            if length_2 < 0 or end_3 > limit:
                raise bad_length('ProduceRequest.transactional_id', length_2, limit - pos)
            transactional_id_1 = str(buf[pos:end_3], 'utf-8')
            pos = end_3
        length_7: int
        acks_4, timeout_ms_5, length_7 = unpack_hii(buf, pos)
        pos += 10
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of ProduceRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of ProduceRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('TopicProduceData.name', length_10, limit - pos)
            name_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 8 > limit - pos:
                raise bad_length('items of TopicProduceData.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of TopicProduceData.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                length_17: int
                partition_index_15, length_17 = unpack_ii(buf, pos)
                pos += 8
                records_16: Any
                if length_17 == -1:
                    records_16 = None
                else:
                    end_18 = pos + length_17
                    if length_17 < 0 or end_18 > limit:
                        raise bad_length('PartitionProduceData.records', length_17, limit - pos)
                    records_16 = memoryview(buf)[pos:end_18]
                    pos = end_18
                item_14 = new(PartitionProduceData)
                item_14.partition_index = partition_index_15
                item_14.records = records_16
                partitions_12.append(item_14)
            item_8 = new(TopicProduceData)
            item_8.name = name_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(ProduceRequest)
        message.transactional_id = transactional_id_1
        message.acks = acks_4
        message.timeout_ms = timeout_ms_5
        message.topics = topics_6
        return message, pos
    except struct_error:
        raise TruncatedMessage('ProduceRequest v6 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ProduceRequest v6: {error}') from None


def frame_produce_response_6(message: Any, correlation_id: int) -> list[Any]:
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_i(length_2))
        for item_3 in responses_1:
            name_4 = item_3.name
            raw_5 = name_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partitions_7 = item_3.partitions
            length_8 = len(partitions_7)
            parts.append(pack_i(length_8))
            for item_9 in partitions_7:
                parts.append(pack_ihqqq(item_9.partition_index, item_9.error_code, item_9.base_offset, item_9.log_append_time_ms, item_9.log_start_offset))
        parts.append(pack_i(message.throttle_time_ms))
    except struct_error as error:
        raise UnrepresentableField(f'ProduceResponse v6: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'ProduceResponse v6: {no_text}') from None
    parts[0] = pack_ii(4 + sum(map(len, parts)), correlation_id)
    return [join(parts)]


def decode_produce_request_7(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_2: int
        length_2, = unpack_h(buf, pos)
        pos += 2
        transactional_id_1: Any
        if length_2 == -1:
            transactional_id_1 = None
        else:
            end_3 = pos + length_2
            if length_2 < 0 or end_3 > limit:
                raise bad_length('ProduceRequest.transactional_id', length_2, limit - pos)
            transactional_id_1 = str(buf[pos:end_3], 'utf-8')
            pos = end_3
        length_7: int
        acks_4, timeout_ms_5, length_7 = unpack_hii(buf, pos)
        pos += 10
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of ProduceRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of ProduceRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('TopicProduceData.name', length_10, limit - pos)
            name_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 8 > limit - pos:
                raise bad_length('items of TopicProduceData.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of TopicProduceData.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                length_17: int
                partition_index_15, length_17 = unpack_ii(buf, pos)
                pos += 8
                records_16: Any
                if length_17 == -1:
                    records_16 = None
                else:
                    end_18 = pos + length_17
                    if length_17 < 0 or end_18 > limit:
                        raise bad_length('PartitionProduceData.records', length_17, limit - pos)
                    records_16 = memoryview(buf)[pos:end_18]
                    pos = end_18
                item_14 = new(PartitionProduceData)
                item_14.partition_index = partition_index_15
                item_14.records = records_16
                partitions_12.append(item_14)
            item_8 = new(TopicProduceData)
            item_8.name = name_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(ProduceRequest)
        message.transactional_id = transactional_id_1
        message.acks = acks_4
        message.timeout_ms = timeout_ms_5
        message.topics = topics_6
        return message, pos
    except struct_error:
        raise TruncatedMessage('ProduceRequest v7 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ProduceRequest v7: {error}') from None


def frame_produce_response_7(message: Any, correlation_id: int) -> list[Any]:
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_i(length_2))
        for item_3 in responses_1:
            name_4 = item_3.name
            raw_5 = name_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partitions_7 = item_3.partitions
            length_8 = len(partitions_7)
            parts.append(pack_i(length_8))
            for item_9 in partitions_7:
                parts.append(pack_ihqqq(item_9.partition_index, item_9.error_code, item_9.base_offset, item_9.log_append_time_ms, item_9.log_start_offset))
        parts.append(pack_i(message.throttle_time_ms))
    except struct_error as error:
        raise UnrepresentableField(f'ProduceResponse v7: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'ProduceResponse v7: {no_text}') from None
    parts[0] = pack_ii(4 + sum(map(len, parts)), correlation_id)
    return [join(parts)]


def decode_produce_request_8(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_2: int
        length_2, = unpack_h(buf, pos)
        pos += 2
        transactional_id_1: Any
        if length_2 == -1:
            transactional_id_1 = None
        else:
            end_3 = pos + length_2
            if length_2 < 0 or end_3 > limit:
                raise bad_length('ProduceRequest.transactional_id', length_2, limit - pos)
            transactional_id_1 = str(buf[pos:end_3], 'utf-8')
            pos = end_3
        length_7: int
        acks_4, timeout_ms_5, length_7 = unpack_hii(buf, pos)
        pos += 10
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of ProduceRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of ProduceRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('TopicProduceData.name', length_10, limit - pos)
            name_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 8 > limit - pos:
                raise bad_length('items of TopicProduceData.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of TopicProduceData.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                length_17: int
                partition_index_15, length_17 = unpack_ii(buf, pos)
                pos += 8
                records_16: Any
                if length_17 == -1:
                    records_16 = None
                else:
                    end_18 = pos + length_17
                    if length_17 < 0 or end_18 > limit:
                        raise bad_length('PartitionProduceData.records', length_17, limit - pos)
                    records_16 = memoryview(buf)[pos:end_18]
                    pos = end_18
                item_14 = new(PartitionProduceData)
                item_14.partition_index = partition_index_15
                item_14.records = records_16
                partitions_12.append(item_14)
            item_8 = new(TopicProduceData)
            item_8.name = name_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(ProduceRequest)
        message.transactional_id = transactional_id_1
        message.acks = acks_4
        message.timeout_ms = timeout_ms_5
        message.topics = topics_6
        return message, pos
    except struct_error:
        raise TruncatedMessage('ProduceRequest v8 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ProduceRequest v8: {error}') from None


def frame_produce_response_8(message: Any, correlation_id: int) -> list[Any]:
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_i(length_2))
        for item_3 in responses_1:
            name_4 = item_3.name
            raw_5 = name_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partitions_7 = item_3.partitions
            length_8 = len(partitions_7)
            parts.append(pack_i(length_8))
            for item_9 in partitions_7:
                record_errors_10 = item_9.record_errors
                length_11 = len(record_errors_10)
                parts.append(pack_ihqqqi(item_9.partition_index, item_9.error_code, item_9.base_offset, item_9.log_append_time_ms, item_9.log_start_offset, length_11))
                for item_12 in record_errors_10:
                    batch_index_error_message_13 = item_12.batch_index_error_message
                    raw_14 = batch_index_error_message_13.encode() if batch_index_error_message_13 is not None else b''
                    length_15 = len(raw_14) if batch_index_error_message_13 is not None else -1
                    parts.append(pack_ih(item_12.batch_index, length_15))
                    parts.append(raw_14)
                error_message_16 = item_9.error_message
                raw_17 = error_message_16.encode() if error_message_16 is not None else b''
                length_18 = len(raw_17) if error_message_16 is not None else -1
                parts.append(pack_h(length_18))
                parts.append(raw_17)
        parts.append(pack_i(message.throttle_time_ms))
    except struct_error as error:
        raise UnrepresentableField(f'ProduceResponse v8: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'ProduceResponse v8: {no_text}') from None
    parts[0] = pack_ii(4 + sum(map(len, parts)), correlation_id)
    return [join(parts)]


def encode_produce_request_8(message: Any, first: bytes) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [first]
        transactional_id_1 = message.transactional_id
        raw_2 = transactional_id_1.encode() if transactional_id_1 is not None else b''
        length_3 = len(raw_2) if transactional_id_1 is not None else -1
        parts.append(pack_h(length_3))
        parts.append(raw_2)
        topics_4 = message.topics
        length_5 = len(topics_4)
        parts.append(pack_hii(message.acks, message.timeout_ms, length_5))
        for item_6 in topics_4:
            name_7 = item_6.name
            raw_8 = name_7.encode()
            length_9 = len(raw_8)
            parts.append(pack_h(length_9))
            parts.append(raw_8)
            partitions_10 = item_6.partitions
            length_11 = len(partitions_10)
            parts.append(pack_i(length_11))
            for item_12 in partitions_10:
                records_13 = item_12.records
                length_14 = len(records_13) if records_13 is not None else -1
                parts.append(pack_ii(item_12.partition_index, length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(records_13)
    except struct_error as error:
        raise UnrepresentableField(f'ProduceRequest v8: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'ProduceRequest v8: {no_text}') from None
    if parts:
        done.append(join(parts))
    return done


def decode_produce_response_8(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_2: int
        length_2, = unpack_i(buf, pos)
        pos += 4
        if length_2 < 0 or length_2 * 6 > limit - pos:
            raise bad_length('items of ProduceResponse.responses', length_2, limit - pos)
        budget -= length_2
        if budget < 0:
            raise too_many('items of ProduceResponse.responses')
        responses_1: list[Any] = []
        for _ in range(length_2):
            length_5: int
            length_5, = unpack_h(buf, pos)
            pos += 2
            end_6 = pos + length_5
            if length_5 < 0 or end_6 > limit:
                raise bad_length('TopicProduceResponse.name', length_5, limit - pos)
            name_4 = str(buf[pos:end_6], 'utf-8')
            pos = end_6
            length_8: int
            length_8, = unpack_i(buf, pos)
            pos += 4
            if length_8 < 0 or length_8 * 36 > limit - pos:
                raise bad_length('items of TopicProduceResponse.partitions', length_8, limit - pos)
            budget -= length_8
            if budget < 0:
                raise too_many('items of TopicProduceResponse.partitions')
            partitions_7: list[Any] = []
            for _ in range(length_8):
                length_16: int
                partition_index_10, error_code_11, base_offset_12, log_append_time_ms_13, log_start_offset_14, length_16 = unpack_ihqqqi(buf, pos)
                pos += 34
                if length_16 < 0 or length_16 * 6 > limit - pos:
                    raise bad_length('items of PartitionProduceResponse.record_errors', length_16, limit - pos)
                budget -= length_16
                if budget < 0:
                    raise too_many('items of PartitionProduceResponse.record_errors')
                record_errors_15: list[Any] = []
                for _ in range(length_16):
                    length_20: int
                    batch_index_18, length_20 = unpack_ih(buf, pos)
                    pos += 6
                    batch_index_error_message_19: Any
                    if length_20 == -1:
                        batch_index_error_message_19 = None
                    else:
                        end_21 = pos + length_20
                        if length_20 < 0 or end_21 > limit:
                            raise bad_length('BatchIndexAndErrorMessage.batch_index_error_message', length_20, limit - pos)
                        batch_index_error_message_19 = str(buf[pos:end_21], 'utf-8')
                        pos = end_21
                    item_17 = new(BatchIndexAndErrorMessage)
                    item_17.batch_index = batch_index_18
                    item_17.batch_index_error_message = batch_index_error_message_19
                    record_errors_15.append(item_17)
                length_23: int
                length_23, = unpack_h(buf, pos)
                pos += 2
                error_message_22: Any
                if length_23 == -1:
                    error_message_22 = None
                else:
                    end_24 = pos + length_23
                    if length_23 < 0 or end_24 > limit:
                        raise bad_length('PartitionProduceResponse.error_message', length_23, limit - pos)
                    error_message_22 = str(buf[pos:end_24], 'utf-8')
                    pos = end_24
                item_9 = new(PartitionProduceResponse)
                item_9.partition_index = partition_index_10
                item_9.error_code = error_code_11
                item_9.base_offset = base_offset_12
                item_9.log_append_time_ms = log_append_time_ms_13
                item_9.log_start_offset = log_start_offset_14
                item_9.record_errors = record_errors_15
                item_9.error_message = error_message_22
                partitions_7.append(item_9)
            item_3 = new(TopicProduceResponse)
            item_3.name = name_4
            item_3.partitions = partitions_7
            responses_1.append(item_3)
        throttle_time_ms_25, = unpack_i(buf, pos)
        pos += 4
        message = new(ProduceResponse)
        message.responses = responses_1
        message.throttle_time_ms = throttle_time_ms_25
        return message, pos
    except struct_error:
        raise TruncatedMessage('ProduceResponse v8 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'ProduceResponse v8: {error}') from None


def decode_fetch_request_4(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_7: int
        replica_id_1, max_wait_ms_2, min_bytes_3, max_bytes_4, isolation_level_5, length_7 = unpack_iiiibi(buf, pos)
        pos += 21
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('FetchTopic.topic', length_10, limit - pos)
            topic_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 16 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                partition_15, fetch_offset_16, partition_max_bytes_17 = unpack_iqi(buf, pos)
                pos += 16
                item_14 = new(FetchPartition)
                item_14.partition = partition_15
                item_14.current_leader_epoch = -1
                item_14.fetch_offset = fetch_offset_16
                item_14.last_fetched_epoch = -1
                item_14.log_start_offset = -1
                item_14.partition_max_bytes = partition_max_bytes_17
                partitions_12.append(item_14)
            item_8 = new(FetchTopic)
            item_8.topic = topic_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(FetchRequest)
        message.cluster_id = None
        message.replica_id = replica_id_1
        message.max_wait_ms = max_wait_ms_2
        message.min_bytes = min_bytes_3
        message.max_bytes = max_bytes_4
        message.isolation_level = isolation_level_5
        message.session_id = 0
        message.session_epoch = -1
        message.topics = topics_6
        message.forgotten_topics_data = []
        message.rack_id = ''
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v4 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v4: {error}') from None


def frame_fetch_response_4(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        if message.session_id != 0:
            raise absent('FetchResponse.session_id', 4)
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_ii(message.throttle_time_ms, length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7)
            parts.append(pack_i(length_8))
            for item_9 in partition_responses_7:
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    raise absent('FetchablePartitionResponse.diverging_epoch', 4)
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    raise absent('FetchablePartitionResponse.current_leader', 4)
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) if aborted_transactions_10 is not None else -1
                parts.append(pack_ihqqi(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qq(item_12.producer_id, item_12.first_offset))
                if item_9.preferred_read_replica != -1:
                    raise absent('FetchablePartitionResponse.preferred_read_replica', 4)
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) if record_set_13 is not None else -1
                parts.append(pack_i(length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v4: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v4: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_ii(4 + sum(map(len, done)), correlation_id) + done[0]
    return done


def decode_fetch_request_5(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_7: int
        replica_id_1, max_wait_ms_2, min_bytes_3, max_bytes_4, isolation_level_5, length_7 = unpack_iiiibi(buf, pos)
        pos += 21
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('FetchTopic.topic', length_10, limit - pos)
            topic_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 24 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                partition_15, fetch_offset_16, log_start_offset_17, partition_max_bytes_18 = unpack_iqqi(buf, pos)
                pos += 24
                item_14 = new(FetchPartition)
                item_14.partition = partition_15
                item_14.current_leader_epoch = -1
                item_14.fetch_offset = fetch_offset_16
                item_14.last_fetched_epoch = -1
                item_14.log_start_offset = log_start_offset_17
                item_14.partition_max_bytes = partition_max_bytes_18
                partitions_12.append(item_14)
            item_8 = new(FetchTopic)
            item_8.topic = topic_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(FetchRequest)
        message.cluster_id = None
        message.replica_id = replica_id_1
        message.max_wait_ms = max_wait_ms_2
        message.min_bytes = min_bytes_3
        message.max_bytes = max_bytes_4
        message.isolation_level = isolation_level_5
        message.session_id = 0
        message.session_epoch = -1
        message.topics = topics_6
        message.forgotten_topics_data = []
        message.rack_id = ''
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v5 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v5: {error}') from None


def frame_fetch_response_5(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        if message.session_id != 0:
            raise absent('FetchResponse.session_id', 5)
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_ii(message.throttle_time_ms, length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7)
            parts.append(pack_i(length_8))
            for item_9 in partition_responses_7:
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    raise absent('FetchablePartitionResponse.diverging_epoch', 5)
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    raise absent('FetchablePartitionResponse.current_leader', 5)
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) if aborted_transactions_10 is not None else -1
                parts.append(pack_ihqqqi(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset, length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qq(item_12.producer_id, item_12.first_offset))
                if item_9.preferred_read_replica != -1:
                    raise absent('FetchablePartitionResponse.preferred_read_replica', 5)
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) if record_set_13 is not None else -1
                parts.append(pack_i(length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v5: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v5: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_ii(4 + sum(map(len, done)), correlation_id) + done[0]
    return done


def decode_fetch_request_6(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_7: int
        replica_id_1, max_wait_ms_2, min_bytes_3, max_bytes_4, isolation_level_5, length_7 = unpack_iiiibi(buf, pos)
        pos += 21
        if length_7 < 0 or length_7 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_7, limit - pos)
        budget -= length_7
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_6: list[Any] = []
        for _ in range(length_7):
            length_10: int
            length_10, = unpack_h(buf, pos)
            pos += 2
            end_11 = pos + length_10
            if length_10 < 0 or end_11 > limit:
                raise bad_length('FetchTopic.topic', length_10, limit - pos)
            topic_9 = str(buf[pos:end_11], 'utf-8')
            pos = end_11
            length_13: int
            length_13, = unpack_i(buf, pos)
            pos += 4
            if length_13 < 0 or length_13 * 24 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_13, limit - pos)
            budget -= length_13
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_12: list[Any] = []
            for _ in range(length_13):
                partition_15, fetch_offset_16, log_start_offset_17, partition_max_bytes_18 = unpack_iqqi(buf, pos)
                pos += 24
                item_14 = new(FetchPartition)
                item_14.partition = partition_15
                item_14.current_leader_epoch = -1
                item_14.fetch_offset = fetch_offset_16
                item_14.last_fetched_epoch = -1
                item_14.log_start_offset = log_start_offset_17
                item_14.partition_max_bytes = partition_max_bytes_18
                partitions_12.append(item_14)
            item_8 = new(FetchTopic)
            item_8.topic = topic_9
            item_8.partitions = partitions_12
            topics_6.append(item_8)
        message = new(FetchRequest)
        message.cluster_id = None
        message.replica_id = replica_id_1
        message.max_wait_ms = max_wait_ms_2
        message.min_bytes = min_bytes_3
        message.max_bytes = max_bytes_4
        message.isolation_level = isolation_level_5
        message.session_id = 0
        message.session_epoch = -1
        message.topics = topics_6
        message.forgotten_topics_data = []
        message.rack_id = ''
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v6 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v6: {error}') from None


def frame_fetch_response_6(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        if message.session_id != 0:
            raise absent('FetchResponse.session_id', 6)
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_ii(message.throttle_time_ms, length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7)
            parts.append(pack_i(length_8))
            for item_9 in partition_responses_7:
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    raise absent('FetchablePartitionResponse.diverging_epoch', 6)
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    raise absent('FetchablePartitionResponse.current_leader', 6)
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) if aborted_transactions_10 is not None else -1
                parts.append(pack_ihqqqi(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset, length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qq(item_12.producer_id, item_12.first_offset))
                if item_9.preferred_read_replica != -1:
                    raise absent('FetchablePartitionResponse.preferred_read_replica', 6)
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) if record_set_13 is not None else -1
                parts.append(pack_i(length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v6: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v6: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_ii(4 + sum(map(len, done)), correlation_id) + done[0]
    return done


def decode_fetch_request_7(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_9: int
        replica_id_1, max_wait_ms_2, min_bytes_3, max_bytes_4, isolation_level_5, session_id_6, session_epoch_7, length_9 = unpack_iiiibiii(buf, pos)
        pos += 29
        if length_9 < 0 or length_9 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_9, limit - pos)
        budget -= length_9
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_8: list[Any] = []
        for _ in range(length_9):
            length_12: int
            length_12, = unpack_h(buf, pos)
            pos += 2
            end_13 = pos + length_12
            if length_12 < 0 or end_13 > limit:
                raise bad_length('FetchTopic.topic', length_12, limit - pos)
            topic_11 = str(buf[pos:end_13], 'utf-8')
            pos = end_13
            length_15: int
            length_15, = unpack_i(buf, pos)
            pos += 4
            if length_15 < 0 or length_15 * 24 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_15, limit - pos)
            budget -= length_15
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_14: list[Any] = []
            for _ in range(length_15):
                partition_17, fetch_offset_18, log_start_offset_19, partition_max_bytes_20 = unpack_iqqi(buf, pos)
                pos += 24
                item_16 = new(FetchPartition)
                item_16.partition = partition_17
                item_16.current_leader_epoch = -1
                item_16.fetch_offset = fetch_offset_18
                item_16.last_fetched_epoch = -1
                item_16.log_start_offset = log_start_offset_19
                item_16.partition_max_bytes = partition_max_bytes_20
                partitions_14.append(item_16)
            item_10 = new(FetchTopic)
            item_10.topic = topic_11
            item_10.partitions = partitions_14
            topics_8.append(item_10)
        length_22: int
        length_22, = unpack_i(buf, pos)
        pos += 4
        if length_22 < 0 or length_22 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.forgotten_topics_data', length_22, limit - pos)
        budget -= length_22
        if budget < 0:
            raise too_many('items of FetchRequest.forgotten_topics_data')
        forgotten_topics_data_21: list[Any] = []
        for _ in range(length_22):
            length_25: int
            length_25, = unpack_h(buf, pos)
            pos += 2
            end_26 = pos + length_25
            if length_25 < 0 or end_26 > limit:
                raise bad_length('ForgottenTopic.topic', length_25, limit - pos)
            topic_24 = str(buf[pos:end_26], 'utf-8')
            pos = end_26
            length_28: int
            length_28, = unpack_i(buf, pos)
            pos += 4
            if length_28 < 0 or length_28 * 4 > limit - pos:
                raise bad_length('items of ForgottenTopic.partitions', length_28, limit - pos)
            budget -= length_28
            if budget < 0:
                raise too_many('items of ForgottenTopic.partitions')
            partitions_27 = list(unpack_from(f'>{length_28}i', buf, pos))
            pos += length_28 * 4
            item_23 = new(ForgottenTopic)
            item_23.topic = topic_24
            item_23.partitions = partitions_27
            forgotten_topics_data_21.append(item_23)
        message = new(FetchRequest)
        message.cluster_id = None
        message.replica_id = replica_id_1
        message.max_wait_ms = max_wait_ms_2
        message.min_bytes = min_bytes_3
        message.max_bytes = max_bytes_4
        message.isolation_level = isolation_level_5
        message.session_id = session_id_6
        message.session_epoch = session_epoch_7
        message.topics = topics_8
        message.forgotten_topics_data = forgotten_topics_data_21
        message.rack_id = ''
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v7 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v7: {error}') from None


def frame_fetch_response_7(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_ihii(message.throttle_time_ms, message.error_code, message.session_id, length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7)
            parts.append(pack_i(length_8))
            for item_9 in partition_responses_7:
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    raise absent('FetchablePartitionResponse.diverging_epoch', 7)
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    raise absent('FetchablePartitionResponse.current_leader', 7)
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) if aborted_transactions_10 is not None else -1
                parts.append(pack_ihqqqi(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset, length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qq(item_12.producer_id, item_12.first_offset))
                if item_9.preferred_read_replica != -1:
                    raise absent('FetchablePartitionResponse.preferred_read_replica', 7)
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) if record_set_13 is not None else -1
                parts.append(pack_i(length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v7: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v7: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_ii(4 + sum(map(len, done)), correlation_id) + done[0]
    return done


def decode_fetch_request_8(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_9: int
        replica_id_1, max_wait_ms_2, min_bytes_3, max_bytes_4, isolation_level_5, session_id_6, session_epoch_7, length_9 = unpack_iiiibiii(buf, pos)
        pos += 29
        if length_9 < 0 or length_9 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_9, limit - pos)
        budget -= length_9
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_8: list[Any] = []
        for _ in range(length_9):
            length_12: int
            length_12, = unpack_h(buf, pos)
            pos += 2
            end_13 = pos + length_12
            if length_12 < 0 or end_13 > limit:
                raise bad_length('FetchTopic.topic', length_12, limit - pos)
            topic_11 = str(buf[pos:end_13], 'utf-8')
            pos = end_13
            length_15: int
            length_15, = unpack_i(buf, pos)
            pos += 4
            if length_15 < 0 or length_15 * 24 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_15, limit - pos)
            budget -= length_15
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_14: list[Any] = []
            for _ in range(length_15):
                partition_17, fetch_offset_18, log_start_offset_19, partition_max_bytes_20 = unpack_iqqi(buf, pos)
                pos += 24
                item_16 = new(FetchPartition)
                item_16.partition = partition_17
                item_16.current_leader_epoch = -1
                item_16.fetch_offset = fetch_offset_18
                item_16.last_fetched_epoch = -1
                item_16.log_start_offset = log_start_offset_19
                item_16.partition_max_bytes = partition_max_bytes_20
                partitions_14.append(item_16)
            item_10 = new(FetchTopic)
            item_10.topic = topic_11
            item_10.partitions = partitions_14
            topics_8.append(item_10)
        length_22: int
        length_22, = unpack_i(buf, pos)
        pos += 4
        if length_22 < 0 or length_22 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.forgotten_topics_data', length_22, limit - pos)
        budget -= length_22
        if budget < 0:
            raise too_many('items of FetchRequest.forgotten_topics_data')
        forgotten_topics_data_21: list[Any] = []
        for _ in range(length_22):
            length_25: int
            length_25, = unpack_h(buf, pos)
            pos += 2
            end_26 = pos + length_25
            if length_25 < 0 or end_26 > limit:
                raise bad_length('ForgottenTopic.topic', length_25, limit - pos)
            topic_24 = str(buf[pos:end_26], 'utf-8')
            pos = end_26
            length_28: int
            length_28, = unpack_i(buf, pos)
            pos += 4
            if length_28 < 0 or length_28 * 4 > limit - pos:
                raise bad_length('items of ForgottenTopic.partitions', length_28, limit - pos)
            budget -= length_28
            if budget < 0:
                raise too_many('items of ForgottenTopic.partitions')
            partitions_27 = list(unpack_from(f'>{length_28}i', buf, pos))
            pos += length_28 * 4
            item_23 = new(ForgottenTopic)
            item_23.topic = topic_24
            item_23.partitions = partitions_27
            forgotten_topics_data_21.append(item_23)
        message = new(FetchRequest)
        message.cluster_id = None
        message.replica_id = replica_id_1
        message.max_wait_ms = max_wait_ms_2
        message.min_bytes = min_bytes_3
        message.max_bytes = max_bytes_4
        message.isolation_level = isolation_level_5
        message.session_id = session_id_6
        message.session_epoch = session_epoch_7
        message.topics = topics_8
        message.forgotten_topics_data = forgotten_topics_data_21
        message.rack_id = ''
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v8 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v8: {error}') from None


def frame_fetch_response_8(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_ihii(message.throttle_time_ms, message.error_code, message.session_id, length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7)
            parts.append(pack_i(length_8))
            for item_9 in partition_responses_7:
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    raise absent('FetchablePartitionResponse.diverging_epoch', 8)
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    raise absent('FetchablePartitionResponse.current_leader', 8)
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) if aborted_transactions_10 is not None else -1
                parts.append(pack_ihqqqi(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset, length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qq(item_12.producer_id, item_12.first_offset))
                if item_9.preferred_read_replica != -1:
                    raise absent('FetchablePartitionResponse.preferred_read_replica', 8)
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) if record_set_13 is not None else -1
                parts.append(pack_i(length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v8: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v8: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_ii(4 + sum(map(len, done)), correlation_id) + done[0]
    return done


def decode_fetch_request_9(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_9: int
        replica_id_1, max_wait_ms_2, min_bytes_3, max_bytes_4, isolation_level_5, session_id_6, session_epoch_7, length_9 = unpack_iiiibiii(buf, pos)
        pos += 29
        if length_9 < 0 or length_9 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_9, limit - pos)
        budget -= length_9
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_8: list[Any] = []
        for _ in range(length_9):
            length_12: int
            length_12, = unpack_h(buf, pos)
            pos += 2
            end_13 = pos + length_12
            if length_12 < 0 or end_13 > limit:
                raise bad_length('FetchTopic.topic', length_12, limit - pos)
            topic_11 = str(buf[pos:end_13], 'utf-8')
            pos = end_13
            length_15: int
            length_15, = unpack_i(buf, pos)
            pos += 4
            if length_15 < 0 or length_15 * 28 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_15, limit - pos)
            budget -= length_15
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_14: list[Any] = []
            for _ in range(length_15):
                partition_17, current_leader_epoch_18, fetch_offset_19, log_start_offset_20, partition_max_bytes_21 = unpack_iiqqi(buf, pos)
                pos += 28
                item_16 = new(FetchPartition)
                item_16.partition = partition_17
                item_16.current_leader_epoch = current_leader_epoch_18
                item_16.fetch_offset = fetch_offset_19
                item_16.last_fetched_epoch = -1
                item_16.log_start_offset = log_start_offset_20
                item_16.partition_max_bytes = partition_max_bytes_21
                partitions_14.append(item_16)
            item_10 = new(FetchTopic)
            item_10.topic = topic_11
            item_10.partitions = partitions_14
            topics_8.append(item_10)
        length_23: int
        length_23, = unpack_i(buf, pos)
        pos += 4
        if length_23 < 0 or length_23 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.forgotten_topics_data', length_23, limit - pos)
        budget -= length_23
        if budget < 0:
            raise too_many('items of FetchRequest.forgotten_topics_data')
        forgotten_topics_data_22: list[Any] = []
        for _ in range(length_23):
            length_26: int
            length_26, = unpack_h(buf, pos)
            pos += 2
            end_27 = pos + length_26
            if length_26 < 0 or end_27 > limit:
                raise bad_length('ForgottenTopic.topic', length_26, limit - pos)
            topic_25 = str(buf[pos:end_27], 'utf-8')
            pos = end_27
            length_29: int
            length_29, = unpack_i(buf, pos)
            pos += 4
            if length_29 < 0 or length_29 * 4 > limit - pos:
                raise bad_length('items of ForgottenTopic.partitions', length_29, limit - pos)
            budget -= length_29
            if budget < 0:
                raise too_many('items of ForgottenTopic.partitions')
            partitions_28 = list(unpack_from(f'>{length_29}i', buf, pos))
            pos += length_29 * 4
            item_24 = new(ForgottenTopic)
            item_24.topic = topic_25
            item_24.partitions = partitions_28
            forgotten_topics_data_22.append(item_24)
        message = new(FetchRequest)
        message.cluster_id = None
        message.replica_id = replica_id_1
        message.max_wait_ms = max_wait_ms_2
        message.min_bytes = min_bytes_3
        message.max_bytes = max_bytes_4
        message.isolation_level = isolation_level_5
        message.session_id = session_id_6
        message.session_epoch = session_epoch_7
        message.topics = topics_8
        message.forgotten_topics_data = forgotten_topics_data_22
        message.rack_id = ''
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v9 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v9: {error}') from None


def frame_fetch_response_9(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_ihii(message.throttle_time_ms, message.error_code, message.session_id, length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7)
            parts.append(pack_i(length_8))
            for item_9 in partition_responses_7:
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    raise absent('FetchablePartitionResponse.diverging_epoch', 9)
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    raise absent('FetchablePartitionResponse.current_leader', 9)
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) if aborted_transactions_10 is not None else -1
                parts.append(pack_ihqqqi(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset, length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qq(item_12.producer_id, item_12.first_offset))
                if item_9.preferred_read_replica != -1:
                    raise absent('FetchablePartitionResponse.preferred_read_replica', 9)
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) if record_set_13 is not None else -1
                parts.append(pack_i(length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v9: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v9: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_ii(4 + sum(map(len, done)), correlation_id) + done[0]
    return done


def decode_fetch_request_10(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_9: int
        replica_id_1, max_wait_ms_2, min_bytes_3, max_bytes_4, isolation_level_5, session_id_6, session_epoch_7, length_9 = unpack_iiiibiii(buf, pos)
        pos += 29
        if length_9 < 0 or length_9 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_9, limit - pos)
        budget -= length_9
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_8: list[Any] = []
        for _ in range(length_9):
            length_12: int
            length_12, = unpack_h(buf, pos)
            pos += 2
            end_13 = pos + length_12
            if length_12 < 0 or end_13 > limit:
                raise bad_length('FetchTopic.topic', length_12, limit - pos)
            topic_11 = str(buf[pos:end_13], 'utf-8')
            pos = end_13
            length_15: int
            length_15, = unpack_i(buf, pos)
            pos += 4
            if length_15 < 0 or length_15 * 28 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_15, limit - pos)
            budget -= length_15
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_14: list[Any] = []
            for _ in range(length_15):
                partition_17, current_leader_epoch_18, fetch_offset_19, log_start_offset_20, partition_max_bytes_21 = unpack_iiqqi(buf, pos)
                pos += 28
                item_16 = new(FetchPartition)
                item_16.partition = partition_17
                item_16.current_leader_epoch = current_leader_epoch_18
                item_16.fetch_offset = fetch_offset_19
                item_16.last_fetched_epoch = -1
                item_16.log_start_offset = log_start_offset_20
                item_16.partition_max_bytes = partition_max_bytes_21
                partitions_14.append(item_16)
            item_10 = new(FetchTopic)
            item_10.topic = topic_11
            item_10.partitions = partitions_14
            topics_8.append(item_10)
        length_23: int
        length_23, = unpack_i(buf, pos)
        pos += 4
        if length_23 < 0 or length_23 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.forgotten_topics_data', length_23, limit - pos)
        budget -= length_23
        if budget < 0:
            raise too_many('items of FetchRequest.forgotten_topics_data')
        forgotten_topics_data_22: list[Any] = []
        for _ in range(length_23):
            length_26: int
            length_26, = unpack_h(buf, pos)
            pos += 2
            end_27 = pos + length_26
            if length_26 < 0 or end_27 > limit:
                raise bad_length('ForgottenTopic.topic', length_26, limit - pos)
            topic_25 = str(buf[pos:end_27], 'utf-8')
            pos = end_27
            length_29: int
            length_29, = unpack_i(buf, pos)
            pos += 4
            if length_29 < 0 or length_29 * 4 > limit - pos:
                raise bad_length('items of ForgottenTopic.partitions', length_29, limit - pos)
            budget -= length_29
            if budget < 0:
                raise too_many('items of ForgottenTopic.partitions')
            partitions_28 = list(unpack_from(f'>{length_29}i', buf, pos))
            pos += length_29 * 4
            item_24 = new(ForgottenTopic)
            item_24.topic = topic_25
            item_24.partitions = partitions_28
            forgotten_topics_data_22.append(item_24)
        message = new(FetchRequest)
        message.cluster_id = None
        message.replica_id = replica_id_1
        message.max_wait_ms = max_wait_ms_2
        message.min_bytes = min_bytes_3
        message.max_bytes = max_bytes_4
        message.isolation_level = isolation_level_5
        message.session_id = session_id_6
        message.session_epoch = session_epoch_7
        message.topics = topics_8
        message.forgotten_topics_data = forgotten_topics_data_22
        message.rack_id = ''
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v10 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v10: {error}') from None


def frame_fetch_response_10(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_ihii(message.throttle_time_ms, message.error_code, message.session_id, length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7)
            parts.append(pack_i(length_8))
            for item_9 in partition_responses_7:
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    raise absent('FetchablePartitionResponse.diverging_epoch', 10)
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    raise absent('FetchablePartitionResponse.current_leader', 10)
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) if aborted_transactions_10 is not None else -1
                parts.append(pack_ihqqqi(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset, length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qq(item_12.producer_id, item_12.first_offset))
                if item_9.preferred_read_replica != -1:
                    raise absent('FetchablePartitionResponse.preferred_read_replica', 10)
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) if record_set_13 is not None else -1
                parts.append(pack_i(length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v10: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v10: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_ii(4 + sum(map(len, done)), correlation_id) + done[0]
    return done


def decode_fetch_request_11(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_9: int
        replica_id_1, max_wait_ms_2, min_bytes_3, max_bytes_4, isolation_level_5, session_id_6, session_epoch_7, length_9 = unpack_iiiibiii(buf, pos)
        pos += 29
        if length_9 < 0 or length_9 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_9, limit - pos)
        budget -= length_9
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_8: list[Any] = []
        for _ in range(length_9):
            length_12: int
            length_12, = unpack_h(buf, pos)
            pos += 2
            end_13 = pos + length_12
            if length_12 < 0 or end_13 > limit:
                raise bad_length('FetchTopic.topic', length_12, limit - pos)
            topic_11 = str(buf[pos:end_13], 'utf-8')
            pos = end_13
            length_15: int
            length_15, = unpack_i(buf, pos)
            pos += 4
            if length_15 < 0 or length_15 * 28 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_15, limit - pos)
            budget -= length_15
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_14: list[Any] = []
            for _ in range(length_15):
                partition_17, current_leader_epoch_18, fetch_offset_19, log_start_offset_20, partition_max_bytes_21 = unpack_iiqqi(buf, pos)
                pos += 28
                item_16 = new(FetchPartition)
                item_16.partition = partition_17
                item_16.current_leader_epoch = current_leader_epoch_18
                item_16.fetch_offset = fetch_offset_19
                item_16.last_fetched_epoch = -1
                item_16.log_start_offset = log_start_offset_20
                item_16.partition_max_bytes = partition_max_bytes_21
                partitions_14.append(item_16)
            item_10 = new(FetchTopic)
            item_10.topic = topic_11
            item_10.partitions = partitions_14
            topics_8.append(item_10)
        length_23: int
        length_23, = unpack_i(buf, pos)
        pos += 4
        if length_23 < 0 or length_23 * 6 > limit - pos:
            raise bad_length('items of FetchRequest.forgotten_topics_data', length_23, limit - pos)
        budget -= length_23
        if budget < 0:
            raise too_many('items of FetchRequest.forgotten_topics_data')
        forgotten_topics_data_22: list[Any] = []
        for _ in range(length_23):
            length_26: int
            length_26, = unpack_h(buf, pos)
            pos += 2
            end_27 = pos + length_26
            if length_26 < 0 or end_27 > limit:
                raise bad_length('ForgottenTopic.topic', length_26, limit - pos)
            topic_25 = str(buf[pos:end_27], 'utf-8')
            pos = end_27
            length_29: int
            length_29, = unpack_i(buf, pos)
            pos += 4
            if length_29 < 0 or length_29 * 4 > limit - pos:
                raise bad_length('items of ForgottenTopic.partitions', length_29, limit - pos)
            budget -= length_29
            if budget < 0:
                raise too_many('items of ForgottenTopic.partitions')
            partitions_28 = list(unpack_from(f'>{length_29}i', buf, pos))
            pos += length_29 * 4
            item_24 = new(ForgottenTopic)
            item_24.topic = topic_25
            item_24.partitions = partitions_28
            forgotten_topics_data_22.append(item_24)
        length_31: int
        length_31, = unpack_h(buf, pos)
        pos += 2
        end_32 = pos + length_31
        if length_31 < 0 or end_32 > limit:
            raise bad_length('FetchRequest.rack_id', length_31, limit - pos)
        rack_id_30 = str(buf[pos:end_32], 'utf-8')
        pos = end_32
        message = new(FetchRequest)
        message.cluster_id = None
        message.replica_id = replica_id_1
        message.max_wait_ms = max_wait_ms_2
        message.min_bytes = min_bytes_3
        message.max_bytes = max_bytes_4
        message.isolation_level = isolation_level_5
        message.session_id = session_id_6
        message.session_epoch = session_epoch_7
        message.topics = topics_8
        message.forgotten_topics_data = forgotten_topics_data_22
        message.rack_id = rack_id_30
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v11 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v11: {error}') from None


def frame_fetch_response_11(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1)
        parts.append(pack_ihii(message.throttle_time_ms, message.error_code, message.session_id, length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7)
            parts.append(pack_i(length_8))
            for item_9 in partition_responses_7:
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    raise absent('FetchablePartitionResponse.diverging_epoch', 11)
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    raise absent('FetchablePartitionResponse.current_leader', 11)
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) if aborted_transactions_10 is not None else -1
                parts.append(pack_ihqqqi(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset, length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qq(item_12.producer_id, item_12.first_offset))
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) if record_set_13 is not None else -1
                parts.append(pack_ii(item_9.preferred_read_replica, length_14))
                if length_14 > 0:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v11: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v11: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_ii(4 + sum(map(len, done)), correlation_id) + done[0]
    return done


def decode_fetch_request_12(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_10: int
        replica_id_2, max_wait_ms_3, min_bytes_4, max_bytes_5, isolation_level_6, session_id_7, session_epoch_8, length_10 = unpack_iiiibiiB(buf, pos)
        pos += 26
        if length_10 > 127:
            length_10, pos = read_uvarint(buf, pos - 1)
        length_10 -= 1
        if length_10 < 0 or length_10 * 3 > limit - pos:
            raise bad_length('items of FetchRequest.topics', length_10, limit - pos)
        budget -= length_10
        if budget < 0:
            raise too_many('items of FetchRequest.topics')
        topics_9: list[Any] = []
        for _ in range(length_10):
            length_13: int
            length_13, = unpack_B(buf, pos)
            pos += 1
            if length_13 > 127:
                length_13, pos = read_uvarint(buf, pos - 1)
                if length_13 > 32768:
                    raise text_too_long('FetchTopic.topic', length_13 - 1)
            length_13 -= 1
            end_14 = pos + length_13
            if length_13 < 0 or end_14 > limit:
                raise bad_length('FetchTopic.topic', length_13, limit - pos)
            topic_12 = str(buf[pos:end_14], 'utf-8')
            pos = end_14
            length_16: int
            length_16, = unpack_B(buf, pos)
            pos += 1
            if length_16 > 127:
                length_16, pos = read_uvarint(buf, pos - 1)
            length_16 -= 1
            if length_16 < 0 or length_16 * 33 > limit - pos:
                raise bad_length('items of FetchTopic.partitions', length_16, limit - pos)
            budget -= length_16
            if budget < 0:
                raise too_many('items of FetchTopic.partitions')
            partitions_15: list[Any] = []
            for _ in range(length_16):
                partition_18, current_leader_epoch_19, fetch_offset_20, last_fetched_epoch_21, log_start_offset_22, partition_max_bytes_23, tags_24 = unpack_iiqiqiB(buf, pos)
                pos += 33
                if tags_24:
                    pos = skip_tagged_fields(buf, pos - 1, limit)
                item_17 = new(FetchPartition)
                item_17.partition = partition_18
                item_17.current_leader_epoch = current_leader_epoch_19
                item_17.fetch_offset = fetch_offset_20
                item_17.last_fetched_epoch = last_fetched_epoch_21
                item_17.log_start_offset = log_start_offset_22
                item_17.partition_max_bytes = partition_max_bytes_23
                partitions_15.append(item_17)
            tags_25, = unpack_B(buf, pos)
            pos += 1
            if tags_25:
                pos = skip_tagged_fields(buf, pos - 1, limit)
            item_11 = new(FetchTopic)
            item_11.topic = topic_12
            item_11.partitions = partitions_15
            topics_9.append(item_11)
        length_27: int
        length_27, = unpack_B(buf, pos)
        pos += 1
        if length_27 > 127:
            length_27, pos = read_uvarint(buf, pos - 1)
        length_27 -= 1
        if length_27 < 0 or length_27 * 3 > limit - pos:
            raise bad_length('items of FetchRequest.forgotten_topics_data', length_27, limit - pos)
        budget -= length_27
        if budget < 0:
            raise too_many('items of FetchRequest.forgotten_topics_data')
        forgotten_topics_data_26: list[Any] = []
        for _ in range(length_27):
            length_30: int
            length_30, = unpack_B(buf, pos)
            pos += 1
            if length_30 > 127:
                length_30, pos = read_uvarint(buf, pos - 1)
                if length_30 > 32768:
                    raise text_too_long('ForgottenTopic.topic', length_30 - 1)
            length_30 -= 1
            end_31 = pos + length_30
            if length_30 < 0 or end_31 > limit:
                raise bad_length('ForgottenTopic.topic', length_30, limit - pos)
            topic_29 = str(buf[pos:end_31], 'utf-8')
            pos = end_31
            length_33: int
            length_33, = unpack_B(buf, pos)
            pos += 1
            if length_33 > 127:
                length_33, pos = read_uvarint(buf, pos - 1)
            length_33 -= 1
            if length_33 < 0 or length_33 * 4 > limit - pos:
                raise bad_length('items of ForgottenTopic.partitions', length_33, limit - pos)
            budget -= length_33
            if budget < 0:
                raise too_many('items of ForgottenTopic.partitions')
            partitions_32 = list(unpack_from(f'>{length_33}i', buf, pos))
            pos += length_33 * 4
            tags_34, = unpack_B(buf, pos)
            pos += 1
            if tags_34:
                pos = skip_tagged_fields(buf, pos - 1, limit)
            item_28 = new(ForgottenTopic)
            item_28.topic = topic_29
            item_28.partitions = partitions_32
            forgotten_topics_data_26.append(item_28)
        length_36: int
        length_36, = unpack_B(buf, pos)
        pos += 1
        if length_36 > 127:
            length_36, pos = read_uvarint(buf, pos - 1)
            if length_36 > 32768:
                raise text_too_long('FetchRequest.rack_id', length_36 - 1)
        length_36 -= 1
        end_37 = pos + length_36
        if length_36 < 0 or end_37 > limit:
            raise bad_length('FetchRequest.rack_id', length_36, limit - pos)
        rack_id_35 = str(buf[pos:end_37], 'utf-8')
        pos = end_37
        tags_38, = unpack_B(buf, pos)
        pos += 1
        cluster_id_1: Any = None
        if tags_38:
            tags_38, pos = read_uvarint(buf, pos - 1)
            for _ in range(tags_38):
                tag_39, pos = read_uvarint(buf, pos)
                size_40, pos = read_uvarint(buf, pos)
                end_41 = pos + size_40
                if end_41 > limit:
                    raise bad_length('a tagged field of FetchRequest', size_40, limit - pos)
                if tag_39 == 0:
                    length_42: int
                    length_42, = unpack_B(buf, pos)
                    pos += 1
                    if length_42 > 127:
                        length_42, pos = read_uvarint(buf, pos - 1)
                        if length_42 > 32768:
                            raise text_too_long('FetchRequest.cluster_id', length_42 - 1)
                    cluster_id_1
                    if length_42 == 0:
                        cluster_id_1 = None
                    else:
                        length_42 -= 1
                        end_43 = pos + length_42
                        if length_42 < 0 or end_43 > limit:
                            raise bad_length('FetchRequest.cluster_id', length_42, limit - pos)
                        cluster_id_1 = str(buf[pos:end_43], 'utf-8')
                        pos = end_43
                    if pos != end_41:
                        raise wrong_tag_size('FetchRequest.cluster_id', size_40)
                pos = end_41
        message = new(FetchRequest)
        message.cluster_id = cluster_id_1
        message.replica_id = replica_id_2
        message.max_wait_ms = max_wait_ms_3
        message.min_bytes = min_bytes_4
        message.max_bytes = max_bytes_5
        message.isolation_level = isolation_level_6
        message.session_id = session_id_7
        message.session_epoch = session_epoch_8
        message.topics = topics_9
        message.forgotten_topics_data = forgotten_topics_data_26
        message.rack_id = rack_id_35
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchRequest v12 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchRequest v12: {error}') from None


def frame_fetch_response_12(message: Any, correlation_id: int) -> list[Any]:
    done: list[Any] = []
    try:
        parts = [b'']
        responses_1 = message.responses
        length_2 = len(responses_1) + 1
        if length_2 < 128:
            parts.append(pack_ihiB(message.throttle_time_ms, message.error_code, message.session_id, length_2))
        else:
            parts.append(pack_ihi(message.throttle_time_ms, message.error_code, message.session_id))
            parts.append(uvarint(length_2))
        for item_3 in responses_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5) + 1
            if length_6 < 128:
                parts.append(pack_B(length_6))
            else:
                if length_6 > 32768:
                    raise unrepresentable_text('FetchableTopicResponse.topic', length_6 - 1)
                parts.append(uvarint(length_6))
            parts.append(raw_5)
            partition_responses_7 = item_3.partition_responses
            length_8 = len(partition_responses_7) + 1
            if length_8 < 128:
                parts.append(pack_B(length_8))
            else:
                parts.append(uvarint(length_8))
            for item_9 in partition_responses_7:
                aborted_transactions_10 = item_9.aborted_transactions
                length_11 = len(aborted_transactions_10) + 1 if aborted_transactions_10 is not None else 0
                if length_11 < 128:
                    parts.append(pack_ihqqqB(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset, length_11))
                else:
                    parts.append(pack_ihqqq(item_9.partition, item_9.error_code, item_9.high_watermark, item_9.last_stable_offset, item_9.log_start_offset))
                    parts.append(uvarint(length_11))
                if aborted_transactions_10 is not None:
                    for item_12 in aborted_transactions_10:
                        parts.append(pack_qqx(item_12.producer_id, item_12.first_offset))
                record_set_13 = item_9.record_set
                length_14 = len(record_set_13) + 1 if record_set_13 is not None else 0
                if length_14 < 128:
                    parts.append(pack_iB(item_9.preferred_read_replica, length_14))
                else:
                    parts.append(pack_i(item_9.preferred_read_replica))
                    parts.append(uvarint(length_14))
                if length_14 > 1:
                    done.append(join(parts))
                    parts.clear()
                    done.append(record_set_13)
                tagged_15: list[tuple[int, bytes]] = []
                if item_9.diverging_epoch.epoch != -1 or item_9.diverging_epoch.end_offset != -1:
                    content_16: list[bytes] = []
                    content_16.append(pack_iqx(item_9.diverging_epoch.epoch, item_9.diverging_epoch.end_offset))
                    tagged_15.append((0, join(content_16)))
                if item_9.current_leader.leader_id != -1 or item_9.current_leader.leader_epoch != -1:
                    content_17: list[bytes] = []
                    content_17.append(pack_iix(item_9.current_leader.leader_id, item_9.current_leader.leader_epoch))
                    tagged_15.append((1, join(content_17)))
                parts.append(join_tagged_fields(tagged_15) if tagged_15 else b'\0')
            parts.append(b'\x00')
        parts.append(b'\x00')
    except struct_error as error:
        raise UnrepresentableField(f'FetchResponse v12: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchResponse v12: {no_text}') from None
    if parts:
        done.append(join(parts))
    done[0] = pack_iix(5 + sum(map(len, done)), correlation_id) + done[0]
    return done


def encode_fetch_request_11(message: Any, first: bytes) -> list[Any]:
    try:
        parts = [first]
        if message.cluster_id is not None:
            raise absent('FetchRequest.cluster_id', 11)
        topics_1 = message.topics
        length_2 = len(topics_1)
        parts.append(pack_iiiibiii(message.replica_id, message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch, length_2))
        for item_3 in topics_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5)
            parts.append(pack_h(length_6))
            parts.append(raw_5)
            partitions_7 = item_3.partitions
            length_8 = len(partitions_7)
            parts.append(pack_i(length_8))
            for item_9 in partitions_7:
                if item_9.last_fetched_epoch != -1:
                    raise absent('FetchPartition.last_fetched_epoch', 11)
                parts.append(pack_iiqqi(item_9.partition, item_9.current_leader_epoch, item_9.fetch_offset, item_9.log_start_offset, item_9.partition_max_bytes))
        forgotten_topics_data_10 = message.forgotten_topics_data
        length_11 = len(forgotten_topics_data_10)
        parts.append(pack_i(length_11))
        for item_12 in forgotten_topics_data_10:
            topic_13 = item_12.topic
            raw_14 = topic_13.encode()
            length_15 = len(raw_14)
            parts.append(pack_h(length_15))
            parts.append(raw_14)
            partitions_16 = item_12.partitions
            length_17 = len(partitions_16)
            parts.append(pack_i(length_17))
            if partitions_16:
                parts.append(pack(f'>{len(partitions_16)}i', *partitions_16))
        rack_id_18 = message.rack_id
        raw_19 = rack_id_18.encode()
        length_20 = len(raw_19)
        parts.append(pack_h(length_20))
        parts.append(raw_19)
    except struct_error as error:
        raise UnrepresentableField(f'FetchRequest v11: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchRequest v11: {no_text}') from None
    return [join(parts)]


def decode_fetch_response_11(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_5: int
        throttle_time_ms_1, error_code_2, session_id_3, length_5 = unpack_ihii(buf, pos)
        pos += 14
        if length_5 < 0 or length_5 * 6 > limit - pos:
            raise bad_length('items of FetchResponse.responses', length_5, limit - pos)
        budget -= length_5
        if budget < 0:
            raise too_many('items of FetchResponse.responses')
        responses_4: list[Any] = []
        for _ in range(length_5):
            length_8: int
            length_8, = unpack_h(buf, pos)
            pos += 2
            end_9 = pos + length_8
            if length_8 < 0 or end_9 > limit:
                raise bad_length('FetchableTopicResponse.topic', length_8, limit - pos)
            topic_7 = str(buf[pos:end_9], 'utf-8')
            pos = end_9
            length_11: int
            length_11, = unpack_i(buf, pos)
            pos += 4
            if length_11 < 0 or length_11 * 42 > limit - pos:
                raise bad_length('items of FetchableTopicResponse.partition_responses', length_11, limit - pos)
            budget -= length_11
            if budget < 0:
                raise too_many('items of FetchableTopicResponse.partition_responses')
            partition_responses_10: list[Any] = []
            for _ in range(length_11):
                length_19: int
                partition_13, error_code_14, high_watermark_15, last_stable_offset_16, log_start_offset_17, length_19 = unpack_ihqqqi(buf, pos)
                pos += 34
                aborted_transactions_18: Any
                if length_19 == -1:
                    aborted_transactions_18 = None
                else:
                    if length_19 < 0 or length_19 * 16 > limit - pos:
                        raise bad_length('items of FetchablePartitionResponse.aborted_transactions', length_19, limit - pos)
                    budget -= length_19
                    if budget < 0:
                        raise too_many('items of FetchablePartitionResponse.aborted_transactions')
                    aborted_transactions_18 = []
                    for _ in range(length_19):
                        producer_id_21, first_offset_22 = unpack_qq(buf, pos)
                        pos += 16
                        item_20 = new(AbortedTransaction)
                        item_20.producer_id = producer_id_21
                        item_20.first_offset = first_offset_22
                        aborted_transactions_18.append(item_20)
                length_25: int
                preferred_read_replica_23, length_25 = unpack_ii(buf, pos)
                pos += 8
                record_set_24: Any
                if length_25 == -1:
                    record_set_24 = None
                else:
                    end_26 = pos + length_25
                    if length_25 < 0 or end_26 > limit:
                        raise bad_length('FetchablePartitionResponse.record_set', length_25, limit - pos)
                    record_set_24 = memoryview(buf)[pos:end_26]
                    pos = end_26
                item_12 = new(FetchablePartitionResponse)
                item_12.partition = partition_13
                item_12.error_code = error_code_14
                item_12.high_watermark = high_watermark_15
                item_12.last_stable_offset = last_stable_offset_16
                item_12.log_start_offset = log_start_offset_17
                item_12.diverging_epoch = EpochEndOffset()
                item_12.current_leader = LeaderIdAndEpoch()
                item_12.aborted_transactions = aborted_transactions_18
                item_12.preferred_read_replica = preferred_read_replica_23
                item_12.record_set = record_set_24
                partition_responses_10.append(item_12)
            item_6 = new(FetchableTopicResponse)
            item_6.topic = topic_7
            item_6.partition_responses = partition_responses_10
            responses_4.append(item_6)
        message = new(FetchResponse)
        message.throttle_time_ms = throttle_time_ms_1
        message.error_code = error_code_2
        message.session_id = session_id_3
        message.responses = responses_4
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchResponse v11 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchResponse v11: {error}') from None


def encode_fetch_request_12(message: Any, first: bytes) -> list[Any]:
    try:
        parts = [first]
        topics_1 = message.topics
        length_2 = len(topics_1) + 1
        if length_2 < 128:
            parts.append(pack_iiiibiiB(message.replica_id, message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch, length_2))
        else:
            parts.append(pack_iiiibii(message.replica_id, message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch))
            parts.append(uvarint(length_2))
        for item_3 in topics_1:
            topic_4 = item_3.topic
            raw_5 = topic_4.encode()
            length_6 = len(raw_5) + 1
            if length_6 < 128:
                parts.append(pack_B(length_6))
            else:
                if length_6 > 32768:
                    raise unrepresentable_text('FetchTopic.topic', length_6 - 1)
                parts.append(uvarint(length_6))
            parts.append(raw_5)
            partitions_7 = item_3.partitions
            length_8 = len(partitions_7) + 1
            if length_8 < 128:
                parts.append(pack_B(length_8))
            else:
                parts.append(uvarint(length_8))
            for item_9 in partitions_7:
                parts.append(pack_iiqiqix(item_9.partition, item_9.current_leader_epoch, item_9.fetch_offset, item_9.last_fetched_epoch, item_9.log_start_offset, item_9.partition_max_bytes))
            parts.append(b'\x00')
        forgotten_topics_data_10 = message.forgotten_topics_data
        length_11 = len(forgotten_topics_data_10) + 1
        if length_11 < 128:
            parts.append(pack_B(length_11))
        else:
            parts.append(uvarint(length_11))
        for item_12 in forgotten_topics_data_10:
            topic_13 = item_12.topic
            raw_14 = topic_13.encode()
            length_15 = len(raw_14) + 1
            if length_15 < 128:
                parts.append(pack_B(length_15))
            else:
                if length_15 > 32768:
                    raise unrepresentable_text('ForgottenTopic.topic', length_15 - 1)
                parts.append(uvarint(length_15))
            parts.append(raw_14)
            partitions_16 = item_12.partitions
            length_17 = len(partitions_16) + 1
            if length_17 < 128:
                parts.append(pack_B(length_17))
            else:
                parts.append(uvarint(length_17))
            if partitions_16:
                parts.append(pack(f'>{len(partitions_16)}i', *partitions_16))
            parts.append(b'\x00')
        rack_id_18 = message.rack_id
        raw_19 = rack_id_18.encode()
        length_20 = len(raw_19) + 1
        if length_20 < 128:
            parts.append(pack_B(length_20))
        else:
            if length_20 > 32768:
                raise unrepresentable_text('FetchRequest.rack_id', length_20 - 1)
            parts.append(uvarint(length_20))
        parts.append(raw_19)
        tagged_21: list[tuple[int, bytes]] = []
        if message.cluster_id is not None:
            content_22: list[bytes] = []
            cluster_id_23 = message.cluster_id
            raw_24 = cluster_id_23.encode() if cluster_id_23 is not None else b''
            length_25 = len(raw_24) + 1 if cluster_id_23 is not None else 0
            if length_25 < 128:
                content_22.append(pack_B(length_25))
            else:
                if length_25 > 32768:
                    raise unrepresentable_text('FetchRequest.cluster_id', length_25 - 1)
                content_22.append(uvarint(length_25))
            content_22.append(raw_24)
            tagged_21.append((0, join(content_22)))
        parts.append(join_tagged_fields(tagged_21) if tagged_21 else b'\0')
    except struct_error as error:
        raise UnrepresentableField(f'FetchRequest v12: {error}') from None
    except UnicodeEncodeError as no_text:
        raise InvalidText(f'FetchRequest v12: {no_text}') from None
    return [join(parts)]


def decode_fetch_response_12(buf: Any, pos: int, budget: int = 1152921504606846976) -> tuple[Any, int]:
    limit = len(buf)
    try:
        length_5: int
        throttle_time_ms_1, error_code_2, session_id_3, length_5 = unpack_ihiB(buf, pos)
        pos += 11
        if length_5 > 127:
            length_5, pos = read_uvarint(buf, pos - 1)
        length_5 -= 1
        if length_5 < 0 or length_5 * 3 > limit - pos:
            raise bad_length('items of FetchResponse.responses', length_5, limit - pos)
        budget -= length_5
        if budget < 0:
            raise too_many('items of FetchResponse.responses')
        responses_4: list[Any] = []
        for _ in range(length_5):
            length_8: int
            length_8, = unpack_B(buf, pos)
            pos += 1
            if length_8 > 127:
                length_8, pos = read_uvarint(buf, pos - 1)
                if length_8 > 32768:
                    raise text_too_long('FetchableTopicResponse.topic', length_8 - 1)
            length_8 -= 1
            end_9 = pos + length_8
            if length_8 < 0 or end_9 > limit:
                raise bad_length('FetchableTopicResponse.topic', length_8, limit - pos)
            topic_7 = str(buf[pos:end_9], 'utf-8')
            pos = end_9
            length_11: int
            length_11, = unpack_B(buf, pos)
            pos += 1
            if length_11 > 127:
                length_11, pos = read_uvarint(buf, pos - 1)
            length_11 -= 1
            if length_11 < 0 or length_11 * 37 > limit - pos:
                raise bad_length('items of FetchableTopicResponse.partition_responses', length_11, limit - pos)
            budget -= length_11
            if budget < 0:
                raise too_many('items of FetchableTopicResponse.partition_responses')
            partition_responses_10: list[Any] = []
            for _ in range(length_11):
                length_21: int
                partition_13, error_code_14, high_watermark_15, last_stable_offset_16, log_start_offset_17, length_21 = unpack_ihqqqB(buf, pos)
                pos += 31
                if length_21 > 127:
                    length_21, pos = read_uvarint(buf, pos - 1)
                aborted_transactions_20: Any
                if length_21 == 0:
                    aborted_transactions_20 = None
                else:
                    length_21 -= 1
                    if length_21 < 0 or length_21 * 17 > limit - pos:
                        raise bad_length('items of FetchablePartitionResponse.aborted_transactions', length_21, limit - pos)
                    budget -= length_21
                    if budget < 0:
                        raise too_many('items of FetchablePartitionResponse.aborted_transactions')
                    aborted_transactions_20 = []
                    for _ in range(length_21):
                        producer_id_23, first_offset_24, tags_25 = unpack_qqB(buf, pos)
                        pos += 17
                        if tags_25:
                            pos = skip_tagged_fields(buf, pos - 1, limit)
                        item_22 = new(AbortedTransaction)
                        item_22.producer_id = producer_id_23
                        item_22.first_offset = first_offset_24
                        aborted_transactions_20.append(item_22)
                length_28: int
                preferred_read_replica_26, length_28 = unpack_iB(buf, pos)
                pos += 5
                if length_28 > 127:
                    length_28, pos = read_uvarint(buf, pos - 1)
                record_set_27: Any
                if length_28 == 0:
                    record_set_27 = None
                else:
                    length_28 -= 1
                    end_29 = pos + length_28
                    if length_28 < 0 or end_29 > limit:
                        raise bad_length('FetchablePartitionResponse.record_set', length_28, limit - pos)
                    record_set_27 = memoryview(buf)[pos:end_29]
                    pos = end_29
                tags_30, = unpack_B(buf, pos)
                pos += 1
                diverging_epoch_18: Any = EpochEndOffset()
                current_leader_19: Any = LeaderIdAndEpoch()
                if tags_30:
                    tags_30, pos = read_uvarint(buf, pos - 1)
                    for _ in range(tags_30):
                        tag_31, pos = read_uvarint(buf, pos)
                        size_32, pos = read_uvarint(buf, pos)
                        end_33 = pos + size_32
                        if end_33 > limit:
                            raise bad_length('a tagged field of FetchablePartitionResponse', size_32, limit - pos)
                        if tag_31 == 0:
                            epoch_34, end_offset_35, tags_36 = unpack_iqB(buf, pos)
                            pos += 13
                            if tags_36:
                                pos = skip_tagged_fields(buf, pos - 1, limit)
                            diverging_epoch_18 = new(EpochEndOffset)
                            diverging_epoch_18.epoch = epoch_34
                            diverging_epoch_18.end_offset = end_offset_35
                            if pos != end_33:
                                raise wrong_tag_size('FetchablePartitionResponse.diverging_epoch', size_32)
                        if tag_31 == 1:
                            leader_id_37, leader_epoch_38, tags_39 = unpack_iiB(buf, pos)
                            pos += 9
                            if tags_39:
                                pos = skip_tagged_fields(buf, pos - 1, limit)
                            current_leader_19 = new(LeaderIdAndEpoch)
                            current_leader_19.leader_id = leader_id_37
                            current_leader_19.leader_epoch = leader_epoch_38
                            if pos != end_33:
                                raise wrong_tag_size('FetchablePartitionResponse.current_leader', size_32)
                        pos = end_33
                item_12 = new(FetchablePartitionResponse)
                item_12.partition = partition_13
                item_12.error_code = error_code_14
                item_12.high_watermark = high_watermark_15
                item_12.last_stable_offset = last_stable_offset_16
                item_12.log_start_offset = log_start_offset_17
                item_12.diverging_epoch = diverging_epoch_18
                item_12.current_leader = current_leader_19
                item_12.aborted_transactions = aborted_transactions_20
                item_12.preferred_read_replica = preferred_read_replica_26
                item_12.record_set = record_set_27
                partition_responses_10.append(item_12)
            tags_40, = unpack_B(buf, pos)
            pos += 1
            if tags_40:
                pos = skip_tagged_fields(buf, pos - 1, limit)
            item_6 = new(FetchableTopicResponse)
            item_6.topic = topic_7
            item_6.partition_responses = partition_responses_10
            responses_4.append(item_6)
        tags_41, = unpack_B(buf, pos)
        pos += 1
        if tags_41:
            pos = skip_tagged_fields(buf, pos - 1, limit)
        message = new(FetchResponse)
        message.throttle_time_ms = throttle_time_ms_1
        message.error_code = error_code_2
        message.session_id = session_id_3
        message.responses = responses_4
        return message, pos
    except struct_error:
        raise TruncatedMessage('FetchResponse v12 ends early') from None
    except UnicodeDecodeError as error:
        raise InvalidText(f'FetchResponse v12: {error}') from None


Codecs = Mapping[tuple[type[Any], int], Callable[..., Any]]
DECODERS: Final[Codecs] = {
    (RequestHeader, 1): decode_request_header_1,
    (RequestHeader, 2): decode_request_header_2,
    (ResponseHeader, 0): decode_response_header_0,
    (ResponseHeader, 1): decode_response_header_1,
    (ProduceRequest, 3): decode_produce_request_3,
    (ProduceRequest, 4): decode_produce_request_4,
    (ProduceRequest, 5): decode_produce_request_5,
    (ProduceRequest, 6): decode_produce_request_6,
    (ProduceRequest, 7): decode_produce_request_7,
    (ProduceRequest, 8): decode_produce_request_8,
    (ProduceResponse, 8): decode_produce_response_8,
    (FetchRequest, 4): decode_fetch_request_4,
    (FetchRequest, 5): decode_fetch_request_5,
    (FetchRequest, 6): decode_fetch_request_6,
    (FetchRequest, 7): decode_fetch_request_7,
    (FetchRequest, 8): decode_fetch_request_8,
    (FetchRequest, 9): decode_fetch_request_9,
    (FetchRequest, 10): decode_fetch_request_10,
    (FetchRequest, 11): decode_fetch_request_11,
    (FetchRequest, 12): decode_fetch_request_12,
    (FetchResponse, 11): decode_fetch_response_11,
    (FetchResponse, 12): decode_fetch_response_12,
}
ENCODERS: Final[Codecs] = {
    (ProduceRequest, 8): encode_produce_request_8,
    (FetchRequest, 11): encode_fetch_request_11,
    (FetchRequest, 12): encode_fetch_request_12,
}
FRAMERS: Final[Codecs] = {
    (ProduceResponse, 3): frame_produce_response_3,
    (ProduceResponse, 4): frame_produce_response_4,
    (ProduceResponse, 5): frame_produce_response_5,
    (ProduceResponse, 6): frame_produce_response_6,
    (ProduceResponse, 7): frame_produce_response_7,
    (ProduceResponse, 8): frame_produce_response_8,
    (FetchResponse, 4): frame_fetch_response_4,
    (FetchResponse, 5): frame_fetch_response_5,
    (FetchResponse, 6): frame_fetch_response_6,
    (FetchResponse, 7): frame_fetch_response_7,
    (FetchResponse, 8): frame_fetch_response_8,
    (FetchResponse, 9): frame_fetch_response_9,
    (FetchResponse, 10): frame_fetch_response_10,
    (FetchResponse, 11): frame_fetch_response_11,
    (FetchResponse, 12): frame_fetch_response_12,
}
