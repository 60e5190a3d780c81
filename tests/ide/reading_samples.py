"""Marked-up programs for what is read in an editor: `⟪…⟫` marks the words that are asked about."""

import re
from pathlib import Path

from distir.cost import load
from distir.ide.document import Setup, open_document
from distir.ide.instances import View

MACHINE = load(Path(__file__).parent.parent / "golden" / "machine.toml")

PIPELINE = """\
func @dense(%w, %x) {
  %A, %b = UnpackTuple(%w)
  %h = Gemm(%x, %A, %b)
  %a = Relu(%h)
  return %a
}

func @main(
  %w1: Tuple[Tensor[Float32, (100, 100), 1], Tensor[Float32, (100,), 1]],
  %w2: Tuple[Tensor[Float32, (100, 100), 2], Tensor[Float32, (100,), 2]],
  %x: Tensor[Float32, (200, 100), 1]
) {
  %x_1: D1, %x_2: D1 = Split(%x, dim=0, num_splits=2)
  %as_1: D1 = @dense(%w1, %x_1)
  %ar_1: D2 = Send(%as_1, 2)
  %as_2: D1 = @dense(%w1, %x_2)
  %p_1: D2 = @dense(%w2, %ar_1)
  %ar_2: D2 = Send(%as_2, 2)
  %p_2: D2 = @dense(%w2, %ar_2)
  return %p_1, %p_2
}
"""


def opened(text, hardware=MACHINE, **setup):
    return open_document(text, "program.dir", Setup(hardware, **setup))


def viewed(text, hardware=MACHINE, **setup):
    document = opened(text, hardware, **setup)
    return View(document, document)


def marked(text):
    """The text without its marks, and the offsets of what they hold."""
    places, plain, last = [], "", 0
    for match in re.finditer(r"⟪(.*?)⟫", text):
        plain += text[last : match.start()]
        places.append(len(plain))
        plain += match[1]
        last = match.end()
    return plain + text[last:], places


def drawn(text, hints):
    """A text with its hints written in, each in `⟦ ⟧`."""
    parts, last = [], 0
    for hint in sorted(hints, key=lambda h: h.offset):
        parts += [text[last : hint.offset], f"⟦{hint.label.strip()}⟧"]
        last = hint.offset
    return "".join(parts) + text[last:]
