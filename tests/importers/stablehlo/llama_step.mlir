module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x8xf32> loc("params['embed']"), %arg1: tensor<8x16xf32> loc("params['head']"), %arg2: tensor<2x8xf32> loc("params['layers']['g1']"), %arg3: tensor<2x8xf32> loc("params['layers']['g2']"), %arg4: tensor<2x8x16xf32> loc("params['layers']['w1']"), %arg5: tensor<2x16x8xf32> loc("params['layers']['w2']"), %arg6: tensor<2x8x16xf32> loc("params['layers']['w3']"), %arg7: tensor<2x8x4xf32> loc("params['layers']['wk']"), %arg8: tensor<2x8x8xf32> loc("params['layers']['wo']"), %arg9: tensor<2x8x8xf32> loc("params['layers']['wq']"), %arg10: tensor<2x8x4xf32> loc("params['layers']['wv']"), %arg11: tensor<8xf32> loc("params['norm']"), %arg12: tensor<4x8xi32> loc("tokens"), %arg13: tensor<4x8xi32> loc("labels")) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<16x8xf32> {jax.result_info = "result[1]['embed']"}, tensor<8x16xf32> {jax.result_info = "result[1]['head']"}, tensor<2x8xf32> {jax.result_info = "result[1]['layers']['g1']"}, tensor<2x8xf32> {jax.result_info = "result[1]['layers']['g2']"}, tensor<2x8x16xf32> {jax.result_info = "result[1]['layers']['w1']"}, tensor<2x16x8xf32> {jax.result_info = "result[1]['layers']['w2']"}, tensor<2x8x16xf32> {jax.result_info = "result[1]['layers']['w3']"}, tensor<2x8x4xf32> {jax.result_info = "result[1]['layers']['wk']"}, tensor<2x8x8xf32> {jax.result_info = "result[1]['layers']['wo']"}, tensor<2x8x8xf32> {jax.result_info = "result[1]['layers']['wq']"}, tensor<2x8x4xf32> {jax.result_info = "result[1]['layers']['wv']"}, tensor<8xf32> {jax.result_info = "result[1]['norm']"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %1 = stablehlo.compare LT, %arg12, %0, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %c_0 = stablehlo.constant dense<16> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %3 = stablehlo.add %arg12, %2 : tensor<4x8xi32>
    %4 = stablehlo.select %1, %3, %arg12 : tensor<4x8xi1>, tensor<4x8xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x8xi32>) -> tensor<4x8x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<16x8xf32>, tensor<4x8x1xi32>) -> tensor<4x8x8xf32>
    %7 = stablehlo.iota dim = 0 : tensor<8xi32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %9 = stablehlo.iota dim = 0 : tensor<2xi32>
    %10 = stablehlo.negate %9 : tensor<2xi32>
    %11 = stablehlo.convert %10 : (tensor<2xi32>) -> tensor<2xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %13 = stablehlo.divide %11, %12 : tensor<2xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %15 = stablehlo.power %14, %13 : tensor<2xf32>
    %16 = stablehlo.convert %8 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %17 = stablehlo.broadcast_in_dim %15, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %18 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %19 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %20 = stablehlo.multiply %18, %19 : tensor<8x2xf32>
    %21 = stablehlo.cosine %20 : tensor<8x2xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %23 = stablehlo.sine %20 : tensor<8x2xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %25 = stablehlo.broadcast_in_dim %22, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %26 = stablehlo.broadcast_in_dim %24, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %27 = stablehlo.broadcast_in_dim %22, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %28 = stablehlo.broadcast_in_dim %24, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %29 = stablehlo.iota dim = 0 : tensor<8xi32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %31 = stablehlo.iota dim = 0 : tensor<2xi32>
    %32 = stablehlo.negate %31 : tensor<2xi32>
    %33 = stablehlo.convert %32 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %35 = stablehlo.divide %33, %34 : tensor<2xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %37 = stablehlo.power %36, %35 : tensor<2xf32>
    %38 = stablehlo.convert %30 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %39 = stablehlo.broadcast_in_dim %37, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %40 = stablehlo.broadcast_in_dim %38, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %41 = stablehlo.broadcast_in_dim %39, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %42 = stablehlo.multiply %40, %41 : tensor<8x2xf32>
    %43 = stablehlo.cosine %42 : tensor<8x2xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %45 = stablehlo.sine %42 : tensor<8x2xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %47 = stablehlo.broadcast_in_dim %44, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %48 = stablehlo.broadcast_in_dim %46, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %49 = stablehlo.broadcast_in_dim %44, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %50 = stablehlo.broadcast_in_dim %46, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %c_4 = stablehlo.constant dense<true> : tensor<i1>
    %51 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i1>) -> tensor<4x1x8x8xi1>
    %c_5 = stablehlo.constant dense<true> : tensor<i1>
    %52 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %53 = call @tril(%52) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %54 = stablehlo.broadcast_in_dim %53, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<1x1x8x8xi1>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3] : (tensor<1x1x8x8xi1>) -> tensor<4x1x8x8xi1>
    %56 = stablehlo.and %51, %55 : tensor<4x1x8x8xi1>
    %cst_6 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %57:2 = call @_where(%56, %cst_6) : (tensor<4x1x8x8xi1>, tensor<f32>) -> (tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>)
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %58 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x4x8x8xf32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %59:22 = stablehlo.while(%iterArg = %arg2, %iterArg_45 = %arg3, %iterArg_46 = %arg4, %iterArg_47 = %arg5, %iterArg_48 = %arg6, %iterArg_49 = %arg7, %iterArg_50 = %arg8, %iterArg_51 = %arg9, %iterArg_52 = %arg10, %iterArg_53 = %25, %iterArg_54 = %26, %iterArg_55 = %27, %iterArg_56 = %28, %iterArg_57 = %47, %iterArg_58 = %48, %iterArg_59 = %49, %iterArg_60 = %50, %iterArg_61 = %57#0, %iterArg_62 = %57#1, %iterArg_63 = %c_8, %iterArg_64 = %6, %iterArg_65 = %58) : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>, tensor<i32>, tensor<4x8x8xf32>, tensor<2x4x8x8xf32>
    cond {
      %c_66 = stablehlo.constant dense<2> : tensor<i32>
      %159 = stablehlo.compare LT, %iterArg_63, %c_66, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %159 : tensor<i1>
    } do {
      %159 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_63) : (tensor<2x8xf32>, tensor<i32>) -> tensor<8xf32>
      %160 = func.call @dynamic_index_in_dim(%iterArg_45, %iterArg_63) : (tensor<2x8xf32>, tensor<i32>) -> tensor<8xf32>
      %161 = func.call @dynamic_index_in_dim_0(%iterArg_46, %iterArg_63) : (tensor<2x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %162 = func.call @dynamic_index_in_dim_1(%iterArg_47, %iterArg_63) : (tensor<2x16x8xf32>, tensor<i32>) -> tensor<16x8xf32>
      %163 = func.call @dynamic_index_in_dim_0(%iterArg_48, %iterArg_63) : (tensor<2x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %164 = func.call @dynamic_index_in_dim_2(%iterArg_49, %iterArg_63) : (tensor<2x8x4xf32>, tensor<i32>) -> tensor<8x4xf32>
      %165 = func.call @dynamic_index_in_dim_3(%iterArg_50, %iterArg_63) : (tensor<2x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %166 = func.call @dynamic_index_in_dim_3(%iterArg_51, %iterArg_63) : (tensor<2x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %167 = func.call @dynamic_index_in_dim_2(%iterArg_52, %iterArg_63) : (tensor<2x8x4xf32>, tensor<i32>) -> tensor<8x4xf32>
      %168:2 = func.call @closed_call(%iterArg_53, %iterArg_54, %iterArg_55, %iterArg_56, %iterArg_57, %iterArg_58, %iterArg_59, %iterArg_60, %iterArg_61, %iterArg_62, %iterArg_64, %159, %160, %161, %162, %163, %164, %165, %166, %167) : (tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>, tensor<4x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>) -> (tensor<4x8x8xf32>, tensor<4x8x8xf32>)
      %169 = func.call @dynamic_update_index_in_dim(%iterArg_65, %168#1, %iterArg_63) : (tensor<2x4x8x8xf32>, tensor<4x8x8xf32>, tensor<i32>) -> tensor<2x4x8x8xf32>
      %c_66 = stablehlo.constant dense<1> : tensor<i32>
      %170 = stablehlo.add %iterArg_63, %c_66 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_45, %iterArg_46, %iterArg_47, %iterArg_48, %iterArg_49, %iterArg_50, %iterArg_51, %iterArg_52, %iterArg_53, %iterArg_54, %iterArg_55, %iterArg_56, %iterArg_57, %iterArg_58, %iterArg_59, %iterArg_60, %iterArg_61, %iterArg_62, %170, %168#0, %169 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>, tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>, tensor<i32>, tensor<4x8x8xf32>, tensor<2x4x8x8xf32>
    }
    %60 = stablehlo.multiply %59#20, %59#20 : tensor<4x8x8xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%60 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_10 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %64 = stablehlo.divide %62, %63 : tensor<4x8x1xf32>
    %cst_11 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %66 = stablehlo.add %64, %65 : tensor<4x8x1xf32>
    %67 = stablehlo.rsqrt %66 : tensor<4x8x1xf32>
    %68 = stablehlo.divide %67, %66 : tensor<4x8x1xf32>
    %cst_12 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %70 = stablehlo.multiply %69, %68 : tensor<4x8x1xf32>
    %71 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %72 = stablehlo.multiply %59#20, %71 : tensor<4x8x8xf32>
    %73 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %75 = stablehlo.multiply %72, %74 : tensor<4x8x8xf32>
    %76 = stablehlo.dot_general %75, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %77:3 = call @log_softmax(%76) : (tensor<4x8x16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x1xf32>)
    %78 = stablehlo.broadcast_in_dim %arg13, dims = [0, 1] : (tensor<4x8xi32>) -> tensor<4x8x1xi32>
    %79:2 = call @take_along_axis(%77#0, %78) : (tensor<4x8x16xf32>, tensor<4x8x1xi32>) -> (tensor<4x8x1xf32>, tensor<4x8x1x1xi32>)
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %80 = stablehlo.reduce(%79#0 init: %cst_13) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_14 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %81 = stablehlo.divide %80, %cst_14 : tensor<f32>
    %82 = stablehlo.negate %81 : tensor<f32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %83 = stablehlo.negate %cst_15 : tensor<f32>
    %cst_16 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %84 = stablehlo.divide %83, %cst_16 : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %86 = call @take_along_axis_5(%79#1, %85) : (tensor<4x8x1x1xi32>, tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
    %87 = call @log_softmax_6(%77#1, %77#2, %86) : (tensor<4x8x16xf32>, tensor<4x8x1xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %88 = stablehlo.dot_general %87, %75, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<4x8x8xf32>) -> tensor<16x8xf32>
    %89 = stablehlo.transpose %88, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %90 = stablehlo.dot_general %87, %arg1, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<8x16xf32>) -> tensor<4x8x8xf32>
    %91 = stablehlo.multiply %72, %90 : tensor<4x8x8xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %92 = stablehlo.reduce(%91 init: %cst_17) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %93 = stablehlo.reshape %92 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %94 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %95 = stablehlo.multiply %90, %94 : tensor<4x8x8xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.reduce(%93 init: %cst_18) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %97 = stablehlo.multiply %59#20, %95 : tensor<4x8x8xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %98 = stablehlo.reduce(%97 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %99 = stablehlo.reshape %98 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %100 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %101 = stablehlo.multiply %95, %100 : tensor<4x8x8xf32>
    %102 = stablehlo.multiply %99, %70 : tensor<4x8x1xf32>
    %cst_20 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %104 = stablehlo.divide %102, %103 : tensor<4x8x1xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %105 = stablehlo.reduce(%104 init: %cst_21) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %107 = stablehlo.multiply %59#20, %106 : tensor<4x8x8xf32>
    %108 = stablehlo.add %101, %107 : tensor<4x8x8xf32>
    %109 = stablehlo.multiply %106, %59#20 : tensor<4x8x8xf32>
    %110 = stablehlo.add %108, %109 : tensor<4x8x8xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %113 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x16x8xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %116 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x8x4xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x8x8xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x8x8xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x8x4xf32>
    %c_31 = stablehlo.constant dense<0> : tensor<i32>
    %120:21 = stablehlo.while(%iterArg = %59#21, %iterArg_45 = %arg2, %iterArg_46 = %arg3, %iterArg_47 = %arg4, %iterArg_48 = %arg5, %iterArg_49 = %arg6, %iterArg_50 = %arg7, %iterArg_51 = %arg8, %iterArg_52 = %arg9, %iterArg_53 = %arg10, %iterArg_54 = %c_31, %iterArg_55 = %110, %iterArg_56 = %111, %iterArg_57 = %112, %iterArg_58 = %113, %iterArg_59 = %114, %iterArg_60 = %115, %iterArg_61 = %116, %iterArg_62 = %117, %iterArg_63 = %118, %iterArg_64 = %119) : tensor<2x4x8x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>, tensor<i32>, tensor<4x8x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>
    cond {
      %c_65 = stablehlo.constant dense<2> : tensor<i32>
      %159 = stablehlo.compare LT, %iterArg_54, %c_65, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %159 : tensor<i1>
    } do {
      %c_65 = stablehlo.constant dense<2> : tensor<i32>
      %159 = stablehlo.subtract %c_65, %iterArg_54 : tensor<i32>
      %c_66 = stablehlo.constant dense<1> : tensor<i32>
      %160 = stablehlo.subtract %159, %c_66 : tensor<i32>
      %161 = func.call @dynamic_index_in_dim_7(%iterArg, %160) : (tensor<2x4x8x8xf32>, tensor<i32>) -> tensor<4x8x8xf32>
      %162 = func.call @dynamic_index_in_dim(%iterArg_45, %160) : (tensor<2x8xf32>, tensor<i32>) -> tensor<8xf32>
      %163 = func.call @dynamic_index_in_dim(%iterArg_46, %160) : (tensor<2x8xf32>, tensor<i32>) -> tensor<8xf32>
      %164 = func.call @dynamic_index_in_dim_0(%iterArg_47, %160) : (tensor<2x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %165 = func.call @dynamic_index_in_dim_1(%iterArg_48, %160) : (tensor<2x16x8xf32>, tensor<i32>) -> tensor<16x8xf32>
      %166 = func.call @dynamic_index_in_dim_0(%iterArg_49, %160) : (tensor<2x8x16xf32>, tensor<i32>) -> tensor<8x16xf32>
      %167 = func.call @dynamic_index_in_dim_2(%iterArg_50, %160) : (tensor<2x8x4xf32>, tensor<i32>) -> tensor<8x4xf32>
      %168 = func.call @dynamic_index_in_dim_3(%iterArg_51, %160) : (tensor<2x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %169 = func.call @dynamic_index_in_dim_3(%iterArg_52, %160) : (tensor<2x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %170 = func.call @dynamic_index_in_dim_2(%iterArg_53, %160) : (tensor<2x8x4xf32>, tensor<i32>) -> tensor<8x4xf32>
      %171:10 = func.call @closed_call_8(%iterArg_55, %161, %162, %163, %164, %165, %166, %167, %168, %169, %170) : (tensor<4x8x8xf32>, tensor<4x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>) -> (tensor<4x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>)
      %172 = func.call @dynamic_update_index_in_dim_14(%iterArg_56, %171#1, %160) : (tensor<2x8xf32>, tensor<8xf32>, tensor<i32>) -> tensor<2x8xf32>
      %173 = func.call @dynamic_update_index_in_dim_14(%iterArg_57, %171#2, %160) : (tensor<2x8xf32>, tensor<8xf32>, tensor<i32>) -> tensor<2x8xf32>
      %174 = func.call @dynamic_update_index_in_dim_15(%iterArg_58, %171#3, %160) : (tensor<2x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<2x8x16xf32>
      %175 = func.call @dynamic_update_index_in_dim_16(%iterArg_59, %171#4, %160) : (tensor<2x16x8xf32>, tensor<16x8xf32>, tensor<i32>) -> tensor<2x16x8xf32>
      %176 = func.call @dynamic_update_index_in_dim_15(%iterArg_60, %171#5, %160) : (tensor<2x8x16xf32>, tensor<8x16xf32>, tensor<i32>) -> tensor<2x8x16xf32>
      %177 = func.call @dynamic_update_index_in_dim_17(%iterArg_61, %171#6, %160) : (tensor<2x8x4xf32>, tensor<8x4xf32>, tensor<i32>) -> tensor<2x8x4xf32>
      %178 = func.call @dynamic_update_index_in_dim_18(%iterArg_62, %171#7, %160) : (tensor<2x8x8xf32>, tensor<8x8xf32>, tensor<i32>) -> tensor<2x8x8xf32>
      %179 = func.call @dynamic_update_index_in_dim_18(%iterArg_63, %171#8, %160) : (tensor<2x8x8xf32>, tensor<8x8xf32>, tensor<i32>) -> tensor<2x8x8xf32>
      %180 = func.call @dynamic_update_index_in_dim_17(%iterArg_64, %171#9, %160) : (tensor<2x8x4xf32>, tensor<8x4xf32>, tensor<i32>) -> tensor<2x8x4xf32>
      %c_67 = stablehlo.constant dense<1> : tensor<i32>
      %181 = stablehlo.add %iterArg_54, %c_67 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_45, %iterArg_46, %iterArg_47, %iterArg_48, %iterArg_49, %iterArg_50, %iterArg_51, %iterArg_52, %iterArg_53, %181, %171#0, %172, %173, %174, %175, %176, %177, %178, %179, %180 : tensor<2x4x8x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>, tensor<i32>, tensor<4x8x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>
    }
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %121 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %122 = "stablehlo.scatter"(%121, %5, %120#11) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg14: tensor<f32> loc("scatter-add:"(#loc53)), %arg15: tensor<f32> loc("scatter-add:"(#loc53))):
      %159 = stablehlo.add %arg14, %arg15 : tensor<f32>
      stablehlo.return %159 : tensor<f32>
    }) : (tensor<16x8xf32>, tensor<4x8x1xi32>, tensor<4x8x8xf32>) -> tensor<16x8xf32>
    %cst_33 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %124 = stablehlo.multiply %123, %122 : tensor<16x8xf32>
    %125 = stablehlo.subtract %arg0, %124 : tensor<16x8xf32>
    %cst_34 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %127 = stablehlo.multiply %126, %89 : tensor<8x16xf32>
    %128 = stablehlo.subtract %arg1, %127 : tensor<8x16xf32>
    %cst_35 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %129 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %130 = stablehlo.multiply %129, %120#12 : tensor<2x8xf32>
    %131 = stablehlo.subtract %arg2, %130 : tensor<2x8xf32>
    %cst_36 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %133 = stablehlo.multiply %132, %120#13 : tensor<2x8xf32>
    %134 = stablehlo.subtract %arg3, %133 : tensor<2x8xf32>
    %cst_37 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %135 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
    %136 = stablehlo.multiply %135, %120#14 : tensor<2x8x16xf32>
    %137 = stablehlo.subtract %arg4, %136 : tensor<2x8x16xf32>
    %cst_38 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %138 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<2x16x8xf32>
    %139 = stablehlo.multiply %138, %120#15 : tensor<2x16x8xf32>
    %140 = stablehlo.subtract %arg5, %139 : tensor<2x16x8xf32>
    %cst_39 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %141 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
    %142 = stablehlo.multiply %141, %120#16 : tensor<2x8x16xf32>
    %143 = stablehlo.subtract %arg6, %142 : tensor<2x8x16xf32>
    %cst_40 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %144 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<2x8x4xf32>
    %145 = stablehlo.multiply %144, %120#17 : tensor<2x8x4xf32>
    %146 = stablehlo.subtract %arg7, %145 : tensor<2x8x4xf32>
    %cst_41 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<2x8x8xf32>
    %148 = stablehlo.multiply %147, %120#18 : tensor<2x8x8xf32>
    %149 = stablehlo.subtract %arg8, %148 : tensor<2x8x8xf32>
    %cst_42 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %150 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<2x8x8xf32>
    %151 = stablehlo.multiply %150, %120#19 : tensor<2x8x8xf32>
    %152 = stablehlo.subtract %arg9, %151 : tensor<2x8x8xf32>
    %cst_43 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<2x8x4xf32>
    %154 = stablehlo.multiply %153, %120#20 : tensor<2x8x4xf32>
    %155 = stablehlo.subtract %arg10, %154 : tensor<2x8x4xf32>
    %cst_44 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %157 = stablehlo.multiply %156, %96 : tensor<8xf32>
    %158 = stablehlo.subtract %arg11, %157 : tensor<8xf32>
    return %82, %125, %128, %131, %134, %137, %140, %143, %146, %149, %152, %155, %158 : tensor<f32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x8x4xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x4xf32>, tensor<8xf32>
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
  func.func private @_where(%arg0: tensor<4x1x8x8xi1> loc(unknown), %arg1: tensor<f32> loc(unknown)) -> (tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<4x1x8x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<4x1x8x8xi1>) -> tensor<2x4x1x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<4x1x8x8xf32>) -> tensor<2x4x1x8x8xf32>
    return %1, %2 : tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>
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
  func.func private @closed_call(%arg0: tensor<1x8x1x2xf32> loc(unknown), %arg1: tensor<1x8x1x2xf32> loc(unknown), %arg2: tensor<1x8x1x2xf32> loc(unknown), %arg3: tensor<1x8x1x2xf32> loc(unknown), %arg4: tensor<1x8x1x2xf32> loc(unknown), %arg5: tensor<1x8x1x2xf32> loc(unknown), %arg6: tensor<1x8x1x2xf32> loc(unknown), %arg7: tensor<1x8x1x2xf32> loc(unknown), %arg8: tensor<2x4x1x8x8xi1> loc(unknown), %arg9: tensor<2x4x1x8x8xf32> loc(unknown), %arg10: tensor<4x8x8xf32> loc(unknown), %arg11: tensor<8xf32> loc(unknown), %arg12: tensor<8xf32> loc(unknown), %arg13: tensor<8x16xf32> loc(unknown), %arg14: tensor<16x8xf32> loc(unknown), %arg15: tensor<8x16xf32> loc(unknown), %arg16: tensor<8x4xf32> loc(unknown), %arg17: tensor<8x8xf32> loc(unknown), %arg18: tensor<8x8xf32> loc(unknown), %arg19: tensor<8x4xf32> loc(unknown)) -> (tensor<4x8x8xf32>, tensor<4x8x8xf32>) {
    %0 = stablehlo.multiply %arg10, %arg10 : tensor<4x8x8xf32>
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
    %9 = stablehlo.multiply %arg10, %8 : tensor<4x8x8xf32>
    %10 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<4x8x8xf32>
    %13 = stablehlo.dot_general %12, %arg18, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %14 = stablehlo.reshape %13 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %15 = stablehlo.dot_general %12, %arg16, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x4xf32>) -> tensor<4x8x4xf32>
    %16 = stablehlo.reshape %15 : (tensor<4x8x4xf32>) -> tensor<4x8x1x4xf32>
    %17 = stablehlo.dot_general %12, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x4xf32>) -> tensor<4x8x4xf32>
    %18 = stablehlo.reshape %17 : (tensor<4x8x4xf32>) -> tensor<4x8x1x4xf32>
    %19 = stablehlo.slice %14 [0:4, 0:8, 0:2, 0:2] : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x2xf32>
    %20 = stablehlo.slice %14 [0:4, 0:8, 0:2, 2:4] : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x2xf32>
    %21 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %22 = stablehlo.multiply %19, %21 : tensor<4x8x2x2xf32>
    %23 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %24 = stablehlo.multiply %20, %23 : tensor<4x8x2x2xf32>
    %25 = stablehlo.subtract %22, %24 : tensor<4x8x2x2xf32>
    %26 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %27 = stablehlo.multiply %20, %26 : tensor<4x8x2x2xf32>
    %28 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %29 = stablehlo.multiply %19, %28 : tensor<4x8x2x2xf32>
    %30 = stablehlo.add %27, %29 : tensor<4x8x2x2xf32>
    %31 = stablehlo.concatenate %25, %30, dim = 3 : (tensor<4x8x2x2xf32>, tensor<4x8x2x2xf32>) -> tensor<4x8x2x4xf32>
    %32 = stablehlo.slice %16 [0:4, 0:8, 0:1, 0:2] : (tensor<4x8x1x4xf32>) -> tensor<4x8x1x2xf32>
    %33 = stablehlo.slice %16 [0:4, 0:8, 0:1, 2:4] : (tensor<4x8x1x4xf32>) -> tensor<4x8x1x2xf32>
    %34 = stablehlo.broadcast_in_dim %arg4, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %35 = stablehlo.multiply %32, %34 : tensor<4x8x1x2xf32>
    %36 = stablehlo.broadcast_in_dim %arg5, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %37 = stablehlo.multiply %33, %36 : tensor<4x8x1x2xf32>
    %38 = stablehlo.subtract %35, %37 : tensor<4x8x1x2xf32>
    %39 = stablehlo.broadcast_in_dim %arg6, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %40 = stablehlo.multiply %33, %39 : tensor<4x8x1x2xf32>
    %41 = stablehlo.broadcast_in_dim %arg7, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %42 = stablehlo.multiply %32, %41 : tensor<4x8x1x2xf32>
    %43 = stablehlo.add %40, %42 : tensor<4x8x1x2xf32>
    %44 = stablehlo.concatenate %38, %43, dim = 3 : (tensor<4x8x1x2xf32>, tensor<4x8x1x2xf32>) -> tensor<4x8x1x4xf32>
    %45 = stablehlo.reshape %31 : (tensor<4x8x2x4xf32>) -> tensor<4x8x1x2x4xf32>
    %46 = stablehlo.dot_general %45, %44, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x8x1x2x4xf32>, tensor<4x8x1x4xf32>) -> tensor<4x1x8x2x8xf32>
    %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x1x8x2x8xf32>
    %48 = stablehlo.multiply %46, %47 : tensor<4x1x8x2x8xf32>
    %49 = call @_where_4(%48, %arg8, %arg9) : (tensor<4x1x8x2x8xf32>, tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>) -> tensor<2x4x1x8x8xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %50 = stablehlo.reduce(%49 init: %cst_3) applies stablehlo.maximum across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x4x1x8xf32>
    %52 = stablehlo.maximum %51, %50 : tensor<2x4x1x8xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %55 = stablehlo.subtract %49, %54 : tensor<2x4x1x8x8xf32>
    %56 = stablehlo.exponential %55 : tensor<2x4x1x8x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.reduce(%56 init: %cst_5) applies stablehlo.add across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %60 = stablehlo.divide %56, %59 : tensor<2x4x1x8x8xf32>
    %61 = stablehlo.dot_general %18, %60, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x8x1x4xf32>, tensor<2x4x1x8x8xf32>) -> tensor<4x1x4x2x8xf32>
    %62 = stablehlo.transpose %61, dims = [3, 0, 4, 1, 2] : (tensor<4x1x4x2x8xf32>) -> tensor<2x4x8x1x4xf32>
    %63 = stablehlo.transpose %62, dims = [1, 2, 3, 0, 4] : (tensor<2x4x8x1x4xf32>) -> tensor<4x8x1x2x4xf32>
    %64 = stablehlo.reshape %63 : (tensor<4x8x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %65 = stablehlo.reshape %64 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %66 = stablehlo.dot_general %65, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %67 = stablehlo.add %arg10, %66 : tensor<4x8x8xf32>
    %68 = stablehlo.multiply %67, %67 : tensor<4x8x8xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%68 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_7 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %72 = stablehlo.divide %70, %71 : tensor<4x8x1xf32>
    %cst_8 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %74 = stablehlo.add %72, %73 : tensor<4x8x1xf32>
    %75 = stablehlo.rsqrt %74 : tensor<4x8x1xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %77 = stablehlo.multiply %67, %76 : tensor<4x8x8xf32>
    %78 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %80 = stablehlo.multiply %77, %79 : tensor<4x8x8xf32>
    %81 = stablehlo.dot_general %80, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %82 = call @silu(%81) : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %83 = stablehlo.dot_general %80, %arg15, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %84 = stablehlo.multiply %82, %83 : tensor<4x8x16xf32>
    %85 = stablehlo.dot_general %84, %arg14, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<16x8xf32>) -> tensor<4x8x8xf32>
    %86 = stablehlo.add %67, %85 : tensor<4x8x8xf32>
    return %86, %arg10 : tensor<4x8x8xf32>, tensor<4x8x8xf32>
  }
  func.func private @_where_4(%arg0: tensor<4x1x8x2x8xf32> loc(unknown), %arg1: tensor<2x4x1x8x8xi1> loc(unknown), %arg2: tensor<2x4x1x8x8xf32> loc(unknown)) -> tensor<2x4x1x8x8xf32> {
    %0 = stablehlo.transpose %arg0, dims = [3, 0, 1, 2, 4] : (tensor<4x1x8x2x8xf32>) -> tensor<2x4x1x8x8xf32>
    %1 = stablehlo.select %arg1, %0, %arg2 : tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>
    return %1 : tensor<2x4x1x8x8xf32>
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
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<2x4x8x8xf32> loc(unknown), %arg1: tensor<4x8x8xf32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<2x4x8x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<4x8x8xf32>) -> tensor<1x4x8x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0, %c_1 : (tensor<2x4x8x8xf32>, tensor<1x4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x4x8x8xf32>
    return %1 : tensor<2x4x8x8xf32>
  }
  func.func private @log_softmax(%arg0: tensor<4x8x16xf32> loc(unknown)) -> (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<4x8xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4x8x16xf32>
    %6 = stablehlo.exponential %5 : tensor<4x8x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<4x8xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %9 = stablehlo.log %8 : tensor<4x8x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<4x8x16xf32>
    return %11, %6, %8 : tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<4x8x16xf32> loc(unknown), %arg1: tensor<4x8x1xi32> loc(unknown)) -> (tensor<4x8x1xf32>, tensor<4x8x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4x8x1xi32>, tensor<4x8x1xi32>) -> tensor<4x8x1xi1>
    %c_0 = stablehlo.constant dense<16> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x8x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4x8x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<4x8x1xi1>, tensor<4x8x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<4x8x1xi32>) -> tensor<4x8x1x1xi32>
    %c_1 = stablehlo.constant dense<15> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x8x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x8x1x1xi32>, tensor<4x8x1x1xi32>) -> tensor<4x8x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<4x8x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<4x8x1x1xi32>, tensor<4x8x1x1xi32>) -> tensor<4x8x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<4x8x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<4x8x1x1xi1>, tensor<i1>) -> tensor<4x8x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<4x8x16xf32>, tensor<4x8x1x1xi32>) -> tensor<4x8x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<4x8x1xi1>, tensor<4x8x1xf32>
    return %15, %5 : tensor<4x8x1xf32>, tensor<4x8x1x1xi32>
  }
  func.func private @take_along_axis_5(%arg0: tensor<4x8x1x1xi32> loc(unknown), %arg1: tensor<4x8x1xf32> loc(unknown)) -> tensor<4x8x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32> loc("scatter-add:"(#loc53)), %arg3: tensor<f32> loc("scatter-add:"(#loc53))):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4x8x16xf32>, tensor<4x8x1x1xi32>, tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
    return %1 : tensor<4x8x16xf32>
  }
  func.func private @log_softmax_6(%arg0: tensor<4x8x16xf32> loc(unknown), %arg1: tensor<4x8x1xf32> loc(unknown), %arg2: tensor<4x8x16xf32> loc(unknown)) -> tensor<4x8x16xf32> {
    %0 = stablehlo.negate %arg2 : tensor<4x8x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<4x8xf32>
    %2 = stablehlo.reshape %1 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<4x8x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x16xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<4x8x16xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<4x8x16xf32>
    return %7 : tensor<4x8x16xf32>
  }
  func.func private @dynamic_index_in_dim_7(%arg0: tensor<2x4x8x8xf32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<4x8x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 4, 8, 8] : (tensor<2x4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x4x8x8xf32>) -> tensor<4x8x8xf32>
    return %1 : tensor<4x8x8xf32>
  }
  func.func private @closed_call_8(%arg0: tensor<4x8x8xf32> loc(unknown), %arg1: tensor<4x8x8xf32> loc(unknown), %arg2: tensor<8xf32> loc(unknown), %arg3: tensor<8xf32> loc(unknown), %arg4: tensor<8x16xf32> loc(unknown), %arg5: tensor<16x8xf32> loc(unknown), %arg6: tensor<8x16xf32> loc(unknown), %arg7: tensor<8x4xf32> loc(unknown), %arg8: tensor<8x8xf32> loc(unknown), %arg9: tensor<8x8xf32> loc(unknown), %arg10: tensor<8x4xf32> loc(unknown)) -> (tensor<4x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>) {
    %0:11 = stablehlo.optimization_barrier %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg0 : tensor<4x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>, tensor<4x8x8xf32>
    %1 = stablehlo.multiply %0#0, %0#0 : tensor<4x8x8xf32>
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
    %9 = stablehlo.divide %8, %7 : tensor<4x8x1xf32>
    %cst_2 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<4x8x1xf32>
    %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %13 = stablehlo.multiply %0#0, %12 : tensor<4x8x8xf32>
    %14 = stablehlo.broadcast_in_dim %0#1, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %16 = stablehlo.multiply %13, %15 : tensor<4x8x8xf32>
    %17 = stablehlo.dot_general %16, %0#8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %18 = stablehlo.reshape %17 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %19 = stablehlo.dot_general %16, %0#6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x4xf32>) -> tensor<4x8x4xf32>
    %20 = stablehlo.reshape %19 : (tensor<4x8x4xf32>) -> tensor<4x8x1x4xf32>
    %21 = stablehlo.dot_general %16, %0#9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x4xf32>) -> tensor<4x8x4xf32>
    %22 = stablehlo.reshape %21 : (tensor<4x8x4xf32>) -> tensor<4x8x1x4xf32>
    %23 = stablehlo.iota dim = 0 : tensor<8xi32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %25 = stablehlo.iota dim = 0 : tensor<2xi32>
    %26 = stablehlo.negate %25 : tensor<2xi32>
    %27 = stablehlo.convert %26 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %29 = stablehlo.divide %27, %28 : tensor<2xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %31 = stablehlo.power %30, %29 : tensor<2xf32>
    %32 = stablehlo.convert %24 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %33 = stablehlo.broadcast_in_dim %31, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %35 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<8x2xf32>
    %37 = stablehlo.cosine %36 : tensor<8x2xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %39 = stablehlo.sine %36 : tensor<8x2xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %41 = stablehlo.slice %18 [0:4, 0:8, 0:2, 0:2] : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x2xf32>
    %42 = stablehlo.slice %18 [0:4, 0:8, 0:2, 2:4] : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x2xf32>
    %43 = stablehlo.broadcast_in_dim %38, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %45 = stablehlo.multiply %41, %44 : tensor<4x8x2x2xf32>
    %46 = stablehlo.broadcast_in_dim %40, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %48 = stablehlo.multiply %42, %47 : tensor<4x8x2x2xf32>
    %49 = stablehlo.subtract %45, %48 : tensor<4x8x2x2xf32>
    %50 = stablehlo.broadcast_in_dim %38, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %52 = stablehlo.multiply %42, %51 : tensor<4x8x2x2xf32>
    %53 = stablehlo.broadcast_in_dim %40, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %55 = stablehlo.multiply %41, %54 : tensor<4x8x2x2xf32>
    %56 = stablehlo.add %52, %55 : tensor<4x8x2x2xf32>
    %57 = stablehlo.concatenate %49, %56, dim = 3 : (tensor<4x8x2x2xf32>, tensor<4x8x2x2xf32>) -> tensor<4x8x2x4xf32>
    %58 = stablehlo.iota dim = 0 : tensor<8xi32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %60 = stablehlo.iota dim = 0 : tensor<2xi32>
    %61 = stablehlo.negate %60 : tensor<2xi32>
    %62 = stablehlo.convert %61 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_5 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %64 = stablehlo.divide %62, %63 : tensor<2xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %66 = stablehlo.power %65, %64 : tensor<2xf32>
    %67 = stablehlo.convert %59 : (tensor<8x1xi32>) -> tensor<8x1xf32>
    %68 = stablehlo.broadcast_in_dim %66, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %69 = stablehlo.broadcast_in_dim %67, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x2xf32>
    %70 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32>
    %71 = stablehlo.multiply %69, %70 : tensor<8x2xf32>
    %72 = stablehlo.cosine %71 : tensor<8x2xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %74 = stablehlo.sine %71 : tensor<8x2xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
    %76 = stablehlo.slice %20 [0:4, 0:8, 0:1, 0:2] : (tensor<4x8x1x4xf32>) -> tensor<4x8x1x2xf32>
    %77 = stablehlo.slice %20 [0:4, 0:8, 0:1, 2:4] : (tensor<4x8x1x4xf32>) -> tensor<4x8x1x2xf32>
    %78 = stablehlo.broadcast_in_dim %73, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %80 = stablehlo.multiply %76, %79 : tensor<4x8x1x2xf32>
    %81 = stablehlo.broadcast_in_dim %75, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %83 = stablehlo.multiply %77, %82 : tensor<4x8x1x2xf32>
    %84 = stablehlo.subtract %80, %83 : tensor<4x8x1x2xf32>
    %85 = stablehlo.broadcast_in_dim %73, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %87 = stablehlo.multiply %77, %86 : tensor<4x8x1x2xf32>
    %88 = stablehlo.broadcast_in_dim %75, dims = [1, 2, 3] : (tensor<8x1x2xf32>) -> tensor<1x8x1x2xf32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %90 = stablehlo.multiply %76, %89 : tensor<4x8x1x2xf32>
    %91 = stablehlo.add %87, %90 : tensor<4x8x1x2xf32>
    %92 = stablehlo.concatenate %84, %91, dim = 3 : (tensor<4x8x1x2xf32>, tensor<4x8x1x2xf32>) -> tensor<4x8x1x4xf32>
    %93 = stablehlo.reshape %57 : (tensor<4x8x2x4xf32>) -> tensor<4x8x1x2x4xf32>
    %94 = stablehlo.dot_general %93, %92, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x8x1x2x4xf32>, tensor<4x8x1x4xf32>) -> tensor<4x1x8x2x8xf32>
    %cst_7 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x1x8x2x8xf32>
    %96 = stablehlo.multiply %94, %95 : tensor<4x1x8x2x8xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %97 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<4x1x8x8xi1>
    %c_8 = stablehlo.constant dense<true> : tensor<i1>
    %98 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %99 = call @tril_9(%98) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %100 = stablehlo.broadcast_in_dim %99, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<1x1x8x8xi1>
    %101 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2, 3] : (tensor<1x1x8x8xi1>) -> tensor<4x1x8x8xi1>
    %102 = stablehlo.and %97, %101 : tensor<4x1x8x8xi1>
    %cst_9 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %103:2 = call @_where_10(%102, %96, %cst_9) : (tensor<4x1x8x8xi1>, tensor<4x1x8x2x8xf32>, tensor<f32>) -> (tensor<2x4x1x8x8xf32>, tensor<2x4x1x8x8xi1>)
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %104 = stablehlo.reduce(%103#0 init: %cst_10) applies stablehlo.maximum across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x4x1x8xf32>
    %106 = stablehlo.maximum %105, %104 : tensor<2x4x1x8xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %109 = stablehlo.subtract %103#0, %108 : tensor<2x4x1x8x8xf32>
    %110 = stablehlo.exponential %109 : tensor<2x4x1x8x8xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.reduce(%110 init: %cst_12) applies stablehlo.add across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %113 = stablehlo.broadcast_in_dim %112, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %114 = stablehlo.divide %110, %113 : tensor<2x4x1x8x8xf32>
    %115 = stablehlo.multiply %112, %112 : tensor<2x4x1x8x1xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %116 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x4x1x8x1xf32>
    %117 = stablehlo.divide %116, %115 : tensor<2x4x1x8x1xf32>
    %118 = stablehlo.dot_general %22, %114, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x8x1x4xf32>, tensor<2x4x1x8x8xf32>) -> tensor<4x1x4x2x8xf32>
    %119 = stablehlo.transpose %118, dims = [3, 0, 4, 1, 2] : (tensor<4x1x4x2x8xf32>) -> tensor<2x4x8x1x4xf32>
    %120 = stablehlo.transpose %119, dims = [1, 2, 3, 0, 4] : (tensor<2x4x8x1x4xf32>) -> tensor<4x8x1x2x4xf32>
    %121 = stablehlo.reshape %120 : (tensor<4x8x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %122 = stablehlo.reshape %121 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %123 = stablehlo.dot_general %122, %0#7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %124 = stablehlo.add %0#0, %123 : tensor<4x8x8xf32>
    %125 = stablehlo.multiply %124, %124 : tensor<4x8x8xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %126 = stablehlo.reduce(%125 init: %cst_14) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_15 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %128 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %129 = stablehlo.divide %127, %128 : tensor<4x8x1xf32>
    %cst_16 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %131 = stablehlo.add %129, %130 : tensor<4x8x1xf32>
    %132 = stablehlo.rsqrt %131 : tensor<4x8x1xf32>
    %133 = stablehlo.divide %132, %131 : tensor<4x8x1xf32>
    %cst_17 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %134 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %135 = stablehlo.multiply %134, %133 : tensor<4x8x1xf32>
    %136 = stablehlo.broadcast_in_dim %132, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %137 = stablehlo.multiply %124, %136 : tensor<4x8x8xf32>
    %138 = stablehlo.broadcast_in_dim %0#2, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %140 = stablehlo.multiply %137, %139 : tensor<4x8x8xf32>
    %141 = stablehlo.dot_general %140, %0#3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %142:3 = call @silu_11(%141) : (tensor<4x8x16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>)
    %143 = stablehlo.dot_general %140, %0#5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %144 = stablehlo.multiply %142#0, %143 : tensor<4x8x16xf32>
    %145 = stablehlo.dot_general %0#10, %144, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x16xf32>) -> tensor<8x16xf32>
    %146 = stablehlo.transpose %145, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %147 = stablehlo.dot_general %0#10, %0#4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<16x8xf32>) -> tensor<4x8x16xf32>
    %148 = stablehlo.multiply %142#0, %147 : tensor<4x8x16xf32>
    %149 = stablehlo.multiply %147, %143 : tensor<4x8x16xf32>
    %150 = stablehlo.dot_general %148, %140, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<4x8x8xf32>) -> tensor<16x8xf32>
    %151 = stablehlo.transpose %150, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %152 = stablehlo.dot_general %148, %0#5, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<8x16xf32>) -> tensor<4x8x8xf32>
    %153 = call @silu_12(%142#1, %141, %142#2, %149) : (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %154 = stablehlo.dot_general %153, %140, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<4x8x8xf32>) -> tensor<16x8xf32>
    %155 = stablehlo.transpose %154, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %156 = stablehlo.dot_general %153, %0#3, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<8x16xf32>) -> tensor<4x8x8xf32>
    %157 = stablehlo.add %152, %156 : tensor<4x8x8xf32>
    %158 = stablehlo.multiply %137, %157 : tensor<4x8x8xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %159 = stablehlo.reduce(%158 init: %cst_18) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %160 = stablehlo.reshape %159 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %161 = stablehlo.broadcast_in_dim %138, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %162 = stablehlo.multiply %157, %161 : tensor<4x8x8xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %163 = stablehlo.reduce(%160 init: %cst_19) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %164 = stablehlo.multiply %124, %162 : tensor<4x8x8xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %165 = stablehlo.reduce(%164 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %166 = stablehlo.reshape %165 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %167 = stablehlo.broadcast_in_dim %132, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %168 = stablehlo.multiply %162, %167 : tensor<4x8x8xf32>
    %169 = stablehlo.add %0#10, %168 : tensor<4x8x8xf32>
    %170 = stablehlo.multiply %166, %135 : tensor<4x8x1xf32>
    %cst_21 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %171 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %172 = stablehlo.divide %170, %171 : tensor<4x8x1xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %173 = stablehlo.reduce(%172 init: %cst_22) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %174 = stablehlo.broadcast_in_dim %173, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %175 = stablehlo.multiply %124, %174 : tensor<4x8x8xf32>
    %176 = stablehlo.add %169, %175 : tensor<4x8x8xf32>
    %177 = stablehlo.multiply %174, %124 : tensor<4x8x8xf32>
    %178 = stablehlo.add %176, %177 : tensor<4x8x8xf32>
    %179 = stablehlo.dot_general %178, %122, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %180 = stablehlo.transpose %179, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %181 = stablehlo.dot_general %178, %0#7, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %182 = stablehlo.reshape %181 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %183 = stablehlo.reshape %182 : (tensor<4x8x2x4xf32>) -> tensor<4x8x1x2x4xf32>
    %184 = stablehlo.transpose %183, dims = [3, 0, 1, 2, 4] : (tensor<4x8x1x2x4xf32>) -> tensor<2x4x8x1x4xf32>
    %185 = stablehlo.transpose %184, dims = [1, 3, 4, 0, 2] : (tensor<2x4x8x1x4xf32>) -> tensor<4x1x4x2x8xf32>
    %186 = stablehlo.dot_general %185, %22, batching_dims = [0, 1] x [0, 2], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x1x4x2x8xf32>, tensor<4x8x1x4xf32>) -> tensor<4x1x2x8x8xf32>
    %187 = stablehlo.transpose %186, dims = [2, 0, 1, 3, 4] : (tensor<4x1x2x8x8xf32>) -> tensor<2x4x1x8x8xf32>
    %188 = stablehlo.dot_general %185, %114, batching_dims = [0, 1] x [1, 2], contracting_dims = [3, 4] x [0, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x1x4x2x8xf32>, tensor<2x4x1x8x8xf32>) -> tensor<4x1x4x8xf32>
    %189 = stablehlo.transpose %188, dims = [0, 3, 1, 2] : (tensor<4x1x4x8xf32>) -> tensor<4x8x1x4xf32>
    %190 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %191 = stablehlo.multiply %187, %190 : tensor<2x4x1x8x8xf32>
    %192 = stablehlo.multiply %191, %110 : tensor<2x4x1x8x8xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %193 = stablehlo.reduce(%192 init: %cst_23) applies stablehlo.add across dimensions = [4] : (tensor<2x4x1x8x8xf32>, tensor<f32>) -> tensor<2x4x1x8xf32>
    %194 = stablehlo.reshape %193 : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x1xf32>
    %195 = stablehlo.negate %194 : tensor<2x4x1x8x1xf32>
    %196 = stablehlo.broadcast_in_dim %112, dims = [0, 1, 2, 3, 4] : (tensor<2x4x1x8x1xf32>) -> tensor<2x4x1x8x8xf32>
    %197 = stablehlo.divide %187, %196 : tensor<2x4x1x8x8xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %198 = stablehlo.reduce(%195 init: %cst_24) applies stablehlo.add across dimensions = [2, 4] : (tensor<2x4x1x8x1xf32>, tensor<f32>) -> tensor<2x4x8xf32>
    %199 = stablehlo.broadcast_in_dim %198, dims = [0, 1, 3] : (tensor<2x4x8xf32>) -> tensor<2x4x1x8xf32>
    %200 = stablehlo.broadcast_in_dim %199, dims = [0, 1, 2, 3] : (tensor<2x4x1x8xf32>) -> tensor<2x4x1x8x8xf32>
    %201 = stablehlo.add %197, %200 : tensor<2x4x1x8x8xf32>
    %202 = stablehlo.multiply %201, %110 : tensor<2x4x1x8x8xf32>
    %203 = call @_where_13(%103#1, %202) : (tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>) -> tensor<4x1x8x2x8xf32>
    %cst_25 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %204 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<4x1x8x2x8xf32>
    %205 = stablehlo.multiply %203, %204 : tensor<4x1x8x2x8xf32>
    %206 = stablehlo.dot_general %205, %93, batching_dims = [0, 1] x [0, 2], contracting_dims = [2, 3] x [1, 3], precision = [DEFAULT, DEFAULT] : (tensor<4x1x8x2x8xf32>, tensor<4x8x1x2x4xf32>) -> tensor<4x1x8x4xf32>
    %207 = stablehlo.transpose %206, dims = [0, 2, 1, 3] : (tensor<4x1x8x4xf32>) -> tensor<4x8x1x4xf32>
    %208 = stablehlo.dot_general %205, %92, batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x1x8x2x8xf32>, tensor<4x8x1x4xf32>) -> tensor<4x1x8x2x4xf32>
    %209 = stablehlo.transpose %208, dims = [0, 2, 1, 3, 4] : (tensor<4x1x8x2x4xf32>) -> tensor<4x8x1x2x4xf32>
    %210 = stablehlo.reshape %209 : (tensor<4x8x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %211 = stablehlo.slice %207 [0:4, 0:8, 0:1, 0:2] : (tensor<4x8x1x4xf32>) -> tensor<4x8x1x2xf32>
    %212 = stablehlo.slice %207 [0:4, 0:8, 0:1, 2:4] : (tensor<4x8x1x4xf32>) -> tensor<4x8x1x2xf32>
    %213 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %214 = stablehlo.multiply %212, %213 : tensor<4x8x1x2xf32>
    %215 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %216 = stablehlo.multiply %212, %215 : tensor<4x8x1x2xf32>
    %217 = stablehlo.negate %211 : tensor<4x8x1x2xf32>
    %218 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %219 = stablehlo.multiply %217, %218 : tensor<4x8x1x2xf32>
    %220 = stablehlo.add %216, %219 : tensor<4x8x1x2xf32>
    %221 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x1x2xf32>
    %222 = stablehlo.multiply %211, %221 : tensor<4x8x1x2xf32>
    %223 = stablehlo.add %214, %222 : tensor<4x8x1x2xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.pad %220, %cst_26, low = [0, 0, 0, 2], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x8x1x2xf32>, tensor<f32>) -> tensor<4x8x1x4xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %225 = stablehlo.pad %223, %cst_27, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<4x8x1x2xf32>, tensor<f32>) -> tensor<4x8x1x4xf32>
    %226 = stablehlo.add %224, %225 : tensor<4x8x1x4xf32>
    %227 = stablehlo.slice %210 [0:4, 0:8, 0:2, 0:2] : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x2xf32>
    %228 = stablehlo.slice %210 [0:4, 0:8, 0:2, 2:4] : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x2xf32>
    %229 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %230 = stablehlo.multiply %228, %229 : tensor<4x8x2x2xf32>
    %231 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %232 = stablehlo.multiply %228, %231 : tensor<4x8x2x2xf32>
    %233 = stablehlo.negate %227 : tensor<4x8x2x2xf32>
    %234 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %235 = stablehlo.multiply %233, %234 : tensor<4x8x2x2xf32>
    %236 = stablehlo.add %232, %235 : tensor<4x8x2x2xf32>
    %237 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 3] : (tensor<1x8x1x2xf32>) -> tensor<4x8x2x2xf32>
    %238 = stablehlo.multiply %227, %237 : tensor<4x8x2x2xf32>
    %239 = stablehlo.add %230, %238 : tensor<4x8x2x2xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %240 = stablehlo.pad %236, %cst_28, low = [0, 0, 0, 2], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x8x2x2xf32>, tensor<f32>) -> tensor<4x8x2x4xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %241 = stablehlo.pad %239, %cst_29, low = [0, 0, 0, 0], high = [0, 0, 0, 2], interior = [0, 0, 0, 0] : (tensor<4x8x2x2xf32>, tensor<f32>) -> tensor<4x8x2x4xf32>
    %242 = stablehlo.add %240, %241 : tensor<4x8x2x4xf32>
    %243 = stablehlo.reshape %189 : (tensor<4x8x1x4xf32>) -> tensor<4x8x4xf32>
    %244 = stablehlo.dot_general %243, %16, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x4xf32>, tensor<4x8x8xf32>) -> tensor<4x8xf32>
    %245 = stablehlo.transpose %244, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %246 = stablehlo.dot_general %243, %0#9, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x4xf32>, tensor<8x4xf32>) -> tensor<4x8x8xf32>
    %247 = stablehlo.reshape %226 : (tensor<4x8x1x4xf32>) -> tensor<4x8x4xf32>
    %248 = stablehlo.dot_general %247, %16, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x4xf32>, tensor<4x8x8xf32>) -> tensor<4x8xf32>
    %249 = stablehlo.transpose %248, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %250 = stablehlo.dot_general %247, %0#6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x4xf32>, tensor<8x4xf32>) -> tensor<4x8x8xf32>
    %251 = stablehlo.add %246, %250 : tensor<4x8x8xf32>
    %252 = stablehlo.reshape %242 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %253 = stablehlo.dot_general %252, %16, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %254 = stablehlo.transpose %253, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %255 = stablehlo.dot_general %252, %0#8, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %256 = stablehlo.add %251, %255 : tensor<4x8x8xf32>
    %257 = stablehlo.multiply %13, %256 : tensor<4x8x8xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %258 = stablehlo.reduce(%257 init: %cst_30) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %259 = stablehlo.reshape %258 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %260 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %261 = stablehlo.multiply %256, %260 : tensor<4x8x8xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %262 = stablehlo.reduce(%259 init: %cst_31) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %263 = stablehlo.multiply %0#0, %261 : tensor<4x8x8xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %264 = stablehlo.reduce(%263 init: %cst_32) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %265 = stablehlo.reshape %264 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %266 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %267 = stablehlo.multiply %261, %266 : tensor<4x8x8xf32>
    %268 = stablehlo.add %178, %267 : tensor<4x8x8xf32>
    %269 = stablehlo.multiply %265, %11 : tensor<4x8x1xf32>
    %cst_33 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %270 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %271 = stablehlo.divide %269, %270 : tensor<4x8x1xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %272 = stablehlo.reduce(%271 init: %cst_34) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %273 = stablehlo.broadcast_in_dim %272, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %274 = stablehlo.multiply %0#0, %273 : tensor<4x8x8xf32>
    %275 = stablehlo.add %268, %274 : tensor<4x8x8xf32>
    %276 = stablehlo.multiply %273, %0#0 : tensor<4x8x8xf32>
    %277 = stablehlo.add %275, %276 : tensor<4x8x8xf32>
    return %277, %262, %163, %155, %146, %151, %249, %180, %254, %245 : tensor<4x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>
  }
  func.func private @tril_9(%arg0: tensor<8x8xi1> loc(unknown)) -> tensor<8x8xi1> {
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
  func.func private @_where_10(%arg0: tensor<4x1x8x8xi1> loc(unknown), %arg1: tensor<4x1x8x2x8xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> (tensor<2x4x1x8x8xf32>, tensor<2x4x1x8x8xi1>) {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<4x1x8x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<4x1x8x8xi1>) -> tensor<2x4x1x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<4x1x8x8xf32>) -> tensor<2x4x1x8x8xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<4x1x8x2x8xf32>) -> tensor<2x4x1x8x8xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>
    return %4, %1 : tensor<2x4x1x8x8xf32>, tensor<2x4x1x8x8xi1>
  }
  func.func private @silu_11(%arg0: tensor<4x8x16xf32> loc(unknown)) -> (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>) {
    %0 = stablehlo.negate %arg0 : tensor<4x8x16xf32>
    %1 = stablehlo.exponential %0 : tensor<4x8x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %3 = stablehlo.add %2, %1 : tensor<4x8x16xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %5 = stablehlo.divide %4, %3 : tensor<4x8x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %7 = stablehlo.subtract %6, %5 : tensor<4x8x16xf32>
    %8 = stablehlo.multiply %5, %7 : tensor<4x8x16xf32>
    %9 = stablehlo.multiply %arg0, %5 : tensor<4x8x16xf32>
    return %9, %5, %8 : tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>
  }
  func.func private @silu_12(%arg0: tensor<4x8x16xf32> loc(unknown), %arg1: tensor<4x8x16xf32> loc(unknown), %arg2: tensor<4x8x16xf32> loc(unknown), %arg3: tensor<4x8x16xf32> loc(unknown)) -> tensor<4x8x16xf32> {
    %0 = stablehlo.multiply %arg1, %arg3 : tensor<4x8x16xf32>
    %1 = stablehlo.multiply %arg3, %arg0 : tensor<4x8x16xf32>
    %2 = stablehlo.multiply %0, %arg2 : tensor<4x8x16xf32>
    %3 = stablehlo.add %1, %2 : tensor<4x8x16xf32>
    return %3 : tensor<4x8x16xf32>
  }
  func.func private @_where_13(%arg0: tensor<2x4x1x8x8xi1> loc(unknown), %arg1: tensor<2x4x1x8x8xf32> loc(unknown)) -> tensor<4x1x8x2x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x1x8x8xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<2x4x1x8x8xi1>, tensor<2x4x1x8x8xf32>
    %2 = stablehlo.transpose %1, dims = [1, 2, 3, 0, 4] : (tensor<2x4x1x8x8xf32>) -> tensor<4x1x8x2x8xf32>
    return %2 : tensor<4x1x8x2x8xf32>
  }
  func.func private @dynamic_update_index_in_dim_14(%arg0: tensor<2x8xf32> loc(unknown), %arg1: tensor<8xf32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<2x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<2x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<2x8xf32>
    return %1 : tensor<2x8xf32>
  }
  func.func private @dynamic_update_index_in_dim_15(%arg0: tensor<2x8x16xf32> loc(unknown), %arg1: tensor<8x16xf32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<2x8x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<2x8x16xf32>, tensor<1x8x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x8x16xf32>
    return %1 : tensor<2x8x16xf32>
  }
  func.func private @dynamic_update_index_in_dim_16(%arg0: tensor<2x16x8xf32> loc(unknown), %arg1: tensor<16x8xf32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<2x16x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<16x8xf32>) -> tensor<1x16x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<2x16x8xf32>, tensor<1x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x16x8xf32>
    return %1 : tensor<2x16x8xf32>
  }
  func.func private @dynamic_update_index_in_dim_17(%arg0: tensor<2x8x4xf32> loc(unknown), %arg1: tensor<8x4xf32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<2x8x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<2x8x4xf32>, tensor<1x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x8x4xf32>
    return %1 : tensor<2x8x4xf32>
  }
  func.func private @dynamic_update_index_in_dim_18(%arg0: tensor<2x8x8xf32> loc(unknown), %arg1: tensor<8x8xf32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<2x8x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<2x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x8x8xf32>
    return %1 : tensor<2x8x8xf32>
  }
}
