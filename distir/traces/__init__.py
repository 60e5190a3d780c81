"""Traces of what ran: of `torch.profiler` (Kineto), by ranks, beside a simulation of a program.

`events` reads files, `kineto` what torch records in them, `activity` what a step of it is made of; `forms` says what an
op is called in torch, `alignment` lines both up, `learning` corrects a hardware profile. Does not import torch.
"""
