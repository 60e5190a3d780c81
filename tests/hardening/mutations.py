"""From inputs that mean something to inputs that almost do: what a fuzzer puts in the place of what stands there."""

import random
import re

from fuzz_targets import LONGEST

_WORDS = r"""
func return % @ _ ( ) [ ] { } < > , : = -> ... ? ?? // /* */ # " ' \ ; %x %y %w @main @f %0 %a.b-c _ D1 D2 D0 D-1
D99999999999999999999 Tensor[ Tuple[ Tensor[Float32,(4,),1] Tensor[Float16,(B,8),2] Tensor[Float32,??,1]
Tensor[Int64,(?,3)] Tuple[Float32[1],Int64] Float32[1] Int64 Bool String BFloat16 Float8E4M3FN
dense<Int64,[2,2]>[1,2,3,4] dense<Float32,[0]>[] external<Float32,(2,),"w.safetensors#w">
external<Float32,(2,),"../secret#w"> {param} {state} {batch=0} {batch=-1} {batch=99} 0 1 -1 2 7 1e309 -0.0 nan inf
-inf 0x10 1_000 .5 5. 1e-400 true false True None 2147483648 9223372036854775807 9223372036854775808
-9223372036854775808 1000000000000000000 99999999999999999999999 B B*2 B/2 B/0 B+1 B-B B**2 B%2 (B+N)*(B-N)
B*B*B*B*B*B*B*B MatMul(%x,%w) Relu(%x) Add(%x,%x) Send[device=2](%x) Send(%x,2) Split[axis=0,num_outputs=2](%x)
Concat[axis=0](%x,%x) MPIAllreduce(%x,%y) MPIBroadcast[devices=[1,2]](%x) MPIGather[axis=0,root=1](%x,%y)
MPIReduce([%x,%y],1) Reshape(%x,[-1]) Shape(%x) Constant[value=1]() ConstantOfShape([3]) Range(0,9,1)
Gather[axis=0](%x,0) Expand(%x,[2,2]) Transpose[perm=[1,0]](%x) Slice(%x,[0],[1]) Pad(%x,[1,1]) Tile(%x,[2])
MakeTuple(%x,%x) UnpackTuple(%x) ReduceSum(%x,[0]) Cast[to="Float16"](%x) TopK(%x,2) OneHot(%x,3,[0,1])
Gemm[transB=true](%x,%w) Identity(%x) Where(%x,%x,%x) Einsum
"""

CHARACTERS = "é😀\u2028\u202e\ufeff\0\x1b\x7f\t\r\n\x0b\x0c\u00a0٣Ⅷﬁ "
"""Ends of lines, spaces, digits and letters of all kinds, and what is none of them."""

WORDS = [word.encode() for word in _WORDS.split()]
WORDS += [character.encode() for character in CHARACTERS] + [b"\r\n", b"\x1b[31m", b"\xed\xa0\x80"]

PIECE = re.compile(rb"\s+|[A-Za-z0-9_.%@-]+|.", re.DOTALL)
NUMBERS = (b"0", b"1", b"-1", b"2", b"1000000007", b"9223372036854775807", b"1000000000000000000", b"1e999", b"0.5")


def mutated(data, others, dice):
    """Another input: bytes that are `data` with one to six changes. `others`: inputs to take pieces from."""
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        data = dice.choice(CHANGES)(data, others, dice)
    return data[:LONGEST]


def _insert_word(data, others, dice):
    at = _boundary(data, dice)
    return data[:at] + dice.choice(WORDS) + data[at:]


def _replace_piece(data, others, dice):
    pieces = PIECE.findall(data)
    if not pieces:
        return dice.choice(WORDS)
    at = dice.randrange(len(pieces))
    pieces[at] = dice.choice((dice.choice(WORDS), dice.choice(pieces)))
    return b"".join(pieces)


def _swap_pieces(data, others, dice):
    pieces = PIECE.findall(data)
    if pieces:
        a, b = dice.randrange(len(pieces)), dice.randrange(len(pieces))
        pieces[a], pieces[b] = pieces[b], pieces[a]
    return b"".join(pieces)


def _change_number(data, others, dice):
    found = list(re.finditer(rb"\d+", data))
    if not found:
        return data
    match = dice.choice(found)
    return data[: match.start()] + dice.choice(NUMBERS) + data[match.end() :]


def _delete(data, others, dice):
    at, length = _boundary(data, dice), dice.choice((1, 2, 8, 40))
    return data[:at] + data[at + length :]


def _cut(data, others, dice):
    return data[: _boundary(data, dice)]


def _line(data, others, dice):
    """A line goes, comes twice, or moves; or one of another input comes."""
    lines = data.split(b"\n")
    at = dice.randrange(len(lines))
    match dice.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[dice.randrange(len(lines))])
        case 2:
            lines.insert(dice.randrange(len(lines)), lines.pop(at))
        case _:
            lines.insert(at, dice.choice(dice.choice(others).split(b"\n")))
    return b"\n".join(lines)


def _splice(data, others, dice):
    other = dice.choice(others)
    return data[: _boundary(data, dice)] + other[_boundary(other, dice) :]


def _repeat(data, others, dice):
    at, length = _boundary(data, dice), dice.choice((1, 4, 16, 64))
    return data[:at] + data[at : at + length] * dice.choice((2, 3, 50)) + data[at + length :]


def _flip(data, others, dice):
    if not data:
        return dice.randbytes(8)
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


def _noise(data, others, dice):
    at = _boundary(data, dice)
    return data[:at] + dice.randbytes(dice.choice((1, 2, 8))) + data[at:]


CHANGES = (
    _insert_word,
    _insert_word,
    _replace_piece,
    _replace_piece,
    _swap_pieces,
    _change_number,
    _delete,
    _cut,
    _line,
    _line,
    _splice,
    _repeat,
    _flip,
    _noise,
)
"""What words and lines are made of is changed more often than bits: most flipped bits end in the lexer."""


def _boundary(data, dice):
    return dice.randint(0, len(data))


def mutator(others, seed=0):
    """A function from an input to another, which goes on from a seed: the same inputs in each run."""
    dice = random.Random(seed)
    return lambda data: mutated(data, others, dice)
