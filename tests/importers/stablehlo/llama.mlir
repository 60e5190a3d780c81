module @jit_llama attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x8xf32> loc("params['embed']"), %arg1: tensor<8x16xf32> loc("params['head']"), %arg2: tensor<2x8xf32> loc("params['layers']['g1']"), %arg3: tensor<2x8xf32> loc("params['layers']['g2']"), %arg4: tensor<2x8x16xf32> loc("params['layers']['w1']"), %arg5: tensor<2x16x8xf32> loc("params['layers']['w2']"), %arg6: tensor<2x8x16xf32> loc("params['layers']['w3']"), %arg7: tensor<2x8x4xf32> loc("params['layers']['wk']"), %arg8: tensor<2x8x8xf32> loc("params['layers']['wo']"), %arg9: tensor<2x8x8xf32> loc("params['layers']['wq']"), %arg10: tensor<2x8x4xf32> loc("params['layers']['wv']"), %arg11: tensor<8xf32> loc("params['norm']"), %arg12: tensor<4x8xi32> loc("tokens")) -> (tensor<4x8x16xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %1 = stablehlo.compare LT, %arg12, %0, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %c_0 = stablehlo.constant dense<16> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %3 = stablehlo.add %arg12, %2 : tensor<4x8xi32>
    %4 = stablehlo.select %1, %3, %arg12 : tensor<4x8xi1>, tensor<4x8xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x8xi32>) -> tensor<4x8x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<16x8xf32>, tensor<4x8x1xi32>) -> tensor<4x8x8xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7:11 = stablehlo.while(%iterArg = %arg2, %iterArg_4 = %arg3, %iterArg_5 = %arg4, %iterArg_6 = %arg5, %iterArg_7 = %arg6, %iterArg_8 = %arg7, %iterArg_9 = %arg8, %iterArg_10 = %arg9, %iterArg_11 = %arg10, %iterArg_12 = %c_1, %iterArg_13 = %6) : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>, tensor<i32>, tensor<4x8x8xf32>
    cond {
      %c_14 = stablehlo.constant dense<2> : tensor<i32>
      %22 = stablehlo.compare LT, %iterArg_12, %c_14, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %22 : tensor<i1>
    } do {
      %22 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_12) : (tensor<2x8xf32>, tensor<i32>) -> tensor<8xf32>
      %23 = func.call @dynamic_index_in_dim(%iterArg_4, %iterArg_12) : (tensor<2x8xf32>, tensor<i32>) -> tensor<8xf32>
      %24 = func.call @dynamic_index_in_dim_0(%iterArg_5, %iterArg_12) : (tensor<2x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %25 = func.call @dynamic_index_in_dim_1(%iterArg_6, %iterArg_12) : (tensor<2x16x8xf32>, tensor<i32>) -> tensor<16x8xf32>
      %26 = func.call @dynamic_index_in_dim_0(%iterArg_7, %iterArg_12) : (tensor<2x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %27 = func.call @dynamic_index_in_dim_2(%iterArg_8, %iterArg_12) : (tensor<2x8x4xf32>, tensor<i32>) -> tensor<8x4xf32>
      %28 = func.call @dynamic_index_in_dim_3(%iterArg_9, %iterArg_12) : (tensor<2x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %29 = func.call @dynamic_index_in_dim_3(%iterArg_10, %iterArg_12) : (tensor<2x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %30 = func.call @dynamic_index_in_dim_2(%iterArg_11, %iterArg_12) : (tensor<2x8x4xf32>, tensor<i32>) -> tensor<8x4xf32>
      %31 = func.call @closed_call(%iterArg_13, %22, %23, %24, %25, %26, %27, %28, %29, %30) : (tensor<4x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<4x8x8xf32>
      %c_14 = stablehlo.constant dense<1> : tensor<i32>
      %32 = stablehlo.add %iterArg_12, %c_14 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11, %32, %31 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>, tensor<i32>, tensor<4x8x8xf32>
    }
    %8 = stablehlo.multiply %7#10, %7#10 : tensor<4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_2 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<4x8x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %14 = stablehlo.add %12, %13 : tensor<4x8x1xf32>
    %15 = stablehlo.rsqrt %14 : tensor<4x8x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %17 = stablehlo.multiply %7#10, %16 : tensor<4x8x8xf32>
    %18 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %20 = stablehlo.multiply %17, %19 : tensor<4x8x8xf32>
    %21 = stablehlo.dot_general %20, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    return %21 : tensor<4x8x16xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<2x8xf32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 8] : (tensor<2x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<2x8x16xf32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<8x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 16] : (tensor<2x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<2x16x8xf32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<16x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 8] : (tensor<2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<2x8x4xf32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<8x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 4] : (tensor<2x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<2x8x8xf32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<8x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 8] : (tensor<2x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
  func.func private @closed_call(%arg0: tensor<4x8x8xf32> loc(unknown), %arg1: tensor<8xf32> loc(unknown), %arg2: tensor<8xf32> loc(unknown), %arg3: tensor<8x16xf32> loc(unknown), %arg4: tensor<16x8xf32> loc(unknown), %arg5: tensor<8x16xf32> loc(unknown), %arg6: tensor<8x4xf32> loc(unknown), %arg7: tensor<8x8xf32> loc(unknown), %arg8: tensor<8x8xf32> loc(unknown), %arg9: tensor<8x4xf32> loc(unknown)) -> tensor<4x8x8xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<4x8x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<4x8x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<4x8x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %9 = stablehlo.multiply %arg0, %8 : tensor<4x8x8xf32>
    %10 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<4x8x8xf32>
    %13 = stablehlo.dot_general %12, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %14 = stablehlo.reshape %13 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %15 = stablehlo.dot_general %12, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x4xf32>) -> tensor<4x8x4xf32>
    %16 = stablehlo.reshape %15 : (tensor<4x8x4xf32>) -> tensor<4x8x1x4xf32>
    %17 = stablehlo.dot_general %12, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x4xf32>) -> tensor<4x8x4xf32>
    %18 = stablehlo.reshape %17 : (tensor<4x8x4xf32>) -> tensor<4x8x1x4xf32>
    %19 = stablehlo.iota dim = 0 : tensor<8xi32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %21 = stablehlo.iota dim = 0 : tensor<2xi32>
    %22 = stablehlo.negate %21 : tensor<2xi32>
    %23 = stablehlo.convert %22 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %25 = stablehlo.divide %23, %24 : tensor<2xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %27 = stablehlo.power %26, %25 : tensor<2xf32>
    %28 = stablehlo.convert %20 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %29 = stablehlo.broadcast_in_dim %27, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %30 = stablehlo.broadcast_in_dim %28, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %31 = stablehlo.broadcast_in_dim %29, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<8x2xf32>
    %33 = stablehlo.cosine %32 : tensor<8x2xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %35 = stablehlo.sine %32 : tensor<8x2xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %37 = stablehlo.slice %14 [0:4, 0:8, 0:2, 0:2] : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x2xf32>
    %38 = stablehlo.slice %14 [0:4, 0:8, 0:2, 2:4] : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x2xf32>
    %39 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %41 = stablehlo.multiply %37, %40 : tensor<4x8x2x2xf32>
    %42 = stablehlo.broadcast_in_dim %36, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %44 = stablehlo.multiply %38, %43 : tensor<4x8x2x2xf32>
    %45 = stablehlo.subtract %41, %44 : tensor<4x8x2x2xf32>
    %46 = stablehlo.broadcast_in_dim %34, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %48 = stablehlo.multiply %38, %47 : tensor<4x8x2x2xf32>
    %49 = stablehlo.broadcast_in_dim %36, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %51 = stablehlo.multiply %37, %50 : tensor<4x8x2x2xf32>
    %52 = stablehlo.add %48, %51 : tensor<4x8x2x2xf32>
    %53 = stablehlo.concatenate %45, %52, dim = 3 : (tensor<4x8x2x2xf32>, tensor<4x8x2x2xf32>) -> tensor<4x8x2x4xf32>
    %54 = stablehlo.iota dim = 0 : tensor<8xi32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %56 = stablehlo.iota dim = 0 : tensor<2xi32>
    %57 = stablehlo.negate %56 : tensor<2xi32>
    %58 = stablehlo.convert %57 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %60 = stablehlo.divide %58, %59 : tensor<2xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %62 = stablehlo.power %61, %60 : tensor<2xf32>
    %63 = stablehlo.convert %55 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %64 = stablehlo.broadcast_in_dim %62, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %65 = stablehlo.broadcast_in_dim %63, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %66 = stablehlo.broadcast_in_dim %64, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %67 = stablehlo.multiply %65, %66 : tensor<8x2xf32>
    %68 = stablehlo.cosine %67 : tensor<8x2xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %70 = stablehlo.sine %67 : tensor<8x2xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %72 = stablehlo.slice %16 [0:4, 0:8, 0:1, 0:2] : (tensor<4x8x1x4xf32>) -> tensor<4x8x1x2xf32>
    %73 = stablehlo.slice %16 [0:4, 0:8, 0:1, 2:4] : (tensor<4x8x1x4xf32>) -> tensor<4x8x1x2xf32>
    %74 = stablehlo.broadcast_in_dim %69, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %76 = stablehlo.multiply %72, %75 : tensor<4x8x1x2xf32>
    %77 = stablehlo.broadcast_in_dim %71, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %79 = stablehlo.multiply %73, %78 : tensor<4x8x1x2xf32>
    %80 = stablehlo.subtract %76, %79 : tensor<4x8x1x2xf32>
    %81 = stablehlo.broadcast_in_dim %69, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %83 = stablehlo.multiply %73, %82 : tensor<4x8x1x2xf32>
    %84 = stablehlo.broadcast_in_dim %71, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %86 = stablehlo.multiply %72, %85 : tensor<4x8x1x2xf32>
    %87 = stablehlo.add %83, %86 : tensor<4x8x1x2xf32>
    %88 = stablehlo.concatenate %80, %87, dim = 3 : (tensor<4x8x1x2xf32>, tensor<4x8x1x2xf32>) -> tensor<4x8x1x4xf32>
    %89 = stablehlo.reshape %53 : (tensor<4x8x2x4xf32>) -> tensor<4x8x1x2x4xf32>
    %90 = stablehlo.dot_general %89, %88, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x8x1x2x4xf32>, tensor<4x8x1x4xf32>) -> tensor<4x1x8x2x8xf32>
    %cst_6 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x1x8x2x8xf32>
    %92 = stablehlo.multiply %90, %91 : tensor<4x1x8x2x8xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %93 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<4x1x8x8xi1>
    %c_7 = stablehlo.constant dense<true> : tensor<i1>
    %94 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %95 = call @tril(%94) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %96 = stablehlo.broadcast_in_dim %95, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<1x1x8x8xi1>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2, 3] : (tensor<1x1x8x8xi1>) -> tensor<4x1x8x8xi1>
    %98 = stablehlo.and %93, %97 : tensor<4x1x8x8xi1>
    %cst_8 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %99 = call @_where(%98, %92, %cst_8) : (tensor<4x1x8x8xi1>, tensor<4x1x8x2x8xf32>, tensor<f32>) -> tensor<2x4x1x8x8xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %100 = stablehlo.reduce(%99 init: %cst_9) applies stablehlo.maximum across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x4x1x8xf32>
    %102 = stablehlo.maximum %101, %100 : tensor<2x4x1x8xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %105 = stablehlo.subtract %99, %104 : tensor<2x4x1x8x8xf32>
    %106 = stablehlo.exponential %105 : tensor<2x4x1x8x8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %107 = stablehlo.reduce(%106 init: %cst_11) applies stablehlo.add across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %110 = stablehlo.divide %106, %109 : tensor<2x4x1x8x8xf32>
    %111 = stablehlo.dot_general %18, %110, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x8x1x4xf32>, tensor<2x4x1x8x8xf32>) -> tensor<4x1x4x2x8xf32>
    %112 = stablehlo.transpose %111, dims = [3, 0, 4, 1, 2] : (tensor<4x1x4x2x8xf32>) -> tensor<2x4x8x1x4xf32>
    %113 = stablehlo.transpose %112, dims = [1, 2, 3, 0, 4] : (tensor<2x4x8x1x4xf32>) -> tensor<4x8x1x2x4xf32>
    %114 = stablehlo.reshape %113 : (tensor<4x8x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %115 = stablehlo.reshape %114 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %116 = stablehlo.dot_general %115, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %117 = stablehlo.add %arg0, %116 : tensor<4x8x8xf32>
    %118 = stablehlo.multiply %117, %117 : tensor<4x8x8xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.reduce(%118 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %120 = stablehlo.broadcast_in_dim %119, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_13 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %122 = stablehlo.divide %120, %121 : tensor<4x8x1xf32>
    %cst_14 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %124 = stablehlo.add %122, %123 : tensor<4x8x1xf32>
    %125 = stablehlo.rsqrt %124 : tensor<4x8x1xf32>
    %126 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %127 = stablehlo.multiply %117, %126 : tensor<4x8x8xf32>
    %128 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %130 = stablehlo.multiply %127, %129 : tensor<4x8x8xf32>
    %131 = stablehlo.dot_general %130, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %132 = call @silu(%131) : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %133 = stablehlo.dot_general %130, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %134 = stablehlo.multiply %132, %133 : tensor<4x8x16xf32>
    %135 = stablehlo.dot_general %134, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<16x8xf32>) -> tensor<4x8x8xf32>
    %136 = stablehlo.add %117, %135 : tensor<4x8x8xf32>
    return %136 : tensor<4x8x8xf32>
  }
  func.func private @tril(%arg0: tensor<8x8xi1> loc(unknown)) -> tensor<8x8xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8x8xi32>
    %2 = stablehlo.add %0, %1 : tensor<8x8xi32>
    %3 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<8x8xi1>, tensor<8x8xi1>
    return %6 : tensor<8x8xi1>
  }
  func.func private @_where(%arg0: tensor<4x1x8x8xi1> loc(unknown), %arg1: tensor<4x1x8x2x8xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<2x4x1x8x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<4x1x8x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<4x1x8x8xi1>) -> tensor<2x4x1x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<4x1x8x8xf32>) -> tensor<2x4x1x8x8xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<4x1x8x2x8xf32>) -> tensor<2x4x1x8x8xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>
    return %4 : tensor<2x4x1x8x8xf32>
  }
  func.func private @silu(%arg0: tensor<4x8x16xf32> loc(unknown)) -> tensor<4x8x16xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4x8x16xf32>
    %1 = stablehlo.exponential %0 : tensor<4x8x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %3 = stablehlo.add %2, %1 : tensor<4x8x16xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %5 = stablehlo.divide %4, %3 : tensor<4x8x16xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<4x8x16xf32>
    return %6 : tensor<4x8x16xf32>
  }
}
