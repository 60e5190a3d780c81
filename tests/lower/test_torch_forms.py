"""Each op's form in torch against its reference implementation, for each element type."""

import re
import zlib
from collections import defaultdict

import numpy as np
import pytest
from lowering_samples import (
    DEVICE,
    assert_close,
    entry,
    from_torch,
    is_sound,
    lowered_program,
    one_op,
    reference,
    to_torch,
)

from distir.diagnostics import ProgramError
from distir.ir import HOST, TupleType, types
from distir.lower.folder import lower
from distir.ops import OPS, numpy_dtype

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # threads that wait for each other cost more than small tensors do

OURS = {
    name: op
    for name, op in OPS.items()
    if op.body.__module__.startswith("distir.") and op.family not in ("group", "mesh")
}
"""All but those of one device that stands for others, which are for looking at, and of meshes, which are expanded."""
DTYPES = ("Float32", "Float16", "BFloat16", "Float64")

MORE = """
%y = Div(%a: Tensor[Int64, (2, 3), 1], %b: Tensor[Int64, (2, 3), 1])
%y = Add(%a: Tensor[Float32, (2, 3), 1], 0.1)
%y = Sub(2.5, %a: Tensor[Float32, (2, 3), 1])
%y = Div(1, %a: Tensor[Float32, (2, 3), 1])
%y = Pow(%a: Tensor[Int64, (2, 3), 1], %b: Tensor[Int64, (2, 3), 1])
%y = Pow(%a: Tensor[Float32, (2, 3), 1], 3)
%y = Mod(%a: Tensor[Float32, (2, 3), 1], -1.5)
%y = Max(%a: Tensor[Float32, (2, 3), 1])
%y = Max(%a: Tensor[Float32, (2, 3), 1], 0.25, %b: Tensor[Float32, (3,), 1])
%y = Mean(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1], %c: Tensor[Float32, (3,), 1])
%y = Where(%c: Tensor[Bool, (2, 3), 1], 1.0, 2.0)
%y = Clip(%a: Tensor[Int32, (2, 3), 1], -1, 1)
%y = Clip(%a: Tensor[Float32, (2, 3), 1], %b: Float32[1], 1.0)
%y = Clip(%a: Tensor[Float32, (2, 3), 1])
%y = Cast[to = Int32](%a: Tensor[Float32, (2, 3), 1])
%y = Cast[to = Bool](%a: Tensor[Float32, (2, 3), 1])
%y = Gemm[alpha = 0.5, beta = 2.0, transA = true](%a: Tensor[Float32, (3, 2), 1], %b: Tensor[Float32, (3, 4), 1], %c: Tensor[Float32, (2, 1), 1])
%y = Gemm(%a: Tensor[Int32, (2, 3), 1], %b: Tensor[Int32, (3, 4), 1], %c: Tensor[Int32, (4,), 1])
%y = MatMul(%a: Tensor[Float32, (3,), 1], %b: Tensor[Float32, (3, 4), 1])
%y = ReduceSum[noop_with_empty_axes = true](%a: Tensor[Float32, (2, 3), 1])
%y = ReduceSum(%a: Tensor[Int32, (2, 3), 1], [-1])
%y = ReduceSum(%a: Float32[1])
%y = ReduceMean[keepdims = false](%a: Tensor[Int64, (2, 3), 1], [1])
%y = ReduceMax[keepdims = false](%a: Tensor[Float32, (2, 3, 4), 1], [0, 2])
%y = ReduceMin(%a: Tensor[Bool, (2, 3), 1], [1])
%y = ReduceProd[keepdims = false](%a: Tensor[Float32, (2, 3, 4), 1], [0, 2])
%y = ReduceProd(%a: Tensor[Int32, (2, 3), 1])
%y = ReduceL2[keepdims = false](%a: Tensor[Float32, (2, 3, 4), 1])
%y = ReduceMax(%a: Tensor[Float32, (2, 0), 1], [1])
%y = ArgMax[axis = 1, select_last_index = true](%a: Tensor[Int32, (2, 5), 1])
%y = ArgMin[axis = 0, keepdims = false](%a: Tensor[Int32, (5, 2), 1])
%y = CumSum[exclusive = true](%a: Tensor[Float32, (2, 3), 1], 1)
%y = CumSum[reverse = true, exclusive = true](%a: Tensor[Float32, (2, 3), 1], 0)
%y = CumSum[reverse = true](%a: Tensor[Int32, (2, 3), 1], -1)
%v, %i = TopK[largest = false, axis = 0](%a: Tensor[Int32, (5, 2), 1], [3])
%y, %m, %s = LayerNormalization[axis = 1](%a: Tensor[Float32, (2, 3, 4), 1], %w: Tensor[Float32, (3, 4), 1], %b: Tensor[Float32, (3, 4), 1])
%y = RMSNormalization[axis = 1](%a: Tensor[Float32, (2, 3, 4), 1], %w: Tensor[Float32, (3, 4), 1])
%dx, %dw, %db = LayerNormalizationGrad[axis = 1](%dy: Tensor[Float32, (2, 3, 4), 1], %a: Tensor[Float32, (2, 3, 4), 1], %w: Tensor[Float32, (3, 4), 1])
%dx, %dw = RMSNormalizationGrad[axis = 1](%dy: Tensor[Float32, (2, 3, 4), 1], %a: Tensor[Float32, (2, 3, 4), 1], %w: Tensor[Float32, (3, 4), 1])
%y = Squeeze(%a: Tensor[Float32, (1, 3, 1), 1], [-1])
%y = Transpose(%a: Tensor[Float32, (2, 3, 4), 1])
%y = Pad(%a: Tensor[Float32, (3, 4), 1], [1, -1, 0, 2], 0.5)
%y = Pad[mode = "edge"](%a: Tensor[Float32, (3, 4), 1], [1, 0, 2, 1])
%y = Pad[mode = "wrap"](%a: Tensor[Int32, (3, 4), 1], [1, 0, 2, 1])
%y = Tile(%a: Tensor[Float32, (2, 3), 1], [2, 0])
%a, %b, %c = Split[axis = -1](%x: Tensor[Float32, (2, 7), 1])
%y = Concat[axis = -1](%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 1), 1])
%y = Gather[axis = 1](%a: Tensor[Float32, (3, 5), 1], [-1, 0])
%y = Gather[axis = 1](%a: Tensor[Float32, (3, 5, 2), 1], %i: Tensor[Int32, (2, 2), 1])
%y = Gather(%a: Tensor[Float32, (3, 5), 1], %i: Tensor[UInt8, (2,), 1])
%y = GatherND(%a: Tensor[Float32, (2, 3, 4), 1], %i: Tensor[Int64, (5, 3), 1])
%y = ScatterElements[axis = 1, reduction = "add"](%a: Tensor[Float32, (3, 3), 1], %i: Tensor[Int64, (3, 2), 1], %u: Tensor[Float32, (3, 2), 1])
%y = ScatterElements[reduction = "max"](%a: Tensor[Int32, (3, 3), 1], %i: Tensor[Int64, (2, 3), 1], %u: Tensor[Int32, (2, 3), 1])
%y = ScatterND[reduction = "add"](%a: Tensor[Float32, (4, 5), 1], %i: Tensor[Int64, (2, 1), 1], %u: Tensor[Float32, (2, 5), 1])
%y = ScatterND[reduction = "mul"](%a: Tensor[Float32, (4, 5), 1], %i: Tensor[Int64, (3, 2), 1], %u: Tensor[Float32, (3,), 1])
%y = Slice(%a: Tensor[Float32, (4, 6), 1], [-3, 1], [100, -1], [0, 1], [2, 3])
%y = Slice(%a: Tensor[Float32, (4, 6), 1], [3], [-100], [0], [-1])
%y = Slice(%a: Tensor[Float32, (4, 6), 1], [3], [1])
%y = OneHot[axis = 1](%i: Tensor[Int32, (2, 3), 1], 2, %v: Tensor[Float32, (2,), 1])
%y = OneHot[axis = 0](%i: Tensor[Int64, (2, 3), 1], 1, %v: Tensor[Float32, (2,), 1])
%y = EyeLike[dtype = Float32, k = -1](%a: Tensor[Int32, (3, 4), 1])
%y = Trilu[upper = false](%a: Tensor[Bool, (3, 3), 1], 1)
%y = Swish[alpha = 1.7](%a: Tensor[Float32, (2, 3), 1])
%y = SwishGrad[alpha = 1.7](%dy: Tensor[Float32, (2, 3), 1], %a: Tensor[Float32, (2, 3), 1])
%y = GeluGrad[approximate = "tanh"](%dy: Tensor[Float32, (2, 3), 1], %a: Tensor[Float32, (2, 3), 1])
%y = ReluGrad(%dy: Tensor[Int32, (2, 3), 1], %a: Tensor[Int32, (2, 3), 1])
%y = Relu(%a: Tensor[Int32, (2, 3), 1])
%loss = SoftmaxCrossEntropyLoss[ignore_index = 1](%s: Tensor[Float32, (4, 5), 1], %l: Tensor[Int32, (4,), 1], %w: Tensor[Float32, (5,), 1])
%loss = SoftmaxCrossEntropyLoss[reduction = "none"](%s: Tensor[Float32, (2, 5, 3), 1], %l: Tensor[Int64, (2, 3), 1])
%dx = SoftmaxCrossEntropyLossGrad[ignore_index = 1](%dy: Float32[1], %s: Tensor[Float32, (4, 5), 1], %l: Tensor[Int32, (4,), 1], %w: Tensor[Float32, (5,), 1])
%dx = SoftmaxCrossEntropyLossGrad[reduction = "none"](%dy: Tensor[Float32, (2, 3), 1], %s: Tensor[Float32, (2, 5, 3), 1], %l: Tensor[Int64, (2, 3), 1])
%dx = SoftmaxCrossEntropyLossGrad[reduction = "sum"](0.5, %s: Tensor[Float32, (4, 5), 1], %l: Tensor[Int64, (4,), 1])
%dx = NegativeLogLikelihoodLossGrad[ignore_index = 0](%dy: Float32[1], %s: Tensor[Float32, (4, 5), 1], %l: Tensor[Int64, (4,), 1], %w: Tensor[Float32, (5,), 1])
%loss = MSELoss[reduction = "none"](%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
%dx = MSELossGrad[reduction = "none"](%dy: Tensor[Float32, (2, 3), 1], %a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (2, 3), 1])
%dx = GatherGrad[axis = 1](%dy: Tensor[Float32, (3, 2, 2, 4), 1], %i: Tensor[Int64, (2, 2), 1], [3, 5, 4])
%dx = GatherGrad[axis = 1](%dy: Tensor[Float32, (3, 4), 1], %i: Int64[1], [3, 5, 4])
%y = ReduceTo(%a: Tensor[Int32, (4, 2, 3), 1], [3])
%w_new = SGD[lr = 0.1, weight_decay = 0.5](%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1])
%w_new = SGD[lr = 0.1](%w: Tensor[BFloat16, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1])
%w_new, %m_new = Momentum[nesterov = true, weight_decay = 0.1](%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1])
%w_new, %m_new = Momentum(%w: Tuple[Tensor[Float32, (2,), 1], Float32[1]], %dw: Tuple[Tensor[Float32, (2,), 1], Float32[1]], %m: Tuple[Tensor[Float32, (2,), 1], Float32[1]])
%w_new, %m_new, %v_new = Adam[weight_decay = 0.1](%w: Tensor[Float16, (2, 3), 1], %dw: Tensor[Float16, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], %v: Tensor[Float32, (2, 3), 1], %t: Int64[1])
%w_new = SGD[weight_decay = 0.1](%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %r: Float32[1])
%w_new = SGD(%w: Tensor[BFloat16, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], _, 0.0)
%w_new, %m_new = Momentum[nesterov = true](%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], %r: Float32[1], %f: Float32[1])
%w_new, %m_new = Momentum(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], _, 0.0)
%w_new, %m_new = Lion[weight_decay = 0.1](%w: Tensor[Float16, (2, 3), 1], %dw: Tensor[Float16, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], %r: Float32[1], %f: Float32[1])
%w_new, %m_new, %v_new = Adam[weight_decay = 0.1, decoupled = false](%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], %v: Tensor[Float32, (2, 3), 1], %t: Int64[1], %r: Float32[1], %f: Float32[1])
%w_new, %m_new, %v_new = Adam(%w: Tensor[Float32, (2, 3), 1], %dw: Tensor[Float32, (2, 3), 1], %m: Tensor[Float32, (2, 3), 1], %v: Tensor[Float32, (2, 3), 1], 2, _, 0.0)
%lr = LearningRate[lr = 0.5, schedule = "linear", warmup = 2, steps = 9](5)
%lr = LearningRate[lr = 0.5, schedule = "cosine", warmup = 9, steps = 19, least = 0.1](5)
%f = GradientFactor[max_norm = 0.1](%n: Float32[1], %s: Float32[1])
%s, %n = LossScale[interval = 1](%s: Float32[1], 0, 0.5)
%s, %n = LossScale(%s: Float32[1], 7, 0.0)
%y = Attention[softcap = 2.0, is_causal = true](%q: Tensor[Float32, (1, 2, 3, 4), 1], %k: Tensor[Float32, (1, 2, 3, 4), 1], %v: Tensor[Float32, (1, 2, 3, 4), 1])
%y = Attention(%q: Tensor[Float32, (1, 2, 3, 4), 1], %k: Tensor[Float32, (1, 2, 5, 4), 1], %v: Tensor[Float32, (1, 2, 5, 4), 1], %m: Tensor[Float32, (3, 5), 1])
%y = Attention[scale = 0.5](%q: Tensor[Float32, (1, 2, 3, 4), 1], %k: Tensor[Float32, (1, 2, 5, 4), 1], %v: Tensor[Float32, (1, 2, 5, 4), 1], %m: Tensor[Bool, (3, 5), 1])
%y = Attention[is_causal = true](%q: Tensor[Float32, (1, 2, 3, 4), 1], %k: Tensor[Float32, (1, 2, 5, 4), 1], %v: Tensor[Float32, (1, 2, 5, 4), 1], %m: Tensor[Bool, (3, 5), 1])
%y = Attention[is_causal = true, window = 2](%q: Tensor[Float32, (1, 4, 5, 4), 1], %k: Tensor[Float32, (1, 2, 5, 4), 1], %v: Tensor[Float32, (1, 2, 5, 4), 1], _, %s: Tensor[Float32, (4,), 1])
%y, %l = Attention[is_causal = true](%q: Tensor[Float32, (2, 4, 5, 8), 1], %k: Tensor[Float32, (2, 2, 5, 8), 1], %v: Tensor[Float32, (2, 2, 5, 8), 1])
%y, %l = Attention[q_num_heads = 2, kv_num_heads = 1, scale = 0.3](%q: Tensor[Float32, (2, 5, 16), 1], %k: Tensor[Float32, (2, 7, 8), 1], %v: Tensor[Float32, (2, 7, 8), 1])
%y, %l = Attention[is_causal = true, window = 2](%q: Tensor[Float32, (1, 2, 5, 16), 1], %k: Tensor[Float32, (1, 2, 5, 16), 1], %v: Tensor[Float32, (1, 2, 5, 16), 1])
%dq, %dk, %dv = AttentionGrad[is_causal = true, scale = 0.3](%dy: Tensor[Float32, (2, 4, 5, 8), 1], %q: Tensor[Float32, (2, 4, 5, 8), 1], %k: Tensor[Float32, (2, 2, 5, 8), 1], %v: Tensor[Float32, (2, 2, 5, 8), 1], %y: Tensor[Float32, (2, 4, 5, 8), 1], %lse: Tensor[Float32, (2, 4, 5), 1])
%dq, %dk, %dv = AttentionGrad[is_causal = true, window = 2, q_num_heads = 2, kv_num_heads = 1](%dy: Tensor[Float32, (2, 5, 16), 1], %q: Tensor[Float32, (2, 5, 16), 1], %k: Tensor[Float32, (2, 5, 8), 1], %v: Tensor[Float32, (2, 5, 8), 1], %y: Tensor[Float32, (2, 5, 16), 1], %lse: Tensor[Float32, (2, 2, 5), 1])
%y = RotaryEmbedding[interleaved = true, rotary_embedding_dim = 4](%x: Tensor[Float32, (2, 4, 3, 8), 1], %c: Tensor[Float32, (9, 2), 1], %s: Tensor[Float32, (9, 2), 1], %i: Tensor[Int64, (2, 3), 1])
%y = RaggedMatMul(%x: Tensor[BFloat16, (7, 8), 1], %w: Tensor[BFloat16, (3, 8, 16), 1], [2, 0, 4])
%y = RaggedMatMul[transW = true](%x: Tensor[BFloat16, (2, 5, 8), 1], %w: Tensor[BFloat16, (3, 16, 8), 1], [[2, 0, 2], [1, 4, 0]])
%y = RaggedMatMul[transW = true](%x: Tensor[Float32, (2, 5, 3), 1], %w: Tensor[Float32, (3, 2, 3), 1], [[2, 0, 2], [1, 4, 0]])
%dw = RaggedMatMulGrad(%dy: Tensor[BFloat16, (2, 5, 8), 1], %x: Tensor[BFloat16, (2, 5, 16), 1], [[2, 0, 2], [1, 4, 0]])
%dw = RaggedMatMulGrad[transW = true](%dy: Tensor[Float32, (2, 5, 3), 1], %x: Tensor[Float32, (2, 5, 2), 1], [[2, 0, 2], [1, 4, 0]])
%y = RaggedSum(%x: Tensor[Float32, (2, 5, 3), 1], [[2, 0, 2], [1, 4, 0]])
%y = RaggedExpand(%x: Tensor[Float32, (3, 2), 1], [[2, 0, 2], [1, 4, 0]], 5)
%p, %c = Dispatch[num_experts = 3, capacity = 2](%e: Tensor[Int64, (2, 5, 2), 1])
%y = Permute(%x: Tensor[Float32, (3, 4), 1], [[0, -1], [1, 4], [3, 7]], %w: Tensor[Float32, (3, 2), 1], 8)
%y = Unpermute(%x: Tensor[BFloat16, (6, 4), 1], [[0, -1], [1, 4], [3, 5]], %w: Tensor[Float32, (3, 2), 1])
%dw = UnpermuteGrad(%dy: Tensor[BFloat16, (3, 4), 1], %x: Tensor[BFloat16, (6, 4), 1], [[0, -1], [1, 4], [3, 5]], %w: Tensor[Float32, (3, 2), 1])
%w, %e = Route[top_k = 2, score = "sigmoid", normalize = false, n_group = 2, topk_group = 1](%x: Tensor[Float32, (3, 6), 1], %b: Tensor[Float32, (6,), 1])
%dx = RouteGrad[score = "sigmoid", scale = 2.0](%dy: Tensor[Float32, (3, 2), 1], %x: Tensor[Float32, (3, 4), 1], [[0, 1], [3, 1], [2, 0]])
%dx = RouteGrad[score = "sigmoid", normalize = false](%dy: Tensor[Float32, (3, 2), 1], %x: Tensor[Float32, (3, 4), 1], [[0, 1], [3, 1], [2, 0]])
%dx = RouteGrad[normalize = false](%dy: Tensor[Float32, (3, 2), 1], %x: Tensor[Float32, (3, 4), 1], [[0, 1], [3, 1], [2, 0]])
%y = Einsum[equation = "b...i,ij->b...j"](%a: Tensor[Float32, (2, 3, 4), 1], %b: Tensor[Float32, (4, 5), 1])
%y = Einsum[equation = "ij->ji"](%a: Tensor[Float32, (2, 3), 1])
""".strip().splitlines()  # noqa: E501 - an example is one line

BRIDGE = """
%y = Tan(%x: Tensor[Float32, (2, 3), 1])
%y = Atan(%x: Tensor[Float32, (2, 3), 1])
%y = Sinh(%x: Tensor[Float32, (2, 3), 1])
%y = Asinh(%x: Tensor[Float32, (2, 3), 1])
%y = Softsign(%x: Tensor[Float32, (2, 3), 1])
%y = Mish(%x: Tensor[Float32, (2, 3), 1])
%y = Selu(%x: Tensor[Float32, (2, 3), 1])
%y = Celu[alpha = 0.7](%x: Tensor[Float32, (2, 3), 1])
%y = ThresholdedRelu[alpha = 0.3](%x: Tensor[Float32, (2, 3), 1])
%y = PRelu(%x: Tensor[Float32, (2, 3), 1], %s: Tensor[Float32, (3,), 1])
%y = IsNaN(%x: Tensor[Float32, (2, 3), 1])
%y = IsInf(%x: Tensor[Float32, (2, 3), 1])
%y = Xor(%a: Tensor[Bool, (2, 3), 1], %b: Tensor[Bool, (2, 3), 1])
%y = BitwiseAnd(%a: Tensor[Int32, (2, 3), 1], %b: Tensor[Int32, (2, 3), 1])
%y = BitwiseNot(%a: Tensor[Int32, (2, 3), 1])
%y = Dropout(%x: Tensor[Float32, (2, 3), 1])
%y = Conv[kernel_shape = [3, 3]](%x: Tensor[Float32, (2, 3, 8, 7), 1], %w: Tensor[Float32, (4, 3, 3, 3), 1], %b: Tensor[Float32, (4,), 1])
%y = Conv[kernel_shape = [3, 3], pads = [1, 0, 2, 1], strides = [2, 1]](%x: Tensor[Float32, (2, 3, 8, 7), 1], %w: Tensor[Float32, (4, 3, 3, 3), 1])
%y = Conv[group = 2, pads = [1, 1, 1, 1], dilations = [2, 2]](%x: Tensor[Float32, (1, 4, 8, 7), 1], %w: Tensor[Float32, (6, 2, 3, 3), 1])
%y = Conv[auto_pad = "SAME_UPPER", strides = [2]](%x: Tensor[Float32, (1, 4, 8), 1], %w: Tensor[Float32, (6, 4, 3), 1])
%y = ConvTranspose[strides = [2, 2], pads = [1, 1, 1, 1]](%x: Tensor[Float32, (1, 4, 5, 4), 1], %w: Tensor[Float32, (4, 2, 3, 3), 1])
%y = MaxPool[kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]](%x: Tensor[Float32, (1, 2, 8, 7), 1])
%y = MaxPool[kernel_shape = [3, 3], strides = [2, 2], pads = [0, 0, 1, 1]](%x: Tensor[Float32, (1, 2, 8, 7), 1])
%y = MaxPool[kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1](%x: Tensor[Float32, (1, 2, 8, 8), 1])
%y, %i = MaxPool[kernel_shape = [2, 2], strides = [2, 2]](%x: Tensor[Float32, (2, 3, 6, 4), 1])
%y, %i = MaxPool[kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 2, 1], storage_order = 1](%x: Tensor[Float32, (2, 2, 7, 4), 1])
%y, %i = MaxPool[kernel_shape = [3], strides = [2], ceil_mode = true](%x: Tensor[Float32, (2, 3, 6), 1])
%dx = MaxPoolGrad[kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 2, 1]](%dy: Tensor[Float32, (2, 2, 4, 4), 1], %x: Tensor[Float32, (2, 2, 7, 4), 1])
%dx = MaxPoolGrad[kernel_shape = [3], strides = [2], ceil_mode = true](%dy: Tensor[Float32, (2, 3, 3), 1], %x: Tensor[Float32, (2, 3, 6), 1])
%dw = ConvWeightGrad[kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 2, 1], group = 2](%dy: Tensor[Float32, (2, 6, 4, 4), 1], %x: Tensor[Float32, (2, 4, 7, 4), 1])
%y, %h, %c = LSTM[hidden_size = 5](%x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Float32, (1, 20, 3), 1], %r: Tensor[Float32, (1, 20, 5), 1])
_, %h = LSTM[hidden_size = 5, direction = "bidirectional", layout = 1](%x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Float32, (2, 20, 3), 1], %r: Tensor[Float32, (2, 20, 5), 1], %b: Tensor[Float32, (2, 40), 1], _, %i: Tensor[Float32, (4, 2, 5), 1], %j: Tensor[Float32, (4, 2, 5), 1])
%y, %h = GRU[hidden_size = 5, direction = "reverse", linear_before_reset = true](%x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Float32, (1, 15, 3), 1], %r: Tensor[Float32, (1, 15, 5), 1], %b: Tensor[Float32, (1, 30), 1], _, %i: Tensor[Float32, (1, 2, 5), 1])
%y = RNN[hidden_size = 5](%x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Float32, (1, 5, 3), 1], %r: Tensor[Float32, (1, 5, 5), 1])
%dx, %dw, %dr, %db, %dh, %dc = LSTMGrad[direction = "bidirectional"](%dy: Tensor[Float32, (4, 2, 2, 5), 1], %x: Tensor[Float32, (4, 2, 3), 1], %w: Tensor[Float32, (2, 20, 3), 1], %r: Tensor[Float32, (2, 20, 5), 1], %b: Tensor[Float32, (2, 40), 1], %i: Tensor[Float32, (2, 2, 5), 1], %j: Tensor[Float32, (2, 2, 5), 1], %e: Tensor[Float32, (2, 2, 5), 1], %f: Tensor[Float32, (2, 2, 5), 1])
%dx, %dw, %dr, %db, %dh = GRUGrad[direction = "reverse", layout = 1](%dy: Tensor[Float32, (2, 4, 1, 5), 1], %x: Tensor[Float32, (2, 4, 3), 1], %w: Tensor[Float32, (1, 15, 3), 1], %r: Tensor[Float32, (1, 15, 5), 1], %b: Tensor[Float32, (1, 30), 1], _, %e: Tensor[Float32, (2, 1, 5), 1])
%y = Resize[nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"](%x: Tensor[Float32, (2, 3, 4, 2), 1], _, [1.0, 1.0, 2.0, 2.0])
%y = Resize[mode = "linear"](%x: Tensor[Float32, (2, 3, 4, 2), 1], _, _, [2, 3, 3, 5])
%y = GroupNormalization[num_groups = 2](%x: Tensor[Float32, (2, 4, 3, 2), 1], %s: Tensor[Float32, (4,), 1], %b: Tensor[Float32, (4,), 1])
%y = AveragePool[kernel_shape = [2, 2], strides = [2, 2]](%x: Tensor[Float32, (1, 2, 8, 6), 1])
%y = AveragePool[kernel_shape = [3, 3], pads = [1, 1, 1, 1]](%x: Tensor[Float32, (1, 2, 8, 6), 1])
%y = AveragePool[kernel_shape = [3, 3], pads = [0, 1, 1, 0]](%x: Tensor[Float32, (1, 2, 8, 6), 1])
%y = GlobalAveragePool(%x: Tensor[Float32, (1, 2, 8, 6), 1])
%y = GlobalMaxPool(%x: Tensor[Float32, (1, 2, 8, 6), 1])
%y = GlobalMaxPool(%x: Tensor[Float32, (2, 4, 8), 1])
%y = GlobalAveragePool(%x: Tensor[Float32, (2, 4, 8), 1])
%y = MaxPool[kernel_shape = [3], strides = [2], pads = [1, 0]](%x: Tensor[Float32, (2, 3, 8), 1])
%y = AveragePool[kernel_shape = [3], strides = [2], pads = [1, 1]](%x: Tensor[Float32, (2, 3, 8), 1])
%y = AveragePool[kernel_shape = [2, 1, 2], pads = [0, 0, 0, 1, 0, 0]](%x: Tensor[Float32, (2, 3, 4, 2, 3), 1])
%y = ConvTranspose[strides = [2], output_padding = [1]](%x: Tensor[Float32, (2, 4, 5), 1], %w: Tensor[Float32, (4, 2, 3), 1])
%y = Conv[pads = [1, 0, 1, 1, 0, 1]](%x: Tensor[Float32, (1, 2, 3, 4, 3), 1], %w: Tensor[Float32, (4, 2, 2, 2, 2), 1])
%y = BatchNormalization(%x: Tensor[Float32, (2, 3, 4), 1], %s: Tensor[Float32, (3,), 1], %b: Tensor[Float32, (3,), 1], %m: Tensor[Float32, (3,), 1], %v: Tensor[Float32, (3,), 1])
%y, %m2, %v2 = BatchNormalization[training_mode = true, momentum = 0.75](%x: Tensor[Float32, (2, 3, 4), 1], %s: Tensor[Float32, (3,), 1], %b: Tensor[Float32, (3,), 1], %m: Tensor[Float32, (3,), 1], %v: Tensor[Float32, (3,), 1])
%y = BatchNormalization[training_mode = true](%x: Tensor[Float32, (5, 3), 1], %s: Tensor[Float32, (3,), 1], %b: Tensor[Float32, (3,), 1], %m: Tensor[Float32, (3,), 1], %v: Tensor[Float32, (3,), 1])
%y, %m2, %v2 = BatchNormalization[training_mode = true](%x: Tensor[Float32, (5, 3), 1], %s: Tensor[Float32, (3,), 1], %b: Tensor[Float32, (3,), 1], %m: Tensor[Float32, (3,), 1], %v: Tensor[Float32, (3,), 1])
%y = InstanceNormalization(%x: Tensor[Float32, (2, 3, 4), 1], %s: Tensor[Float32, (3,), 1], %b: Tensor[Float32, (3,), 1])
%y = LRN[size = 3, alpha = 0.1](%x: Tensor[Float32, (5, 5, 3, 2), 1])
%y = LRN[size = 4, alpha = 0.1](%x: Tensor[Float32, (2, 5, 3, 2), 1])
%y = LRN[size = 4, alpha = 0.1](%x: Tensor[Float32, (2, 5, 3), 1])
%y = GroupNormalization[num_groups = 2](%x: Tensor[Float32, (2, 4, 3), 1], %s: Tensor[Float32, (4,), 1], %b: Tensor[Float32, (4,), 1])
%y = InstanceNormalization(%x: Tensor[Float32, (2, 3, 2, 2, 3), 1], %s: Tensor[Float32, (3,), 1], %b: Tensor[Float32, (3,), 1])
""".strip().splitlines()  # noqa: E501


def texts():
    """Every example of every op of ours, and more, for each element type that checks."""
    found = [text for op in OURS.values() for text in op.examples] + MORE
    found = [t for t in found if "MPI" not in t and "Send" not in t] + BRIDGE
    for text in found:
        mixed = "Float16" in text or text in BRIDGE  # ONNX's own reference has Float32 attributes
        for dtype in DTYPES if "Float32" in text and not mixed else ("Float32",):
            yield text.replace("Float32", dtype)


CASES = [text for text in dict.fromkeys(texts()) if is_sound(one_op(text))]
NOT_ON_GPUS = r"Gemm.*Int32|HardSwish.*Float64"
"""torch multiplies no matrices of integers there, and takes a sixth as Float32."""


def value(stated, text, name):
    """Random elements: indices and labels are 0 or 1, integers of arithmetic from -3 to 3 without 0."""
    if isinstance(stated, TupleType):
        return tuple(value(item, text, f"{name}.{i}") for i, item in enumerate(stated.items))
    generator = np.random.default_rng(zlib.crc32(f"{text} {name}".encode()))
    dtype = numpy_dtype(stated.dtype)
    if stated.dtype.kind == "bool":
        return generator.random(stated.shape) < 0.5
    if stated.dtype.kind == "float":
        low = 0.2 if name in ("v", "m", "var", "s") or re.search(r"Log\(|Sqrt|Pow", text) else -2.0
        return np.asarray(generator.uniform(low, 2.0, stated.shape)).astype(dtype)
    if re.search(r"ScatterND\(", text):  # which of two updates of one place counts is not defined
        return np.arange(np.prod(stated.shape)).reshape(stated.shape).astype(dtype)
    if re.search(r"Gather|Scatter|Loss|Rotary|OneHot|Adam|Route|Dispatch|ermute|Ragged", text):
        low = 1 if "Adam" in text else 0
        return np.asarray(generator.integers(low, 2, stated.shape)).astype(dtype)
    low = 1 if stated.dtype.kind == "uint" else -3
    return np.asarray(generator.integers(low, 4, stated.shape)).astype(dtype) | 1


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """One program with an entry for each case."""
    entries = [entry(one_op(text), f"case {i}") for i, text in enumerate(CASES)]
    return lowered_program(entries, tmp_path_factory.mktemp("forms"))


def by_op():
    """The numbers of the cases of each op."""
    found = defaultdict(list)
    for number, text in enumerate(CASES):
        found[re.search(r"= (\w+)", text)[1]].append(number)
    return found


@pytest.mark.parametrize("numbers", by_op().values(), ids=by_op())
def test_a_form_is_what_the_reference_says(program, numbers):
    for number in numbers:
        text = CASES[number]
        if DEVICE == "cuda" and re.search(NOT_ON_GPUS, text):
            continue
        module = one_op(text)
        params = module.functions["main"].params
        values = [value(p.type, text, p.name) for p in params]
        expected = [(v, t) for v, t in reference(module, values)]
        held = [v for v, p in zip(values, params, strict=True) if types.device_of(p.type) != HOST]
        found = from_torch(program.call(f"case {number}", [to_torch(v) for v in held]))
        for f, (e, t) in zip(found, expected, strict=True):
            assert_close(f, e, t, text)


def test_every_op_of_our_own_has_a_form():
    assert [name for name in OURS if OPS[name].rule("torch") is None] == []


def test_ops_without_a_form_are_refused_all_at_once():
    module = one_op("%y = Det(%x: Tensor[Float32, (3, 3), 1])")
    second = one_op("%z = Hardmax(%x: Tensor[Float32, (3, 3), 1])")
    with pytest.raises(ProgramError) as caught:
        lower([entry(module, "a"), entry(second, "b")])
    assert [d.code.number for d in caught.value.diagnostics] == ["DIR703", "DIR703"]
    assert "`Det` has no form in torch" in str(caught.value)
    assert "`Hardmax` has no form in torch" in str(caught.value)
