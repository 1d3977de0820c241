from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc  # type: ignore[import-untyped]

from controller import control_pb2

ROOT = Path(__file__).parents[3]


def test_the_generated_code_is_of_the_present_proto_file(tmp_path: Path) -> None:
    out = tmp_path / "control.bin"
    status = protoc.main(["protoc", f"-I{ROOT}", f"--descriptor_set_out={out}", str(ROOT / "controller/control.proto")])
    assert status == 0
    (described,) = FileDescriptorSet.FromString(out.read_bytes()).file
    # Names for JSON follow from the others; only one of the two spells them out.
    for message in described.message_type:
        for field in message.field:
            field.ClearField("json_name")
    assert described == FileDescriptorProto.FromString(control_pb2.DESCRIPTOR.serialized_pb)
