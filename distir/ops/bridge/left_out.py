"""The ops of the standard ONNX domain that programs cannot have, and the reasons. Does not import onnx."""

from __future__ import annotations

CONTROL_FLOW = "control flow, which a straight-line program cannot hold; unroll it or export the model without it"
SEQUENCE = "an op on sequences, which the language lacks; use a tuple (`MakeTuple`, `UnpackTuple`)"
OPTIONAL = "an op on optional values, which the language lacks; leave the operand out (`_`) instead"
STRING = "an op on strings, which the language lacks; prepare text before the program"
OLD = "gone from the current operator set"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("If", "Loop", "Scan", "SequenceMap"), CONTROL_FLOW),
    **dict.fromkeys(
        (
            *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
            *("SequenceInsert", "SequenceLength", "SplitToSequence"),
        ),
        SEQUENCE,
    ),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), OPTIONAL),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), STRING),
    "ImageDecoder": "a decoder of image files, which needs an imaging library; decode before the program",
    "Scatter": f"{OLD}; use `ScatterElements`",
    "Upsample": f"{OLD}; use `Resize`",
}
"""The reason of each op, as the end of the sentence "ONNX's `If` is …"."""
