"""Programs on a mesh as people write them: an MLP, a block of attention with a loss, a training step."""

MLP = """\
func @mlp(
  %x: Tensor[Float32, (B@dp, 12), 1] {batch = 0},
  %w1: Tensor[Float32, (12, 24@tp), 1] {param},
  %w2: Tensor[Float32, (24@tp, 12), 1] {param}
) mesh (dp = 2, tp = 2) {
  %h = MatMul(%x, %w1)
  %a = Relu(%h)
  %p = MatMul(%a, %w2)
  %y = AllReduce[axis = "tp"](%p)
  return %y
}
"""

ATTENTION = """\
func @main(
  %ids: Tensor[Int64, (4@dp, 6), 1] {batch = 0},
  %labels: Tensor[Int64, (4@dp, 6), 1] {batch = 0},
  %wte: Tensor[Float32, (32@(tp, dp), 16), 1] {param},
  %g: Tensor[Float32, (16,), 1] {param},
  %wqkv: Tensor[Float32, (16, 48@tp[16, 16, 16]), 1] {param},
  %wo: Tensor[Float32, (16@tp, 16), 1] {param},
  %bo: Tensor[Float32, (16,), 1] {param},
  %wv: Tensor[Float32, (16, 32@tp), 1] {param}
) mesh (dp = 2, tp = 2) {
  %wt = AllGather[axis = "dp", dim = 0](%wte)
  %e = Gather[axis = 0](%wt, %ids)
  %x = AllReduce[axis = "tp"](%e)
  %n = RMSNormalization(%x, %g)
  %qkv = MatMul(%n, %wqkv)
  %q, %k, %v = Split[axis = -1, num_outputs = 3](%qkv)
  %a = Attention[q_num_heads = 4, kv_num_heads = 4, is_causal = 1](%q, %k, %v)
  %p = MatMul(%a, %wo)
  %s = AllReduce[axis = "tp"](%p)
  %b = Add(%s, %bo)
  %r = Add(%x, %b)
  %logits = MatMul(%r, %wv)
  %classes = Transpose[perm = [0, 2, 1]](%logits)
  %own = SoftmaxCrossEntropyLoss(%classes, %labels)
  %of_batch = AllReduce[axis = "tp"](%own)
  %loss = AllReduce[axis = "dp"](%of_batch)
  return %loss, %r
}
"""

TRAINING = """\
func @main(
  %x: Tensor[Float32, (8@dp, 16), 1] {batch = 0},
  %t: Tensor[Float32, (8@dp, 16), 1] {batch = 0},
  %w1: Tensor[Float32, (16, 32@tp), 1] {param},
  %b1: Tensor[Float32, (32@tp,), 1] {param},
  %w2: Tensor[Float32, (32@tp, 16@dp), 1] {param},
  %b2: Tensor[Float32, (16,), 1] {param},
  %m1: Tensor[Float32, (16, 32@tp), 1] {state},
  %v1: Tensor[Float32, (16, 32@tp), 1] {state}
) mesh (dp = 2, tp = 2) {
  %w2_all = AllGather[axis = "dp", dim = 1](%w2)
  %h0 = MatMul(%x, %w1)
  %h = Add(%h0, %b1)
  %a = Relu(%h)
  %p = MatMul(%a, %w2_all)
  %s = AllReduce[axis = "tp"](%p)
  %y = Add(%s, %b2)
  %d = Sub(%y, %t)
  %squares = Mul(%d, %d)
  %own = ReduceMean(%squares, [0, 1])
  %loss = AllReduce[axis = "dp"](%own)
  %dy = Mul(%d, 0.015625)
  %at = Transpose[perm = [1, 0]](%a)
  %dw2_own = MatMul(%at, %dy)
  %dw2 = ReduceScatter[axis = "dp", dim = 1](%dw2_own)
  %w2t = Transpose[perm = [1, 0]](%w2_all)
  %da = MatMul(%dy, %w2t)
  %dh = ReluGrad(%da, %h)
  %xt = Transpose[perm = [1, 0]](%x)
  %dw1_own = MatMul(%xt, %dh)
  %dw1 = AllReduce[axis = "dp"](%dw1_own)
  %db1_own = ReduceSum[keepdims = 0](%dh, [0])
  %db1 = AllReduce[axis = "dp"](%db1_own)
  %db2_own = ReduceSum[keepdims = 0](%dy, [0])
  %db2 = AllReduce[axis = "dp"](%db2_own)
  %w1_new, %m1_new, %v1_new = Adam(%w1, %dw1, %m1, %v1, 1)
  %w2_new = SGD(%w2, %dw2)
  %b1_new = SGD(%b1, %db1)
  %b2_new = SGD(%b2, %db2)
  return %loss, %w1_new, %b1_new, %w2_new, %b2_new, %m1_new, %v1_new
}
"""

STATE_IN_PARTS = """\
func @main(
  %x: Tensor[Float32, (8@dp, 16), 1] {batch = 0},
  %w: Tensor[Float32, (16, 4), 1] {param},
  %m: Tensor[Float32, (16@dp, 4), 1] {state}
) mesh (dp = 2) {
  %y = MatMul(%x, %w)
  %dw_own = Gemm[transA = true](%x, %y)
  %dw = ReduceScatter[axis = "dp", dim = 0](%dw_own)
  %part = Shard[axis = "dp", dim = 0](%w)
  %updated, %m_next = Momentum(%part, %dw, %m)
  %gathered = AllGather[axis = "dp", dim = 0](%updated)
  return %gathered, %m_next
}
"""

STAGES = """\
func @stage(%x, %w) kernel {
  %h = MatMul(%x, %w)
  %y = Relu(%h)
  return %y
}

func @layer(%x, %w, %v) {
  %h = @stage(%x, %w)
  %p = MatMul(%h, %v)
  %y = AllReduce[axis = "tp"](%p) on reduce {forward}
  return %y
}

func @main(
  %x: Tensor[Float32, (8@dp, 6), 1] {batch = 0},
  %w_{1..4}: Tensor[Float32, (6, 12@tp), 1] {param},
  %v_{1..4}: Tensor[Float32, (12@tp, 6), 1] {param},
  %w: Tensor[Float32, (6, 12@tp), 2] {param},
  %pair: Tuple[Tensor[Float32, (4@dp,), 1], Tensor[Float32, (4@(tp, dp),), 1]]
) mesh (dp = 2, tp = 2) {
  %y = @layer(%x then %y, [%w_{1..4}], [%v_{1..4}]) 4 times {layer = 1..4}
  %sent = Send[device = 2](%y)
  %z = @stage(%sent, %w)
  %heads = Reshape(%z, [8, 2, 6])
  %sizes = Shape(%heads)
  %joined = AllGather[axis = "dp"](%pair)
  return %heads, %joined, %sizes
}
"""

OVER_AXES = """\
func @main(
  %x: Tensor[Float32, (16@(dp, cp), 8), 1] {batch = 0},
  %w: Tensor[Float32, (8@(dp, cp), 8@tp), 1] {param},
  %b: Tensor[Float32, (8,), 1] {param}
) mesh (dp = 2, tp = 2, cp = 2) {
  %w_all = AllGather[axis = ["dp", "cp"], dim = 0](%w)
  %h = MatMul(%x, %w_all)
  %every = AllGather[axis = "tp", dim = 1](%h)
  %y = Add(%every, %b)
  %own = ReduceMean(%y, [0, 1])
  %loss = AllReduce[axis = ["cp", "dp"]](%own)
  %db_own = ReduceSum[keepdims = 0](%y, [0])
  %db = AllReduce[axis = ["dp", "cp"]](%db_own)
  %dw_own = Gemm[transA = true](%x, %h)
  %dw = ReduceScatter[axis = ["dp", "cp"], dim = 0](%dw_own)
  %w_new = SGD(%w, %dw)
  %b_new = SGD(%b, %db)
  %turned = AllToAll[axis = ["dp", "cp"], split = 1, join = 0](%w)
  %part = Shard[axis = ["cp", "dp"], dim = 0](%b_new)
  %share = Share[axis = ["cp", "dp"]](%b_new)
  %again = AllReduce[axis = ["dp", "cp"]](%share)
  return %loss, %w_new, %b_new, %turned, %part, %again
}
"""

VOCABULARY = """\
func @main(
  %ids: Tensor[Int64, (4@dp, 6), 1] {batch = 0},
  %labels: Tensor[Int64, (24@dp,), 1] {batch = 0},
  %x: Tensor[Float32, (24@dp, 16), 1],
  %wte: Tensor[Float32, (32@(tp, cp), 16), 1] {param},
  %wv: Tensor[Float32, (16, 32@(cp, tp)), 1] {param},
  %dloss: Float32[1]
) mesh (dp = 2, tp = 2, cp = 2) {
  %own = Gather[axis = 0](%wte, %ids)
  %e = AllReduce[axis = ["tp", "cp"]](%own)
  %logits = MatMul(%x, %wv)
  %dlogits = SoftmaxCrossEntropyLossGrad(%dloss, %logits, %labels)
  %dwv_own = Gemm[transA = true](%x, %dlogits)
  %dwv = AllReduce[axis = "dp"](%dwv_own)
  %wv_new = SGD(%wv, %dwv)
  return %e, %wv_new
}
"""

PROGRAMS = {
    "mlp": MLP,
    "attention": ATTENTION,
    "training": TRAINING,
    "state in parts": STATE_IN_PARTS,
    "stages": STAGES,
    "several axes": OVER_AXES,
    "vocabulary": VOCABULARY,
}
