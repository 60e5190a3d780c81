"""Small programs to search for, quick to simulate, and a machine whose costs were measured."""

from pathlib import Path

import distir
from distir import models

MLP = models.mlp(4, 64, training=True)
"""A step of training, batch dimension `B`."""

GPT2 = models.gpt2(2, 64, 4, 8, vocabulary=96)
"""Inference on 8 tokens, batch dimension `B`."""

UNEVEN = distir.parse("""
func @main(%x: Tensor[Float32, (B, 2048), 1] {batch = 0}, %w1: Tensor[Float32, (2048, 4096), 1] {param},
           %w2: Tensor[Float32, (4096, 256), 1] {param}, %w3: Tensor[Float32, (256, 256), 1] {param},
           %w4: Tensor[Float32, (256, 256), 1] {param}) {
  %a = MatMul(%x, %w1)
  %b = MatMul(%a, %w2)
  %c = MatMul(%b, %w3)
  %d = MatMul(%c, %w4)
  return %d
}
""")
"""A large layer and three small ones."""

UNUSED = distir.parse("""
func @main(%x: Tensor[Float32, (B, 512), 1] {batch = 0}, %w1: Tensor[Float32, (512, 512), 1] {param},
           %w2: Tensor[Float32, (512, 512), 1] {param}, %big: Tensor[Float32, (512, 65536), 1] {param}) {
  %a = MatMul(%x, %w1)
  %unused = MatMul(%x, %big)
  %b = MatMul(%a, %w2)
  return %b
}
""")
"""Most of its work is for nothing, and pipelines leave it out."""

CALIBRATED = str(Path(__file__).parents[2] / "examples" / "accuracy" / "two_cores" / "two_ranks.toml")
"""A profile with figures of single ops and collectives, measured on two cores."""
