module @jit_llama attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x8xbf16> loc("params['embed']"), %arg1: tensor<8x16xbf16> loc("params['head']"), %arg2: tensor<2x8xbf16> loc("params['layers']['g1']"), %arg3: tensor<2x8xbf16> loc("params['layers']['g2']"), %arg4: tensor<2x8x16xbf16> loc("params['layers']['w1']"), %arg5: tensor<2x16x8xbf16> loc("params['layers']['w2']"), %arg6: tensor<2x8x16xbf16> loc("params['layers']['w3']"), %arg7: tensor<2x8x4xbf16> loc("params['layers']['wk']"), %arg8: tensor<2x8x8xbf16> loc("params['layers']['wo']"), %arg9: tensor<2x8x8xbf16> loc("params['layers']['wq']"), %arg10: tensor<2x8x4xbf16> loc("params['layers']['wv']"), %arg11: tensor<8xbf16> loc("params['norm']"), %arg12: tensor<4x8xi32> loc("tokens")) -> (tensor<4x8x16xbf16> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %1 = stablehlo.compare LT, %arg12, %0, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %c_0 = stablehlo.constant dense<16> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %3 = stablehlo.add %arg12, %2 : tensor<4x8xi32>
    %4 = stablehlo.select %1, %3, %arg12 : tensor<4x8xi1>, tensor<4x8xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x8xi32>) -> tensor<4x8x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<16x8xbf16>, tensor<4x8x1xi32>) -> tensor<4x8x8xbf16>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7:11 = stablehlo.while(%iterArg = %arg2, %iterArg_4 = %arg3, %iterArg_5 = %arg4, %iterArg_6 = %arg5, %iterArg_7 = %arg6, %iterArg_8 = %arg7, %iterArg_9 = %arg8, %iterArg_10 = %arg9, %iterArg_11 = %arg10, %iterArg_12 = %c_1, %iterArg_13 = %6) : tensor<2x8xbf16>, tensor<2x8xbf16>, tensor<2x8x16xbf16>, tensor<2x16x8xbf16>, tensor<2x8x16xbf16>, tensor<2x8x4xbf16>, tensor<2x8x8xbf16>, tensor<2x8x8xbf16>, tensor<2x8x4xbf16>, tensor<i32>, tensor<4x8x8xbf16>
    cond {
      %c_14 = stablehlo.constant dense<2> : tensor<i32>
      %24 = stablehlo.compare LT, %iterArg_12, %c_14, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %24 : tensor<i1>
    } do {
      %24 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_12) : (tensor<2x8xbf16>, tensor<i32>) -> tensor<8xbf16>
      %25 = func.call @dynamic_index_in_dim(%iterArg_4, %iterArg_12) : (tensor<2x8xbf16>, tensor<i32>) -> tensor<8xbf16>
      %26 = func.call @dynamic_index_in_dim_0(%iterArg_5, %iterArg_12) : (tensor<2x8x16xbf16>, tensor<i32>) -> tensor<8x16xbf16>
      %27 = func.call @dynamic_index_in_dim_1(%iterArg_6, %iterArg_12) : (tensor<2x16x8xbf16>, tensor<i32>) -> tensor<16x8xbf16>
      %28 = func.call @dynamic_index_in_dim_0(%iterArg_7, %iterArg_12) : (tensor<2x8x16xbf16>, tensor<i32>) -> tensor<8x16xbf16>
      %29 = func.call @dynamic_index_in_dim_2(%iterArg_8, %iterArg_12) : (tensor<2x8x4xbf16>, tensor<i32>) -> tensor<8x4xbf16>
      %30 = func.call @dynamic_index_in_dim_3(%iterArg_9, %iterArg_12) : (tensor<2x8x8xbf16>, tensor<i32>) -> tensor<8x8xbf16>
      %31 = func.call @dynamic_index_in_dim_3(%iterArg_10, %iterArg_12) : (tensor<2x8x8xbf16>, tensor<i32>) -> tensor<8x8xbf16>
      %32 = func.call @dynamic_index_in_dim_2(%iterArg_11, %iterArg_12) : (tensor<2x8x4xbf16>, tensor<i32>) -> tensor<8x4xbf16>
      %33 = func.call @closed_call(%iterArg_13, %24, %25, %26, %27, %28, %29, %30, %31, %32) : (tensor<4x8x8xbf16>, tensor<8xbf16>, tensor<8xbf16>, tensor<8x16xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>, tensor<8x4xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x4xbf16>) -> tensor<4x8x8xbf16>
      %c_14 = stablehlo.constant dense<1> : tensor<i32>
      %34 = stablehlo.add %iterArg_12, %c_14 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11, %34, %33 : tensor<2x8xbf16>, tensor<2x8xbf16>, tensor<2x8x16xbf16>, tensor<2x16x8xbf16>, tensor<2x8x16xbf16>, tensor<2x8x4xbf16>, tensor<2x8x8xbf16>, tensor<2x8x8xbf16>, tensor<2x8x4xbf16>, tensor<i32>, tensor<4x8x8xbf16>
    }
    %8 = stablehlo.convert %7#10 : (tensor<4x8x8xbf16>) -> tensor<4x8x8xf32>
    %9 = stablehlo.multiply %8, %8 : tensor<4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_2 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<4x8x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %15 = stablehlo.add %13, %14 : tensor<4x8x1xf32>
    %16 = stablehlo.rsqrt %15 : tensor<4x8x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %18 = stablehlo.multiply %8, %17 : tensor<4x8x8xf32>
    %19 = stablehlo.convert %18 : (tensor<4x8x8xf32>) -> tensor<4x8x8xbf16>
    %20 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<8xbf16>) -> tensor<1x1x8xbf16>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x1x8xbf16>) -> tensor<4x8x8xbf16>
    %22 = stablehlo.multiply %19, %21 : tensor<4x8x8xbf16>
    %23 = stablehlo.dot_general %22, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xbf16>, tensor<8x16xbf16>) -> tensor<4x8x16xbf16>
    return %23 : tensor<4x8x16xbf16>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<2x8xbf16> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<8xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 8] : (tensor<2x8xbf16>, tensor<i32>, tensor<i32>) -> tensor<1x8xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x8xbf16>) -> tensor<8xbf16>
    return %1 : tensor<8xbf16>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<2x8x16xbf16> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<8x16xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 16] : (tensor<2x8x16xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x16xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x8x16xbf16>) -> tensor<8x16xbf16>
    return %1 : tensor<8x16xbf16>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<2x16x8xbf16> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<16x8xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 8] : (tensor<2x16x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x16x8xbf16>) -> tensor<16x8xbf16>
    return %1 : tensor<16x8xbf16>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<2x8x4xbf16> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<8x4xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 4] : (tensor<2x8x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x8x4xbf16>) -> tensor<8x4xbf16>
    return %1 : tensor<8x4xbf16>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<2x8x8xbf16> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<8x8xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 8] : (tensor<2x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
    return %1 : tensor<8x8xbf16>
  }
  func.func private @closed_call(%arg0: tensor<4x8x8xbf16> loc(unknown), %arg1: tensor<8xbf16> loc(unknown), %arg2: tensor<8xbf16> loc(unknown), %arg3: tensor<8x16xbf16> loc(unknown), %arg4: tensor<16x8xbf16> loc(unknown), %arg5: tensor<8x16xbf16> loc(unknown), %arg6: tensor<8x4xbf16> loc(unknown), %arg7: tensor<8x8xbf16> loc(unknown), %arg8: tensor<8x8xbf16> loc(unknown), %arg9: tensor<8x4xbf16> loc(unknown)) -> tensor<4x8x8xbf16> {
    %0 = stablehlo.convert %arg0 : (tensor<4x8x8xbf16>) -> tensor<4x8x8xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<4x8x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %7 = stablehlo.add %5, %6 : tensor<4x8x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<4x8x1xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %10 = stablehlo.multiply %0, %9 : tensor<4x8x8xf32>
    %11 = stablehlo.convert %10 : (tensor<4x8x8xf32>) -> tensor<4x8x8xbf16>
    %12 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<8xbf16>) -> tensor<1x1x8xbf16>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x8xbf16>) -> tensor<4x8x8xbf16>
    %14 = stablehlo.multiply %11, %13 : tensor<4x8x8xbf16>
    %15 = stablehlo.dot_general %14, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8x8xbf16>
    %16 = stablehlo.reshape %15 : (tensor<4x8x8xbf16>) -> tensor<4x8x2x4xbf16>
    %17 = stablehlo.dot_general %14, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xbf16>, tensor<8x4xbf16>) -> tensor<4x8x4xbf16>
    %18 = stablehlo.reshape %17 : (tensor<4x8x4xbf16>) -> tensor<4x8x1x4xbf16>
    %19 = stablehlo.dot_general %14, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xbf16>, tensor<8x4xbf16>) -> tensor<4x8x4xbf16>
    %20 = stablehlo.reshape %19 : (tensor<4x8x4xbf16>) -> tensor<4x8x1x4xbf16>
    %21 = stablehlo.iota dim = 0 : tensor<8xi32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %23 = stablehlo.iota dim = 0 : tensor<2xi32>
    %24 = stablehlo.negate %23 : tensor<2xi32>
    %25 = stablehlo.convert %24 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %27 = stablehlo.divide %25, %26 : tensor<2xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %29 = stablehlo.power %28, %27 : tensor<2xf32>
    %30 = stablehlo.convert %22 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %31 = stablehlo.broadcast_in_dim %29, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %32 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %33 = stablehlo.broadcast_in_dim %31, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %34 = stablehlo.multiply %32, %33 : tensor<8x2xf32>
    %35 = stablehlo.cosine %34 : tensor<8x2xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %37 = stablehlo.convert %36 : (tensor<8x1x2xf32>) -> tensor<8x1x2xbf16>
    %38 = stablehlo.sine %34 : tensor<8x2xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %40 = stablehlo.convert %39 : (tensor<8x1x2xf32>) -> tensor<8x1x2xbf16>
    %41 = stablehlo.slice %16 [0:4, 0:8, 0:2, 0:2] : (tensor<4x8x2x4xbf16>) -> tensor<4x8x2x2xbf16>
    %42 = stablehlo.slice %16 [0:4, 0:8, 0:2, 2:4] : (tensor<4x8x2x4xbf16>) -> tensor<4x8x2x2xbf16>
    %43 = stablehlo.broadcast_in_dim %37, dims = [1, 2, 3] : (tensor<8x1x2xbf16>) -> tensor<1x8x1x2xbf16>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xbf16>) -> tensor<4x8x2x2xbf16>
    %45 = stablehlo.multiply %41, %44 : tensor<4x8x2x2xbf16>
    %46 = stablehlo.broadcast_in_dim %40, dims = [1, 2, 3] : (tensor<8x1x2xbf16>) -> tensor<1x8x1x2xbf16>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xbf16>) -> tensor<4x8x2x2xbf16>
    %48 = stablehlo.multiply %42, %47 : tensor<4x8x2x2xbf16>
    %49 = stablehlo.subtract %45, %48 : tensor<4x8x2x2xbf16>
    %50 = stablehlo.broadcast_in_dim %37, dims = [1, 2, 3] : (tensor<8x1x2xbf16>) -> tensor<1x8x1x2xbf16>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xbf16>) -> tensor<4x8x2x2xbf16>
    %52 = stablehlo.multiply %42, %51 : tensor<4x8x2x2xbf16>
    %53 = stablehlo.broadcast_in_dim %40, dims = [1, 2, 3] : (tensor<8x1x2xbf16>) -> tensor<1x8x1x2xbf16>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xbf16>) -> tensor<4x8x2x2xbf16>
    %55 = stablehlo.multiply %41, %54 : tensor<4x8x2x2xbf16>
    %56 = stablehlo.add %52, %55 : tensor<4x8x2x2xbf16>
    %57 = stablehlo.concatenate %49, %56, dim = 3 : (tensor<4x8x2x2xbf16>, tensor<4x8x2x2xbf16>) -> tensor<4x8x2x4xbf16>
    %58 = stablehlo.iota dim = 0 : tensor<8xi32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %60 = stablehlo.iota dim = 0 : tensor<2xi32>
    %61 = stablehlo.negate %60 : tensor<2xi32>
    %62 = stablehlo.convert %61 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %64 = stablehlo.divide %62, %63 : tensor<2xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %66 = stablehlo.power %65, %64 : tensor<2xf32>
    %67 = stablehlo.convert %59 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %68 = stablehlo.broadcast_in_dim %66, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %69 = stablehlo.broadcast_in_dim %67, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %70 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %71 = stablehlo.multiply %69, %70 : tensor<8x2xf32>
    %72 = stablehlo.cosine %71 : tensor<8x2xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %74 = stablehlo.convert %73 : (tensor<8x1x2xf32>) -> tensor<8x1x2xbf16>
    %75 = stablehlo.sine %71 : tensor<8x2xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %77 = stablehlo.convert %76 : (tensor<8x1x2xf32>) -> tensor<8x1x2xbf16>
    %78 = stablehlo.slice %18 [0:4, 0:8, 0:1, 0:2] : (tensor<4x8x1x4xbf16>) -> tensor<4x8x1x2xbf16>
    %79 = stablehlo.slice %18 [0:4, 0:8, 0:1, 2:4] : (tensor<4x8x1x4xbf16>) -> tensor<4x8x1x2xbf16>
    %80 = stablehlo.broadcast_in_dim %74, dims = [1, 2, 3] : (tensor<8x1x2xbf16>) -> tensor<1x8x1x2xbf16>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xbf16>) -> tensor<4x8x1x2xbf16>
    %82 = stablehlo.multiply %78, %81 : tensor<4x8x1x2xbf16>
    %83 = stablehlo.broadcast_in_dim %77, dims = [1, 2, 3] : (tensor<8x1x2xbf16>) -> tensor<1x8x1x2xbf16>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xbf16>) -> tensor<4x8x1x2xbf16>
    %85 = stablehlo.multiply %79, %84 : tensor<4x8x1x2xbf16>
    %86 = stablehlo.subtract %82, %85 : tensor<4x8x1x2xbf16>
    %87 = stablehlo.broadcast_in_dim %74, dims = [1, 2, 3] : (tensor<8x1x2xbf16>) -> tensor<1x8x1x2xbf16>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xbf16>) -> tensor<4x8x1x2xbf16>
    %89 = stablehlo.multiply %79, %88 : tensor<4x8x1x2xbf16>
    %90 = stablehlo.broadcast_in_dim %77, dims = [1, 2, 3] : (tensor<8x1x2xbf16>) -> tensor<1x8x1x2xbf16>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xbf16>) -> tensor<4x8x1x2xbf16>
    %92 = stablehlo.multiply %78, %91 : tensor<4x8x1x2xbf16>
    %93 = stablehlo.add %89, %92 : tensor<4x8x1x2xbf16>
    %94 = stablehlo.concatenate %86, %93, dim = 3 : (tensor<4x8x1x2xbf16>, tensor<4x8x1x2xbf16>) -> tensor<4x8x1x4xbf16>
    %95 = stablehlo.reshape %57 : (tensor<4x8x2x4xbf16>) -> tensor<4x8x1x2x4xbf16>
    %96 = stablehlo.dot_general %95, %94, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x8x1x2x4xbf16>, tensor<4x8x1x4xbf16>) -> tensor<4x1x8x2x8xf32>
    %cst_6 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x1x8x2x8xf32>
    %98 = stablehlo.multiply %96, %97 : tensor<4x1x8x2x8xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %99 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<4x1x8x8xi1>
    %c_7 = stablehlo.constant dense<true> : tensor<i1>
    %100 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %101 = call @tril(%100) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %102 = stablehlo.broadcast_in_dim %101, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<1x1x8x8xi1>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3] : (tensor<1x1x8x8xi1>) -> tensor<4x1x8x8xi1>
    %104 = stablehlo.and %99, %103 : tensor<4x1x8x8xi1>
    %cst_8 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %105 = call @_where(%104, %98, %cst_8) : (tensor<4x1x8x8xi1>, tensor<4x1x8x2x8xf32>, tensor<f32>) -> tensor<2x4x1x8x8xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %106 = stablehlo.reduce(%105 init: %cst_9) applies stablehlo.maximum across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x4x1x8xf32>
    %108 = stablehlo.maximum %107, %106 : tensor<2x4x1x8xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %110 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %111 = stablehlo.subtract %105, %110 : tensor<2x4x1x8x8xf32>
    %112 = stablehlo.exponential %111 : tensor<2x4x1x8x8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %113 = stablehlo.reduce(%112 init: %cst_11) applies stablehlo.add across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %114 = stablehlo.broadcast_in_dim %113, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %115 = stablehlo.broadcast_in_dim %114, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %116 = stablehlo.divide %112, %115 : tensor<2x4x1x8x8xf32>
    %117 = stablehlo.convert %116 : (tensor<2x4x1x8x8xf32>) -> tensor<2x4x1x8x8xbf16>
    %118 = stablehlo.dot_general %20, %117, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x8x1x4xbf16>, tensor<2x4x1x8x8xbf16>) -> tensor<4x1x4x2x8xbf16>
    %119 = stablehlo.transpose %118, dims = [3, 0, 4, 1, 2] : (tensor<4x1x4x2x8xbf16>) -> tensor<2x4x8x1x4xbf16>
    %120 = stablehlo.transpose %119, dims = [1, 2, 3, 0, 4] : (tensor<2x4x8x1x4xbf16>) -> tensor<4x8x1x2x4xbf16>
    %121 = stablehlo.reshape %120 : (tensor<4x8x1x2x4xbf16>) -> tensor<4x8x2x4xbf16>
    %122 = stablehlo.reshape %121 : (tensor<4x8x2x4xbf16>) -> tensor<4x8x8xbf16>
    %123 = stablehlo.dot_general %122, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8x8xbf16>
    %124 = stablehlo.add %arg0, %123 : tensor<4x8x8xbf16>
    %125 = stablehlo.convert %124 : (tensor<4x8x8xbf16>) -> tensor<4x8x8xf32>
    %126 = stablehlo.multiply %125, %125 : tensor<4x8x8xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %127 = stablehlo.reduce(%126 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_13 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %129 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %130 = stablehlo.divide %128, %129 : tensor<4x8x1xf32>
    %cst_14 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %131 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %132 = stablehlo.add %130, %131 : tensor<4x8x1xf32>
    %133 = stablehlo.rsqrt %132 : tensor<4x8x1xf32>
    %134 = stablehlo.broadcast_in_dim %133, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %135 = stablehlo.multiply %125, %134 : tensor<4x8x8xf32>
    %136 = stablehlo.convert %135 : (tensor<4x8x8xf32>) -> tensor<4x8x8xbf16>
    %137 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<8xbf16>) -> tensor<1x1x8xbf16>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1, 2] : (tensor<1x1x8xbf16>) -> tensor<4x8x8xbf16>
    %139 = stablehlo.multiply %136, %138 : tensor<4x8x8xbf16>
    %140 = stablehlo.dot_general %139, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xbf16>, tensor<8x16xbf16>) -> tensor<4x8x16xbf16>
    %141 = call @silu(%140) : (tensor<4x8x16xbf16>) -> tensor<4x8x16xbf16>
    %142 = stablehlo.dot_general %139, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xbf16>, tensor<8x16xbf16>) -> tensor<4x8x16xbf16>
    %143 = stablehlo.multiply %141, %142 : tensor<4x8x16xbf16>
    %144 = stablehlo.dot_general %143, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8x8xbf16>
    %145 = stablehlo.add %124, %144 : tensor<4x8x8xbf16>
    return %145 : tensor<4x8x8xbf16>
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
  func.func private @silu(%arg0: tensor<4x8x16xbf16> loc(unknown)) -> tensor<4x8x16xbf16> {
    %0 = stablehlo.negate %arg0 : tensor<4x8x16xbf16>
    %1 = stablehlo.exponential %0 : tensor<4x8x16xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<4x8x16xbf16>
    %3 = stablehlo.add %2, %1 : tensor<4x8x16xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<4x8x16xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<4x8x16xbf16>
    %6 = stablehlo.multiply %arg0, %5 : tensor<4x8x16xbf16>
    return %6 : tensor<4x8x16xbf16>
  }
}
