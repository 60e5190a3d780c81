"""Beginnings of programs with places to fill in, offered where they may stand: functions outside, statements inside."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    """A template: its prefix, its description, and its text with placeholders such as `${1:name}`."""

    word: str
    detail: str
    text: str


KERNEL_SAYS = "one kernel: a call is one launch, with the memory traffic of its operands and results alone"

FUNCTIONS = (
    Template("func", "a function", "func @${1:main}(%${2:x}) {\n  $0\n  return %${2:x}\n}"),
    Template(
        "kernel", "a function that is one kernel", "func @${1:fused}(%${2:x}) kernel {\n  $0\n  return %${2:x}\n}"
    ),
    Template(
        "main",
        "an entry function whose roles transforms understand",
        "func @main(\n"
        "  %w: Tensor[${1|Float32,Float16,BFloat16|}, (${2:1024}, ${3:1024}), 1] {param},\n"
        "  %x: Tensor[$1, (${4:64}, $2), 1] {batch = 0}\n"
        ") {\n  %y = MatMul(%x, %w)\n  $0\n  return %y\n}",
    ),
    Template(
        "dense",
        "a layer that runs where its arguments are",
        "func @dense(%w, %x) {\n  %A, %b = UnpackTuple(%w)\n  %h = Gemm(%x, %A, %b)\n  %a = Relu(%h)\n  return %a\n}",
    ),
)

STATEMENTS = (
    Template("return", "the function's results", "return %${1:x}"),
    Template("send", "send a value to another device", "%${1:x_2}: D${2:2} = Send[device = $2](%${3:x})"),
    Template(
        "allreduce",
        "sum over devices, on each of them",
        "%${1:a}: D${2:1}, %${3:b}: D${4:2} = MPIAllreduce([%${5:x_1}, %${6:x_2}])",
    ),
    Template(
        "split",
        "split along an axis",
        "%${1:x_1}, %${2:x_2} = Split[axis = ${3:0}, num_outputs = 2](%${4:x})",
    ),
)

KEYWORDS = frozenset(("func", "return"))
"""The templates that begin with a word of the language: editors that know no places are given the word."""
