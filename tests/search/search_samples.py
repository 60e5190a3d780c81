"""Small programs to search for, quick to simulate."""

from distir import models

MLP = models.mlp(4, 64, training=True)
"""A step of training, batch dimension `B`."""

GPT2 = models.gpt2(2, 64, 4, 8, vocabulary=96)
"""Inference on 8 tokens, batch dimension `B`."""
