"""The messages of Chakra's execution traces, version 0.0.4.

Names and numbers of fields are those of schema/protobuf/et_def.proto in https://github.com/mlcommons/chakra, as far as
they are written here. protobuf is imported when they are asked for (`pip install 'distir[chakra]'`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

PACKAGE = "ChakraProtoMsg"
VERSION = "0.0.4"

COMP_NODE, COMM_SEND_NODE, COMM_RECV_NODE, COMM_COLL_NODE = 4, 5, 6, 7
"""Types of nodes."""

COLLECTIVES = {
    "allreduce": 0,
    "reduce": 1,
    "allgather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "alltoall": 6,
    "reducescatter": 7,
}
"""By pattern: the value of CollectiveCommType."""

_SCALARS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)
"""An attribute is one of these, the first of which has the number 3, or a list of them, with the number after it."""

_FIELDS = {
    "GlobalMetadata": (("version", "string"), ("attr", "*AttributeProto")),
    "Node": (
        ("id", "uint64"),
        ("name", "string"),
        ("type", "NodeType"),
        ("ctrl_deps", "*uint64"),
        ("data_deps", "*uint64"),
        ("start_time_micros", "uint64"),
        ("duration_micros", "uint64"),
        ("inputs", "IOInfo"),
        ("outputs", "IOInfo"),
        ("attr", "*AttributeProto"),
    ),
    "IOInfo": (("values", "string"), ("shapes", "string"), ("types", "string")),
}
"""By message: its fields in the order of their numbers, from 1; `*` repeats."""

_NODE_TYPES = (
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
)


@dataclass(frozen=True, slots=True)
class Messages:
    """The classes of messages, and what writes one to a file, after its length."""

    metadata: Any
    node: Any
    attribute: Any
    frame: Any


@cache
def messages() -> Messages:
    """The messages of the schema. Raises ImportError."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.proto import serialize_length_prefixed
    except ImportError:
        raise ImportError("this needs `protobuf`, which is not installed: pip install 'distir[chakra]'") from None
    file: Any = descriptor_pb2.FileDescriptorProto(name="distir/et_def.proto", package=PACKAGE, syntax="proto3")
    types = file.enum_type.add(name="NodeType")
    for number, name in enumerate(_NODE_TYPES):
        types.value.add(name=name, number=number)
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            _field(message, field, number, kind)
    attribute = file.message_type.add(name="AttributeProto")
    _field(attribute, "name", 1, "string")
    _field(attribute, "doc_string", 2, "string")
    attribute.oneof_decl.add(name="value")
    for place, scalar in enumerate(_SCALARS):
        values = f"{scalar.capitalize()}List"
        _field(file.message_type.add(name=values), "values", 1, f"*{scalar}")
        for number, (field, kind) in enumerate(((f"{scalar}_val", scalar), (f"{scalar}_list", values)), 3 + 2 * place):
            _field(attribute, field, number, kind).oneof_index = 0
    pool: Any = descriptor_pool.DescriptorPool()  # of our own: others in the process may have registered the schema
    pool.Add(file)
    classes = message_factory.GetMessageClassesForFiles([file.name], pool)
    found = {name.removeprefix(f"{PACKAGE}."): made for name, made in classes.items()}
    return Messages(found["GlobalMetadata"], found["Node"], found["AttributeProto"], serialize_length_prefixed)


def _field(message: Any, name: str, number: int, kind: str) -> Any:
    field = message.field.add(name=name, number=number, label=3 if kind.startswith("*") else 1)
    kind = kind.removeprefix("*")
    if kind in _SCALARS:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    else:
        field.type = field.TYPE_ENUM if kind == "NodeType" else field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"
    return field
