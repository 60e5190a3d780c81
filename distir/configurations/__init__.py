"""Configurations of training frameworks as jobs, and jobs as configurations.

A format is one definition: a codec between a framework's options and a `Job`, registered when it is imported here. A
job becomes a run of its framework (`distir.validate`), whose program is simulated: will it fit, and how fast is it?
"""

from distir.configurations import (
    accelerate,
    deepspeed,
    fsdp2,
    megatron,
    nemo,
    torchtitan,
    torchtitan_python,
    trainer,
)
from distir.configurations.answers import Answer, answer, gpu_of, program_of
from distir.configurations.formats import FORMATS, Format, configuration_format, read
from distir.configurations.jobs import Exported, Job, ReadJob, Supplied
from distir.configurations.options import ConfigurationError, Remark

__all__ = [
    "FORMATS",
    "Answer",
    "ConfigurationError",
    "Exported",
    "Format",
    "Job",
    "ReadJob",
    "Remark",
    "Supplied",
    "accelerate",
    "answer",
    "configuration_format",
    "deepspeed",
    "fsdp2",
    "gpu_of",
    "megatron",
    "nemo",
    "program_of",
    "read",
    "torchtitan",
    "torchtitan_python",
    "trainer",
]
