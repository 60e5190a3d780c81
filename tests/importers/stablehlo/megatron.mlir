module @jit_gpt attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]> {stablehlo.mesh = {axes = [{name = "data", size = 2 : i64}, {name = "model", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['bf']"), %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['gf']"), %arg2: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['layers'][0]['b1']"), %arg3: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['layers'][0]['b2']"), %arg4: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['layers'][0]['g1']"), %arg5: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['layers'][0]['g2']"), %arg6: tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['layers'][0]['w1']"), %arg7: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>} loc("params['layers'][0]['w2']"), %arg8: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['layers'][0]['wk']"), %arg9: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>} loc("params['layers'][0]['wo']"), %arg10: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['layers'][0]['wq']"), %arg11: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['layers'][0]['wv']"), %arg12: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['layers'][1]['b1']"), %arg13: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['layers'][1]['b2']"), %arg14: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['layers'][1]['g1']"), %arg15: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("params['layers'][1]['g2']"), %arg16: tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['layers'][1]['w1']"), %arg17: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>} loc("params['layers'][1]['w2']"), %arg18: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['layers'][1]['wk']"), %arg19: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>} loc("params['layers'][1]['wo']"), %arg20: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['layers'][1]['wq']"), %arg21: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("params['layers'][1]['wv']"), %arg22: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>} loc("params['wpe']"), %arg23: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>} loc("params['wte']"), %arg24: tensor<4x8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>} loc("tokens")) -> (tensor<4x8x16xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %1 = stablehlo.compare LT, %arg24, %0, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %c_0 = stablehlo.constant dense<16> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %3 = stablehlo.add %arg24, %2 : tensor<4x8xi32>
    %4 = stablehlo.select %1, %3, %arg24 : tensor<4x8xi1>, tensor<4x8xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x8xi32>) -> tensor<4x8x1xi32>
    %6 = "stablehlo.gather"(%arg23, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<16x8xf32>, tensor<4x8x1xi32>) -> tensor<4x8x8xf32>
    %7 = stablehlo.iota dim = 0 : tensor<8xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %9 = stablehlo.compare LT, %7, %8, SIGNED : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %c_2 = stablehlo.constant dense<8> : tensor<i32>
    %10 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %11 = stablehlo.add %7, %10 : tensor<8xi32>
    %12 = stablehlo.select %9, %11, %7 : tensor<8xi1>, tensor<8xi32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %14 = "stablehlo.gather"(%arg22, %13) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<8x8xf32>, tensor<8x1xi32>) -> tensor<8x8xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x8x8xf32>) -> tensor<4x8x8xf32>
    %17 = stablehlo.add %6, %16 : tensor<4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.reduce(%17 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_3 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %21 = stablehlo.divide %19, %20 : tensor<4x8x1xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %23 = stablehlo.subtract %17, %22 : tensor<4x8x8xf32>
    %24 = stablehlo.multiply %23, %23 : tensor<4x8x8xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %25 = stablehlo.reduce(%24 init: %cst_4) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_5 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %28 = stablehlo.divide %26, %27 : tensor<4x8x1xf32>
    %29 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %30 = stablehlo.subtract %17, %29 : tensor<4x8x8xf32>
    %cst_6 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %32 = stablehlo.add %28, %31 : tensor<4x8x1xf32>
    %33 = stablehlo.sqrt %32 : tensor<4x8x1xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %35 = stablehlo.divide %30, %34 : tensor<4x8x8xf32>
    %36 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %38 = stablehlo.multiply %35, %37 : tensor<4x8x8xf32>
    %39 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %41 = stablehlo.add %38, %40 : tensor<4x8x8xf32>
    %42 = stablehlo.dot_general %41, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %43 = stablehlo.reshape %42 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %44 = stablehlo.transpose %43, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %45 = stablehlo.dot_general %41, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %46 = stablehlo.reshape %45 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %47 = stablehlo.transpose %46, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %48 = stablehlo.dot_general %41, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %49 = stablehlo.reshape %48 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %50 = stablehlo.transpose %49, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %51 = stablehlo.dot_general %44, %47, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x4xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x8xf32>
    %cst_7 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %53 = stablehlo.divide %51, %52 : tensor<4x2x8x8xf32>
    %c_8 = stablehlo.constant dense<true> : tensor<i1>
    %54 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %55 = call @tril(%54) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %cst_9 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %56 = call @_where(%55, %53, %cst_9) : (tensor<8x8xi1>, tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8x8xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %57 = stablehlo.reduce(%56 init: %cst_10) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %58 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x2x8xf32>
    %59 = stablehlo.maximum %58, %57 : tensor<4x2x8xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %62 = stablehlo.subtract %56, %61 : tensor<4x2x8x8xf32>
    %63 = stablehlo.exponential %62 : tensor<4x2x8x8xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.reduce(%63 init: %cst_12) applies stablehlo.add across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %67 = stablehlo.divide %63, %66 : tensor<4x2x8x8xf32>
    %68 = stablehlo.dot_general %67, %50, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x8xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x4xf32>
    %69 = stablehlo.transpose %68, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %70 = stablehlo.reshape %69 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %71 = stablehlo.dot_general %70, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %72 = stablehlo.add %17, %71 : tensor<4x8x8xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %73 = stablehlo.reduce(%72 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_14 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %76 = stablehlo.divide %74, %75 : tensor<4x8x1xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %78 = stablehlo.subtract %72, %77 : tensor<4x8x8xf32>
    %79 = stablehlo.multiply %78, %78 : tensor<4x8x8xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %80 = stablehlo.reduce(%79 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_16 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %83 = stablehlo.divide %81, %82 : tensor<4x8x1xf32>
    %84 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %85 = stablehlo.subtract %72, %84 : tensor<4x8x8xf32>
    %cst_17 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %87 = stablehlo.add %83, %86 : tensor<4x8x1xf32>
    %88 = stablehlo.sqrt %87 : tensor<4x8x1xf32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %90 = stablehlo.divide %85, %89 : tensor<4x8x8xf32>
    %91 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %93 = stablehlo.multiply %90, %92 : tensor<4x8x8xf32>
    %94 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %96 = stablehlo.add %93, %95 : tensor<4x8x8xf32>
    %97 = stablehlo.dot_general %96, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x32xf32>) -> tensor<4x8x32xf32>
    %98 = stablehlo.multiply %97, %97 : tensor<4x8x32xf32>
    %99 = stablehlo.multiply %98, %97 : tensor<4x8x32xf32>
    %cst_18 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %101 = stablehlo.multiply %100, %99 : tensor<4x8x32xf32>
    %102 = stablehlo.add %97, %101 : tensor<4x8x32xf32>
    %cst_19 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %104 = stablehlo.multiply %103, %102 : tensor<4x8x32xf32>
    %105 = stablehlo.tanh %104 : tensor<4x8x32xf32>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %106 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %107 = stablehlo.add %106, %105 : tensor<4x8x32xf32>
    %cst_21 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %108 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %109 = stablehlo.multiply %108, %107 : tensor<4x8x32xf32>
    %110 = stablehlo.multiply %97, %109 : tensor<4x8x32xf32>
    %111 = stablehlo.dot_general %110, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x32xf32>, tensor<32x8xf32>) -> tensor<4x8x8xf32>
    %112 = stablehlo.add %72, %111 : tensor<4x8x8xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %113 = stablehlo.reduce(%112 init: %cst_22) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %114 = stablehlo.broadcast_in_dim %113, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_23 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %116 = stablehlo.divide %114, %115 : tensor<4x8x1xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %118 = stablehlo.subtract %112, %117 : tensor<4x8x8xf32>
    %119 = stablehlo.multiply %118, %118 : tensor<4x8x8xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %120 = stablehlo.reduce(%119 init: %cst_24) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_25 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %122 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %123 = stablehlo.divide %121, %122 : tensor<4x8x1xf32>
    %124 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %125 = stablehlo.subtract %112, %124 : tensor<4x8x8xf32>
    %cst_26 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %127 = stablehlo.add %123, %126 : tensor<4x8x1xf32>
    %128 = stablehlo.sqrt %127 : tensor<4x8x1xf32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %130 = stablehlo.divide %125, %129 : tensor<4x8x8xf32>
    %131 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %132 = stablehlo.broadcast_in_dim %131, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %133 = stablehlo.multiply %130, %132 : tensor<4x8x8xf32>
    %134 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %135 = stablehlo.broadcast_in_dim %134, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %136 = stablehlo.add %133, %135 : tensor<4x8x8xf32>
    %137 = stablehlo.dot_general %136, %arg20, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %138 = stablehlo.reshape %137 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %139 = stablehlo.transpose %138, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %140 = stablehlo.dot_general %136, %arg18, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %141 = stablehlo.reshape %140 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %142 = stablehlo.transpose %141, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %143 = stablehlo.dot_general %136, %arg21, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %144 = stablehlo.reshape %143 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %145 = stablehlo.transpose %144, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %146 = stablehlo.dot_general %139, %142, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x4xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x8xf32>
    %cst_27 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %148 = stablehlo.divide %146, %147 : tensor<4x2x8x8xf32>
    %c_28 = stablehlo.constant dense<true> : tensor<i1>
    %149 = stablehlo.broadcast_in_dim %c_28, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %150 = call @tril(%149) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %cst_29 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %151 = call @_where(%150, %148, %cst_29) : (tensor<8x8xi1>, tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8x8xf32>
    %cst_30 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %152 = stablehlo.reduce(%151 init: %cst_30) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %cst_31 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<4x2x8xf32>
    %154 = stablehlo.maximum %153, %152 : tensor<4x2x8xf32>
    %155 = stablehlo.broadcast_in_dim %154, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %156 = stablehlo.broadcast_in_dim %155, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %157 = stablehlo.subtract %151, %156 : tensor<4x2x8x8xf32>
    %158 = stablehlo.exponential %157 : tensor<4x2x8x8xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %159 = stablehlo.reduce(%158 init: %cst_32) applies stablehlo.add across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %160 = stablehlo.broadcast_in_dim %159, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %162 = stablehlo.divide %158, %161 : tensor<4x2x8x8xf32>
    %163 = stablehlo.dot_general %162, %145, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x8xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x4xf32>
    %164 = stablehlo.transpose %163, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %165 = stablehlo.reshape %164 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %166 = stablehlo.dot_general %165, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %167 = stablehlo.add %112, %166 : tensor<4x8x8xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %168 = stablehlo.reduce(%167 init: %cst_33) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %169 = stablehlo.broadcast_in_dim %168, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_34 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %170 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %171 = stablehlo.divide %169, %170 : tensor<4x8x1xf32>
    %172 = stablehlo.broadcast_in_dim %171, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %173 = stablehlo.subtract %167, %172 : tensor<4x8x8xf32>
    %174 = stablehlo.multiply %173, %173 : tensor<4x8x8xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %175 = stablehlo.reduce(%174 init: %cst_35) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %176 = stablehlo.broadcast_in_dim %175, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_36 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %177 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %178 = stablehlo.divide %176, %177 : tensor<4x8x1xf32>
    %179 = stablehlo.broadcast_in_dim %171, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %180 = stablehlo.subtract %167, %179 : tensor<4x8x8xf32>
    %cst_37 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %181 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %182 = stablehlo.add %178, %181 : tensor<4x8x1xf32>
    %183 = stablehlo.sqrt %182 : tensor<4x8x1xf32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %185 = stablehlo.divide %180, %184 : tensor<4x8x8xf32>
    %186 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %187 = stablehlo.broadcast_in_dim %186, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %188 = stablehlo.multiply %185, %187 : tensor<4x8x8xf32>
    %189 = stablehlo.broadcast_in_dim %arg13, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %190 = stablehlo.broadcast_in_dim %189, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %191 = stablehlo.add %188, %190 : tensor<4x8x8xf32>
    %192 = stablehlo.dot_general %191, %arg16, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x32xf32>) -> tensor<4x8x32xf32>
    %193 = stablehlo.multiply %192, %192 : tensor<4x8x32xf32>
    %194 = stablehlo.multiply %193, %192 : tensor<4x8x32xf32>
    %cst_38 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %195 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %196 = stablehlo.multiply %195, %194 : tensor<4x8x32xf32>
    %197 = stablehlo.add %192, %196 : tensor<4x8x32xf32>
    %cst_39 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %198 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %199 = stablehlo.multiply %198, %197 : tensor<4x8x32xf32>
    %200 = stablehlo.tanh %199 : tensor<4x8x32xf32>
    %cst_40 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %201 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %202 = stablehlo.add %201, %200 : tensor<4x8x32xf32>
    %cst_41 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %203 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %204 = stablehlo.multiply %203, %202 : tensor<4x8x32xf32>
    %205 = stablehlo.multiply %192, %204 : tensor<4x8x32xf32>
    %206 = stablehlo.dot_general %205, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x32xf32>, tensor<32x8xf32>) -> tensor<4x8x8xf32>
    %207 = stablehlo.add %167, %206 : tensor<4x8x8xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %208 = stablehlo.reduce(%207 init: %cst_42) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %209 = stablehlo.broadcast_in_dim %208, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_43 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %210 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %211 = stablehlo.divide %209, %210 : tensor<4x8x1xf32>
    %212 = stablehlo.broadcast_in_dim %211, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %213 = stablehlo.subtract %207, %212 : tensor<4x8x8xf32>
    %214 = stablehlo.multiply %213, %213 : tensor<4x8x8xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %215 = stablehlo.reduce(%214 init: %cst_44) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %216 = stablehlo.broadcast_in_dim %215, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_45 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %217 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %218 = stablehlo.divide %216, %217 : tensor<4x8x1xf32>
    %219 = stablehlo.broadcast_in_dim %211, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %220 = stablehlo.subtract %207, %219 : tensor<4x8x8xf32>
    %cst_46 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %221 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %222 = stablehlo.add %218, %221 : tensor<4x8x1xf32>
    %223 = stablehlo.sqrt %222 : tensor<4x8x1xf32>
    %224 = stablehlo.broadcast_in_dim %223, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %225 = stablehlo.divide %220, %224 : tensor<4x8x8xf32>
    %226 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %227 = stablehlo.broadcast_in_dim %226, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %228 = stablehlo.multiply %225, %227 : tensor<4x8x8xf32>
    %229 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %230 = stablehlo.broadcast_in_dim %229, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %231 = stablehlo.add %228, %230 : tensor<4x8x8xf32>
    %232 = stablehlo.transpose %arg23, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %233 = stablehlo.dot_general %231, %232, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    return %233 : tensor<4x8x16xf32>
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
  func.func private @_where(%arg0: tensor<8x8xi1> loc(unknown), %arg1: tensor<4x2x8x8xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<4x2x8x8xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<4x2x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x2x8x8xi1>, tensor<4x2x8x8xf32>
    return %3 : tensor<4x2x8x8xf32>
  }
}
