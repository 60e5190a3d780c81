"""A search from beginning to end: the space, the workers, the rows known already, and new rows as they come."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Literal, NoReturn

from distir.cost import Hardware, load
from distir.ir import Constant, Module
from distir.search.annealing import HOT, Annealing, anneal
from distir.search.binding import evaluated
from distir.search.bounded import Certificate, Stages, bounded, certificate, effort, may_be, settled
from distir.search.distributed import layers_of_stages
from distir.search.evaluate import evaluate
from distir.search.options import options
