"""Which tensors of an imported model are weights, and which of these are trained: the roles of its parameters.

PyTorch tells parameters from buffers, and which of them ask for a gradient. An ONNX model does not: there, what is no
floating-point number is not trained, and buffers are known by what takes them, or by the names that PyTorch's exporters
and libraries give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from distir.importers.core import Weight

if TYPE_CHECKING:
    import onnx

Roles = Mapping[str, bool]

WEIGHT: Roles = {"param": True}
FROZEN: Roles = {"param": True, "frozen": True}
BUFFER: Roles = {"buffer": True}

BUFFER_NAME = re.compile(
    r"(^|[._/])(running_(mean|var)|num_batches_tracked|(original_)?inv_freq|embed_scale|(cos|sin)_cached|position_ids"
    r"|token_type_ids|relative_position_index|(causal|attention|attn)_mask|_?lifted_tensor\w*)$"
)
"""What buffers are called in torchvision, in transformers and by the exporter."""


def module_roles(nn_module: Any, names: Iterable[str]) -> dict[str, Roles]:
    """The roles of what these tensors of an `nn.Module` become; what is no parameter of it is a buffer."""
    parameters = dict(nn_module.named_parameters(remove_duplicate=False))
    return {
        name: BUFFER if name not in parameters else WEIGHT if parameters[name].requires_grad else FROZEN
        for name in names
    }


def model_roles(graph: onnx.GraphProto, tensors: Mapping[str, Weight]) -> dict[str, Roles]:
    """The same for the initializers of an ONNX model."""
    statistics = {name for n in graph.node if n.op_type == "BatchNormalization" for name in n.input[3:5]}
    return {
        name: BUFFER if name in statistics or BUFFER_NAME.search(name) else role_of(found)
        for name, found in tensors.items()
    }


def role_of(found: Weight) -> Roles:
    """The role of a tensor of which nothing else is known."""
    return WEIGHT if found.dtype.kind == "float" else FROZEN
