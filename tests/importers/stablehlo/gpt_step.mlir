module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32> {tf.aliasing_output = 1 : i32} loc("params['bf']"), %arg1: tensor<8xf32> {tf.aliasing_output = 2 : i32} loc("params['gf']"), %arg2: tensor<8xf32> {tf.aliasing_output = 3 : i32} loc("params['layers'][0]['b1']"), %arg3: tensor<8xf32> {tf.aliasing_output = 4 : i32} loc("params['layers'][0]['b2']"), %arg4: tensor<8xf32> {tf.aliasing_output = 5 : i32} loc("params['layers'][0]['g1']"), %arg5: tensor<8xf32> {tf.aliasing_output = 6 : i32} loc("params['layers'][0]['g2']"), %arg6: tensor<8x32xf32> {tf.aliasing_output = 7 : i32} loc("params['layers'][0]['w1']"), %arg7: tensor<32x8xf32> {tf.aliasing_output = 8 : i32} loc("params['layers'][0]['w2']"), %arg8: tensor<8x8xf32> {tf.aliasing_output = 9 : i32} loc("params['layers'][0]['wk']"), %arg9: tensor<8x8xf32> {tf.aliasing_output = 10 : i32} loc("params['layers'][0]['wo']"), %arg10: tensor<8x8xf32> {tf.aliasing_output = 11 : i32} loc("params['layers'][0]['wq']"), %arg11: tensor<8x8xf32> {tf.aliasing_output = 12 : i32} loc("params['layers'][0]['wv']"), %arg12: tensor<8xf32> {tf.aliasing_output = 13 : i32} loc("params['layers'][1]['b1']"), %arg13: tensor<8xf32> {tf.aliasing_output = 14 : i32} loc("params['layers'][1]['b2']"), %arg14: tensor<8xf32> {tf.aliasing_output = 15 : i32} loc("params['layers'][1]['g1']"), %arg15: tensor<8xf32> {tf.aliasing_output = 16 : i32} loc("params['layers'][1]['g2']"), %arg16: tensor<8x32xf32> {tf.aliasing_output = 17 : i32} loc("params['layers'][1]['w1']"), %arg17: tensor<32x8xf32> {tf.aliasing_output = 18 : i32} loc("params['layers'][1]['w2']"), %arg18: tensor<8x8xf32> {tf.aliasing_output = 19 : i32} loc("params['layers'][1]['wk']"), %arg19: tensor<8x8xf32> {tf.aliasing_output = 20 : i32} loc("params['layers'][1]['wo']"), %arg20: tensor<8x8xf32> {tf.aliasing_output = 21 : i32} loc("params['layers'][1]['wq']"), %arg21: tensor<8x8xf32> {tf.aliasing_output = 22 : i32} loc("params['layers'][1]['wv']"), %arg22: tensor<8x8xf32> {tf.aliasing_output = 23 : i32} loc("params['wpe']"), %arg23: tensor<16x8xf32> {tf.aliasing_output = 24 : i32} loc("params['wte']"), %arg24: tensor<4x8xi32> loc("tokens"), %arg25: tensor<4x8xi32> loc("labels")) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<8xf32> {jax.result_info = "result[1]['bf']"}, tensor<8xf32> {jax.result_info = "result[1]['gf']"}, tensor<8xf32> {jax.result_info = "result[1]['layers'][0]['b1']"}, tensor<8xf32> {jax.result_info = "result[1]['layers'][0]['b2']"}, tensor<8xf32> {jax.result_info = "result[1]['layers'][0]['g1']"}, tensor<8xf32> {jax.result_info = "result[1]['layers'][0]['g2']"}, tensor<8x32xf32> {jax.result_info = "result[1]['layers'][0]['w1']"}, tensor<32x8xf32> {jax.result_info = "result[1]['layers'][0]['w2']"}, tensor<8x8xf32> {jax.result_info = "result[1]['layers'][0]['wk']"}, tensor<8x8xf32> {jax.result_info = "result[1]['layers'][0]['wo']"}, tensor<8x8xf32> {jax.result_info = "result[1]['layers'][0]['wq']"}, tensor<8x8xf32> {jax.result_info = "result[1]['layers'][0]['wv']"}, tensor<8xf32> {jax.result_info = "result[1]['layers'][1]['b1']"}, tensor<8xf32> {jax.result_info = "result[1]['layers'][1]['b2']"}, tensor<8xf32> {jax.result_info = "result[1]['layers'][1]['g1']"}, tensor<8xf32> {jax.result_info = "result[1]['layers'][1]['g2']"}, tensor<8x32xf32> {jax.result_info = "result[1]['layers'][1]['w1']"}, tensor<32x8xf32> {jax.result_info = "result[1]['layers'][1]['w2']"}, tensor<8x8xf32> {jax.result_info = "result[1]['layers'][1]['wk']"}, tensor<8x8xf32> {jax.result_info = "result[1]['layers'][1]['wo']"}, tensor<8x8xf32> {jax.result_info = "result[1]['layers'][1]['wq']"}, tensor<8x8xf32> {jax.result_info = "result[1]['layers'][1]['wv']"}, tensor<8x8xf32> {jax.result_info = "result[1]['wpe']"}, tensor<16x8xf32> {jax.result_info = "result[1]['wte']"}) {
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
    %cst_4 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %26 = stablehlo.multiply %25, %23 : tensor<4x8x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.reduce(%24 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_6 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %30 = stablehlo.divide %28, %29 : tensor<4x8x1xf32>
    %31 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %32 = stablehlo.subtract %17, %31 : tensor<4x8x8xf32>
    %cst_7 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %34 = stablehlo.add %30, %33 : tensor<4x8x1xf32>
    %35 = stablehlo.sqrt %34 : tensor<4x8x1xf32>
    %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %37 = stablehlo.divide %36, %35 : tensor<4x8x1xf32>
    %38 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %39 = stablehlo.divide %32, %38 : tensor<4x8x8xf32>
    %40 = stablehlo.multiply %35, %35 : tensor<4x8x1xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %42 = stablehlo.divide %41, %40 : tensor<4x8x1xf32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %45 = stablehlo.multiply %39, %44 : tensor<4x8x8xf32>
    %46 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %48 = stablehlo.add %45, %47 : tensor<4x8x8xf32>
    %49 = stablehlo.dot_general %48, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %50 = stablehlo.reshape %49 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %51 = stablehlo.transpose %50, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %52 = stablehlo.dot_general %48, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %53 = stablehlo.reshape %52 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %54 = stablehlo.transpose %53, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %55 = stablehlo.dot_general %48, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %56 = stablehlo.reshape %55 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %57 = stablehlo.transpose %56, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %58 = stablehlo.dot_general %51, %54, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x4xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x8xf32>
    %cst_10 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %60 = stablehlo.divide %58, %59 : tensor<4x2x8x8xf32>
    %c_11 = stablehlo.constant dense<true> : tensor<i1>
    %61 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %62 = call @tril(%61) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %cst_12 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %63:2 = call @_where(%62, %60, %cst_12) : (tensor<8x8xi1>, tensor<4x2x8x8xf32>, tensor<f32>) -> (tensor<4x2x8x8xf32>, tensor<4x2x8x8xi1>)
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %64 = stablehlo.reduce(%63#0 init: %cst_13) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %cst_14 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x2x8xf32>
    %66 = stablehlo.maximum %65, %64 : tensor<4x2x8xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %69 = stablehlo.subtract %63#0, %68 : tensor<4x2x8x8xf32>
    %70 = stablehlo.exponential %69 : tensor<4x2x8x8xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_15) applies stablehlo.add across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %74 = stablehlo.divide %70, %73 : tensor<4x2x8x8xf32>
    %75 = stablehlo.multiply %72, %72 : tensor<4x2x8x1xf32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<4x2x8x1xf32>
    %77 = stablehlo.divide %76, %75 : tensor<4x2x8x1xf32>
    %78 = stablehlo.dot_general %74, %57, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x8xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x4xf32>
    %79 = stablehlo.transpose %78, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %80 = stablehlo.reshape %79 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %81 = stablehlo.dot_general %80, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %82 = stablehlo.add %17, %81 : tensor<4x8x8xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %83 = stablehlo.reduce(%82 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_18 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %86 = stablehlo.divide %84, %85 : tensor<4x8x1xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %88 = stablehlo.subtract %82, %87 : tensor<4x8x8xf32>
    %89 = stablehlo.multiply %88, %88 : tensor<4x8x8xf32>
    %cst_19 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %91 = stablehlo.multiply %90, %88 : tensor<4x8x8xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %92 = stablehlo.reduce(%89 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_21 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %95 = stablehlo.divide %93, %94 : tensor<4x8x1xf32>
    %96 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %97 = stablehlo.subtract %82, %96 : tensor<4x8x8xf32>
    %cst_22 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %98 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %99 = stablehlo.add %95, %98 : tensor<4x8x1xf32>
    %100 = stablehlo.sqrt %99 : tensor<4x8x1xf32>
    %cst_23 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %102 = stablehlo.divide %101, %100 : tensor<4x8x1xf32>
    %103 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %104 = stablehlo.divide %97, %103 : tensor<4x8x8xf32>
    %105 = stablehlo.multiply %100, %100 : tensor<4x8x1xf32>
    %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %106 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %107 = stablehlo.divide %106, %105 : tensor<4x8x1xf32>
    %108 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %110 = stablehlo.multiply %104, %109 : tensor<4x8x8xf32>
    %111 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %113 = stablehlo.add %110, %112 : tensor<4x8x8xf32>
    %114 = stablehlo.dot_general %113, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x32xf32>) -> tensor<4x8x32xf32>
    %115 = stablehlo.multiply %114, %114 : tensor<4x8x32xf32>
    %116 = stablehlo.multiply %115, %114 : tensor<4x8x32xf32>
    %117 = stablehlo.multiply %114, %114 : tensor<4x8x32xf32>
    %cst_25 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %119 = stablehlo.multiply %118, %117 : tensor<4x8x32xf32>
    %cst_26 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %121 = stablehlo.multiply %120, %116 : tensor<4x8x32xf32>
    %122 = stablehlo.add %114, %121 : tensor<4x8x32xf32>
    %cst_27 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %124 = stablehlo.multiply %123, %122 : tensor<4x8x32xf32>
    %125 = stablehlo.tanh %124 : tensor<4x8x32xf32>
    %cst_28 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %127 = stablehlo.subtract %126, %125 : tensor<4x8x32xf32>
    %cst_29 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %128 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %129 = stablehlo.add %128, %125 : tensor<4x8x32xf32>
    %cst_30 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %131 = stablehlo.multiply %130, %129 : tensor<4x8x32xf32>
    %132 = stablehlo.multiply %114, %131 : tensor<4x8x32xf32>
    %133 = stablehlo.dot_general %132, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x32xf32>, tensor<32x8xf32>) -> tensor<4x8x8xf32>
    %134 = stablehlo.add %82, %133 : tensor<4x8x8xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %135 = stablehlo.reduce(%134 init: %cst_31) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %136 = stablehlo.broadcast_in_dim %135, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_32 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %137 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %138 = stablehlo.divide %136, %137 : tensor<4x8x1xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %140 = stablehlo.subtract %134, %139 : tensor<4x8x8xf32>
    %141 = stablehlo.multiply %140, %140 : tensor<4x8x8xf32>
    %cst_33 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %142 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %143 = stablehlo.multiply %142, %140 : tensor<4x8x8xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %144 = stablehlo.reduce(%141 init: %cst_34) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %145 = stablehlo.broadcast_in_dim %144, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_35 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %146 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %147 = stablehlo.divide %145, %146 : tensor<4x8x1xf32>
    %148 = stablehlo.broadcast_in_dim %138, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %149 = stablehlo.subtract %134, %148 : tensor<4x8x8xf32>
    %cst_36 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %150 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %151 = stablehlo.add %147, %150 : tensor<4x8x1xf32>
    %152 = stablehlo.sqrt %151 : tensor<4x8x1xf32>
    %cst_37 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %154 = stablehlo.divide %153, %152 : tensor<4x8x1xf32>
    %155 = stablehlo.broadcast_in_dim %152, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %156 = stablehlo.divide %149, %155 : tensor<4x8x8xf32>
    %157 = stablehlo.multiply %152, %152 : tensor<4x8x1xf32>
    %cst_38 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %158 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %159 = stablehlo.divide %158, %157 : tensor<4x8x1xf32>
    %160 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %162 = stablehlo.multiply %156, %161 : tensor<4x8x8xf32>
    %163 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %164 = stablehlo.broadcast_in_dim %163, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %165 = stablehlo.add %162, %164 : tensor<4x8x8xf32>
    %166 = stablehlo.dot_general %165, %arg20, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %167 = stablehlo.reshape %166 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %168 = stablehlo.transpose %167, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %169 = stablehlo.dot_general %165, %arg18, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %170 = stablehlo.reshape %169 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %171 = stablehlo.transpose %170, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %172 = stablehlo.dot_general %165, %arg21, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %173 = stablehlo.reshape %172 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %174 = stablehlo.transpose %173, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %175 = stablehlo.dot_general %168, %171, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x4xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x8xf32>
    %cst_39 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %176 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %177 = stablehlo.divide %175, %176 : tensor<4x2x8x8xf32>
    %c_40 = stablehlo.constant dense<true> : tensor<i1>
    %178 = stablehlo.broadcast_in_dim %c_40, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
    %179 = call @tril(%178) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    %cst_41 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %180:2 = call @_where(%179, %177, %cst_41) : (tensor<8x8xi1>, tensor<4x2x8x8xf32>, tensor<f32>) -> (tensor<4x2x8x8xf32>, tensor<4x2x8x8xi1>)
    %cst_42 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %181 = stablehlo.reduce(%180#0 init: %cst_42) applies stablehlo.maximum across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %cst_43 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %182 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<4x2x8xf32>
    %183 = stablehlo.maximum %182, %181 : tensor<4x2x8xf32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %185 = stablehlo.broadcast_in_dim %184, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %186 = stablehlo.subtract %180#0, %185 : tensor<4x2x8x8xf32>
    %187 = stablehlo.exponential %186 : tensor<4x2x8x8xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %188 = stablehlo.reduce(%187 init: %cst_44) applies stablehlo.add across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %189 = stablehlo.broadcast_in_dim %188, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %190 = stablehlo.broadcast_in_dim %189, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %191 = stablehlo.divide %187, %190 : tensor<4x2x8x8xf32>
    %192 = stablehlo.multiply %189, %189 : tensor<4x2x8x1xf32>
    %cst_45 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %193 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<4x2x8x1xf32>
    %194 = stablehlo.divide %193, %192 : tensor<4x2x8x1xf32>
    %195 = stablehlo.dot_general %191, %174, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x8xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x4xf32>
    %196 = stablehlo.transpose %195, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %197 = stablehlo.reshape %196 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %198 = stablehlo.dot_general %197, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %199 = stablehlo.add %134, %198 : tensor<4x8x8xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %200 = stablehlo.reduce(%199 init: %cst_46) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %201 = stablehlo.broadcast_in_dim %200, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_47 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %202 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %203 = stablehlo.divide %201, %202 : tensor<4x8x1xf32>
    %204 = stablehlo.broadcast_in_dim %203, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %205 = stablehlo.subtract %199, %204 : tensor<4x8x8xf32>
    %206 = stablehlo.multiply %205, %205 : tensor<4x8x8xf32>
    %cst_48 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %207 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %208 = stablehlo.multiply %207, %205 : tensor<4x8x8xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %209 = stablehlo.reduce(%206 init: %cst_49) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %210 = stablehlo.broadcast_in_dim %209, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_50 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %211 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %212 = stablehlo.divide %210, %211 : tensor<4x8x1xf32>
    %213 = stablehlo.broadcast_in_dim %203, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %214 = stablehlo.subtract %199, %213 : tensor<4x8x8xf32>
    %cst_51 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %215 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %216 = stablehlo.add %212, %215 : tensor<4x8x1xf32>
    %217 = stablehlo.sqrt %216 : tensor<4x8x1xf32>
    %cst_52 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %218 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %219 = stablehlo.divide %218, %217 : tensor<4x8x1xf32>
    %220 = stablehlo.broadcast_in_dim %217, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %221 = stablehlo.divide %214, %220 : tensor<4x8x8xf32>
    %222 = stablehlo.multiply %217, %217 : tensor<4x8x1xf32>
    %cst_53 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %223 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %224 = stablehlo.divide %223, %222 : tensor<4x8x1xf32>
    %225 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %226 = stablehlo.broadcast_in_dim %225, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %227 = stablehlo.multiply %221, %226 : tensor<4x8x8xf32>
    %228 = stablehlo.broadcast_in_dim %arg13, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %229 = stablehlo.broadcast_in_dim %228, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %230 = stablehlo.add %227, %229 : tensor<4x8x8xf32>
    %231 = stablehlo.dot_general %230, %arg16, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x32xf32>) -> tensor<4x8x32xf32>
    %232 = stablehlo.multiply %231, %231 : tensor<4x8x32xf32>
    %233 = stablehlo.multiply %232, %231 : tensor<4x8x32xf32>
    %234 = stablehlo.multiply %231, %231 : tensor<4x8x32xf32>
    %cst_54 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %235 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %236 = stablehlo.multiply %235, %234 : tensor<4x8x32xf32>
    %cst_55 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %238 = stablehlo.multiply %237, %233 : tensor<4x8x32xf32>
    %239 = stablehlo.add %231, %238 : tensor<4x8x32xf32>
    %cst_56 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %240 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %241 = stablehlo.multiply %240, %239 : tensor<4x8x32xf32>
    %242 = stablehlo.tanh %241 : tensor<4x8x32xf32>
    %cst_57 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %243 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %244 = stablehlo.subtract %243, %242 : tensor<4x8x32xf32>
    %cst_58 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %245 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %246 = stablehlo.add %245, %242 : tensor<4x8x32xf32>
    %cst_59 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %247 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %248 = stablehlo.multiply %247, %246 : tensor<4x8x32xf32>
    %249 = stablehlo.multiply %231, %248 : tensor<4x8x32xf32>
    %250 = stablehlo.dot_general %249, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x32xf32>, tensor<32x8xf32>) -> tensor<4x8x8xf32>
    %251 = stablehlo.add %199, %250 : tensor<4x8x8xf32>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %252 = stablehlo.reduce(%251 init: %cst_60) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %253 = stablehlo.broadcast_in_dim %252, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_61 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %254 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %255 = stablehlo.divide %253, %254 : tensor<4x8x1xf32>
    %256 = stablehlo.broadcast_in_dim %255, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %257 = stablehlo.subtract %251, %256 : tensor<4x8x8xf32>
    %258 = stablehlo.multiply %257, %257 : tensor<4x8x8xf32>
    %cst_62 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %259 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %260 = stablehlo.multiply %259, %257 : tensor<4x8x8xf32>
    %cst_63 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %261 = stablehlo.reduce(%258 init: %cst_63) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %262 = stablehlo.broadcast_in_dim %261, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_64 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %263 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %264 = stablehlo.divide %262, %263 : tensor<4x8x1xf32>
    %265 = stablehlo.broadcast_in_dim %255, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %266 = stablehlo.subtract %251, %265 : tensor<4x8x8xf32>
    %cst_65 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %267 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %268 = stablehlo.add %264, %267 : tensor<4x8x1xf32>
    %269 = stablehlo.sqrt %268 : tensor<4x8x1xf32>
    %cst_66 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %270 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %271 = stablehlo.divide %270, %269 : tensor<4x8x1xf32>
    %272 = stablehlo.broadcast_in_dim %269, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %273 = stablehlo.divide %266, %272 : tensor<4x8x8xf32>
    %274 = stablehlo.multiply %269, %269 : tensor<4x8x1xf32>
    %cst_67 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %275 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %276 = stablehlo.divide %275, %274 : tensor<4x8x1xf32>
    %277 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %278 = stablehlo.broadcast_in_dim %277, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %279 = stablehlo.multiply %273, %278 : tensor<4x8x8xf32>
    %280 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %281 = stablehlo.broadcast_in_dim %280, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %282 = stablehlo.add %279, %281 : tensor<4x8x8xf32>
    %283 = stablehlo.transpose %arg23, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %284 = stablehlo.dot_general %282, %283, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %285:3 = call @log_softmax(%284) : (tensor<4x8x16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x1xf32>)
    %286 = stablehlo.broadcast_in_dim %arg25, dims = [0, 1] : (tensor<4x8xi32>) -> tensor<4x8x1xi32>
    %287:2 = call @take_along_axis(%285#0, %286) : (tensor<4x8x16xf32>, tensor<4x8x1xi32>) -> (tensor<4x8x1xf32>, tensor<4x8x1x1xi32>)
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %288 = stablehlo.reduce(%287#0 init: %cst_68) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_69 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %289 = stablehlo.divide %288, %cst_69 : tensor<f32>
    %290 = stablehlo.negate %289 : tensor<f32>
    %cst_70 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %291 = stablehlo.negate %cst_70 : tensor<f32>
    %cst_71 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %292 = stablehlo.divide %291, %cst_71 : tensor<f32>
    %293 = stablehlo.broadcast_in_dim %292, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %294 = call @take_along_axis_0(%287#1, %293) : (tensor<4x8x1x1xi32>, tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
    %295 = call @log_softmax_1(%285#1, %285#2, %294) : (tensor<4x8x16xf32>, tensor<4x8x1xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %296 = stablehlo.dot_general %295, %282, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<4x8x8xf32>) -> tensor<16x8xf32>
    %297 = stablehlo.transpose %296, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %298 = stablehlo.dot_general %295, %283, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<8x16xf32>) -> tensor<4x8x8xf32>
    %299 = stablehlo.transpose %297, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %300 = stablehlo.reduce(%298 init: %cst_72) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %301 = stablehlo.reshape %300 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_73 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %302 = stablehlo.reduce(%301 init: %cst_73) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %303 = stablehlo.multiply %273, %298 : tensor<4x8x8xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %304 = stablehlo.reduce(%303 init: %cst_74) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %305 = stablehlo.reshape %304 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %306 = stablehlo.broadcast_in_dim %277, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %307 = stablehlo.multiply %298, %306 : tensor<4x8x8xf32>
    %cst_75 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %308 = stablehlo.reduce(%305 init: %cst_75) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %309 = stablehlo.broadcast_in_dim %276, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %310 = stablehlo.multiply %307, %309 : tensor<4x8x8xf32>
    %311 = stablehlo.multiply %310, %266 : tensor<4x8x8xf32>
    %cst_76 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %312 = stablehlo.reduce(%311 init: %cst_76) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %313 = stablehlo.reshape %312 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %314 = stablehlo.negate %313 : tensor<4x8x1xf32>
    %315 = stablehlo.broadcast_in_dim %269, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %316 = stablehlo.divide %307, %315 : tensor<4x8x8xf32>
    %317 = stablehlo.multiply %314, %271 : tensor<4x8x1xf32>
    %318 = stablehlo.negate %316 : tensor<4x8x8xf32>
    %cst_77 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %319 = stablehlo.reduce(%318 init: %cst_77) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %320 = stablehlo.reshape %319 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %cst_78 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %321 = stablehlo.broadcast_in_dim %cst_78, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %322 = stablehlo.divide %317, %321 : tensor<4x8x1xf32>
    %cst_79 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %323 = stablehlo.reduce(%322 init: %cst_79) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %324 = stablehlo.broadcast_in_dim %323, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %325 = stablehlo.multiply %324, %260 : tensor<4x8x8xf32>
    %326 = stablehlo.negate %325 : tensor<4x8x8xf32>
    %cst_80 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %327 = stablehlo.reduce(%326 init: %cst_80) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %328 = stablehlo.reshape %327 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %329 = stablehlo.add %316, %325 : tensor<4x8x8xf32>
    %330 = stablehlo.add %320, %328 : tensor<4x8x1xf32>
    %cst_81 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %331 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %332 = stablehlo.divide %330, %331 : tensor<4x8x1xf32>
    %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %333 = stablehlo.reduce(%332 init: %cst_82) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %334 = stablehlo.broadcast_in_dim %333, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %335 = stablehlo.add %329, %334 : tensor<4x8x8xf32>
    %336 = stablehlo.dot_general %335, %249, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x32xf32>) -> tensor<8x32xf32>
    %337 = stablehlo.transpose %336, dims = [1, 0] : (tensor<8x32xf32>) -> tensor<32x8xf32>
    %338 = stablehlo.dot_general %335, %arg17, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<32x8xf32>) -> tensor<4x8x32xf32>
    %339 = stablehlo.multiply %231, %338 : tensor<4x8x32xf32>
    %340 = stablehlo.multiply %338, %248 : tensor<4x8x32xf32>
    %cst_83 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %341 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %342 = stablehlo.multiply %341, %339 : tensor<4x8x32xf32>
    %343 = stablehlo.multiply %342, %244 : tensor<4x8x32xf32>
    %344 = stablehlo.multiply %343, %242 : tensor<4x8x32xf32>
    %345 = stablehlo.add %343, %344 : tensor<4x8x32xf32>
    %cst_84 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %346 = stablehlo.broadcast_in_dim %cst_84, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %347 = stablehlo.multiply %346, %345 : tensor<4x8x32xf32>
    %348 = stablehlo.add %340, %347 : tensor<4x8x32xf32>
    %cst_85 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %349 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %350 = stablehlo.multiply %349, %347 : tensor<4x8x32xf32>
    %351 = stablehlo.multiply %350, %236 : tensor<4x8x32xf32>
    %352 = stablehlo.add %348, %351 : tensor<4x8x32xf32>
    %353 = stablehlo.dot_general %352, %230, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x32xf32>, tensor<4x8x8xf32>) -> tensor<32x8xf32>
    %354 = stablehlo.transpose %353, dims = [1, 0] : (tensor<32x8xf32>) -> tensor<8x32xf32>
    %355 = stablehlo.dot_general %352, %arg16, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x32xf32>, tensor<8x32xf32>) -> tensor<4x8x8xf32>
    %cst_86 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %356 = stablehlo.reduce(%355 init: %cst_86) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %357 = stablehlo.reshape %356 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_87 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %358 = stablehlo.reduce(%357 init: %cst_87) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %359 = stablehlo.multiply %221, %355 : tensor<4x8x8xf32>
    %cst_88 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %360 = stablehlo.reduce(%359 init: %cst_88) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %361 = stablehlo.reshape %360 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %362 = stablehlo.broadcast_in_dim %225, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %363 = stablehlo.multiply %355, %362 : tensor<4x8x8xf32>
    %cst_89 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %364 = stablehlo.reduce(%361 init: %cst_89) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %365 = stablehlo.broadcast_in_dim %224, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %366 = stablehlo.multiply %363, %365 : tensor<4x8x8xf32>
    %367 = stablehlo.multiply %366, %214 : tensor<4x8x8xf32>
    %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %368 = stablehlo.reduce(%367 init: %cst_90) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %369 = stablehlo.reshape %368 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %370 = stablehlo.negate %369 : tensor<4x8x1xf32>
    %371 = stablehlo.broadcast_in_dim %217, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %372 = stablehlo.divide %363, %371 : tensor<4x8x8xf32>
    %373 = stablehlo.multiply %370, %219 : tensor<4x8x1xf32>
    %374 = stablehlo.negate %372 : tensor<4x8x8xf32>
    %cst_91 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %375 = stablehlo.reduce(%374 init: %cst_91) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %376 = stablehlo.reshape %375 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %377 = stablehlo.add %335, %372 : tensor<4x8x8xf32>
    %cst_92 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %378 = stablehlo.broadcast_in_dim %cst_92, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %379 = stablehlo.divide %373, %378 : tensor<4x8x1xf32>
    %cst_93 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %380 = stablehlo.reduce(%379 init: %cst_93) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %381 = stablehlo.broadcast_in_dim %380, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %382 = stablehlo.multiply %381, %208 : tensor<4x8x8xf32>
    %383 = stablehlo.negate %382 : tensor<4x8x8xf32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %384 = stablehlo.reduce(%383 init: %cst_94) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %385 = stablehlo.reshape %384 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %386 = stablehlo.add %377, %382 : tensor<4x8x8xf32>
    %387 = stablehlo.add %376, %385 : tensor<4x8x1xf32>
    %cst_95 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %388 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %389 = stablehlo.divide %387, %388 : tensor<4x8x1xf32>
    %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %390 = stablehlo.reduce(%389 init: %cst_96) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %391 = stablehlo.broadcast_in_dim %390, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %392 = stablehlo.add %386, %391 : tensor<4x8x8xf32>
    %393 = stablehlo.dot_general %392, %197, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %394 = stablehlo.transpose %393, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %395 = stablehlo.dot_general %392, %arg19, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %396 = stablehlo.reshape %395 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %397 = stablehlo.transpose %396, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %398 = stablehlo.dot_general %397, %191, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x4xf32>, tensor<4x2x8x8xf32>) -> tensor<4x2x4x8xf32>
    %399 = stablehlo.transpose %398, dims = [0, 1, 3, 2] : (tensor<4x2x4x8xf32>) -> tensor<4x2x8x4xf32>
    %400 = stablehlo.dot_general %397, %174, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x4xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x8xf32>
    %401 = stablehlo.broadcast_in_dim %194, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %402 = stablehlo.multiply %400, %401 : tensor<4x2x8x8xf32>
    %403 = stablehlo.multiply %402, %187 : tensor<4x2x8x8xf32>
    %cst_97 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %404 = stablehlo.reduce(%403 init: %cst_97) applies stablehlo.add across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %405 = stablehlo.reshape %404 : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %406 = stablehlo.negate %405 : tensor<4x2x8x1xf32>
    %407 = stablehlo.broadcast_in_dim %189, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %408 = stablehlo.divide %400, %407 : tensor<4x2x8x8xf32>
    %cst_98 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %409 = stablehlo.reduce(%406 init: %cst_98) applies stablehlo.add across dimensions = [3] : (tensor<4x2x8x1xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %410 = stablehlo.broadcast_in_dim %409, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x8xf32>
    %411 = stablehlo.add %408, %410 : tensor<4x2x8x8xf32>
    %412 = stablehlo.multiply %411, %187 : tensor<4x2x8x8xf32>
    %413 = call @_where_2(%180#1, %412) : (tensor<4x2x8x8xi1>, tensor<4x2x8x8xf32>) -> tensor<4x2x8x8xf32>
    %cst_99 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %414 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %415 = stablehlo.divide %413, %414 : tensor<4x2x8x8xf32>
    %416 = stablehlo.dot_general %415, %168, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x8xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x4xf32>
    %417 = stablehlo.dot_general %415, %171, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x8xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x4xf32>
    %418 = stablehlo.transpose %399, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %419 = stablehlo.reshape %418 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %420 = stablehlo.dot_general %419, %165, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %421 = stablehlo.transpose %420, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %422 = stablehlo.dot_general %419, %arg21, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %423 = stablehlo.transpose %416, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %424 = stablehlo.reshape %423 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %425 = stablehlo.dot_general %424, %165, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %426 = stablehlo.transpose %425, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %427 = stablehlo.dot_general %424, %arg18, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %428 = stablehlo.add %422, %427 : tensor<4x8x8xf32>
    %429 = stablehlo.transpose %417, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %430 = stablehlo.reshape %429 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %431 = stablehlo.dot_general %430, %165, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %432 = stablehlo.transpose %431, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %433 = stablehlo.dot_general %430, %arg20, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %434 = stablehlo.add %428, %433 : tensor<4x8x8xf32>
    %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %435 = stablehlo.reduce(%434 init: %cst_100) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %436 = stablehlo.reshape %435 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_101 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %437 = stablehlo.reduce(%436 init: %cst_101) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %438 = stablehlo.multiply %156, %434 : tensor<4x8x8xf32>
    %cst_102 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %439 = stablehlo.reduce(%438 init: %cst_102) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %440 = stablehlo.reshape %439 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %441 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %442 = stablehlo.multiply %434, %441 : tensor<4x8x8xf32>
    %cst_103 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %443 = stablehlo.reduce(%440 init: %cst_103) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %444 = stablehlo.broadcast_in_dim %159, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %445 = stablehlo.multiply %442, %444 : tensor<4x8x8xf32>
    %446 = stablehlo.multiply %445, %149 : tensor<4x8x8xf32>
    %cst_104 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %447 = stablehlo.reduce(%446 init: %cst_104) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %448 = stablehlo.reshape %447 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %449 = stablehlo.negate %448 : tensor<4x8x1xf32>
    %450 = stablehlo.broadcast_in_dim %152, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %451 = stablehlo.divide %442, %450 : tensor<4x8x8xf32>
    %452 = stablehlo.multiply %449, %154 : tensor<4x8x1xf32>
    %453 = stablehlo.negate %451 : tensor<4x8x8xf32>
    %cst_105 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %454 = stablehlo.reduce(%453 init: %cst_105) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %455 = stablehlo.reshape %454 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %456 = stablehlo.add %392, %451 : tensor<4x8x8xf32>
    %cst_106 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %457 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %458 = stablehlo.divide %452, %457 : tensor<4x8x1xf32>
    %cst_107 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %459 = stablehlo.reduce(%458 init: %cst_107) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %460 = stablehlo.broadcast_in_dim %459, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %461 = stablehlo.multiply %460, %143 : tensor<4x8x8xf32>
    %462 = stablehlo.negate %461 : tensor<4x8x8xf32>
    %cst_108 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %463 = stablehlo.reduce(%462 init: %cst_108) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %464 = stablehlo.reshape %463 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %465 = stablehlo.add %456, %461 : tensor<4x8x8xf32>
    %466 = stablehlo.add %455, %464 : tensor<4x8x1xf32>
    %cst_109 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %467 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %468 = stablehlo.divide %466, %467 : tensor<4x8x1xf32>
    %cst_110 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %469 = stablehlo.reduce(%468 init: %cst_110) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %470 = stablehlo.broadcast_in_dim %469, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %471 = stablehlo.add %465, %470 : tensor<4x8x8xf32>
    %472 = stablehlo.dot_general %471, %132, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x32xf32>) -> tensor<8x32xf32>
    %473 = stablehlo.transpose %472, dims = [1, 0] : (tensor<8x32xf32>) -> tensor<32x8xf32>
    %474 = stablehlo.dot_general %471, %arg7, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<32x8xf32>) -> tensor<4x8x32xf32>
    %475 = stablehlo.multiply %114, %474 : tensor<4x8x32xf32>
    %476 = stablehlo.multiply %474, %131 : tensor<4x8x32xf32>
    %cst_111 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %477 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %478 = stablehlo.multiply %477, %475 : tensor<4x8x32xf32>
    %479 = stablehlo.multiply %478, %127 : tensor<4x8x32xf32>
    %480 = stablehlo.multiply %479, %125 : tensor<4x8x32xf32>
    %481 = stablehlo.add %479, %480 : tensor<4x8x32xf32>
    %cst_112 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %482 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %483 = stablehlo.multiply %482, %481 : tensor<4x8x32xf32>
    %484 = stablehlo.add %476, %483 : tensor<4x8x32xf32>
    %cst_113 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %485 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<4x8x32xf32>
    %486 = stablehlo.multiply %485, %483 : tensor<4x8x32xf32>
    %487 = stablehlo.multiply %486, %119 : tensor<4x8x32xf32>
    %488 = stablehlo.add %484, %487 : tensor<4x8x32xf32>
    %489 = stablehlo.dot_general %488, %113, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x32xf32>, tensor<4x8x8xf32>) -> tensor<32x8xf32>
    %490 = stablehlo.transpose %489, dims = [1, 0] : (tensor<32x8xf32>) -> tensor<8x32xf32>
    %491 = stablehlo.dot_general %488, %arg6, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x32xf32>, tensor<8x32xf32>) -> tensor<4x8x8xf32>
    %cst_114 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %492 = stablehlo.reduce(%491 init: %cst_114) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %493 = stablehlo.reshape %492 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_115 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %494 = stablehlo.reduce(%493 init: %cst_115) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %495 = stablehlo.multiply %104, %491 : tensor<4x8x8xf32>
    %cst_116 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %496 = stablehlo.reduce(%495 init: %cst_116) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %497 = stablehlo.reshape %496 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %498 = stablehlo.broadcast_in_dim %108, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %499 = stablehlo.multiply %491, %498 : tensor<4x8x8xf32>
    %cst_117 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %500 = stablehlo.reduce(%497 init: %cst_117) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %501 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %502 = stablehlo.multiply %499, %501 : tensor<4x8x8xf32>
    %503 = stablehlo.multiply %502, %97 : tensor<4x8x8xf32>
    %cst_118 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %504 = stablehlo.reduce(%503 init: %cst_118) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %505 = stablehlo.reshape %504 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %506 = stablehlo.negate %505 : tensor<4x8x1xf32>
    %507 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %508 = stablehlo.divide %499, %507 : tensor<4x8x8xf32>
    %509 = stablehlo.multiply %506, %102 : tensor<4x8x1xf32>
    %510 = stablehlo.negate %508 : tensor<4x8x8xf32>
    %cst_119 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %511 = stablehlo.reduce(%510 init: %cst_119) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %512 = stablehlo.reshape %511 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %513 = stablehlo.add %471, %508 : tensor<4x8x8xf32>
    %cst_120 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %514 = stablehlo.broadcast_in_dim %cst_120, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %515 = stablehlo.divide %509, %514 : tensor<4x8x1xf32>
    %cst_121 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %516 = stablehlo.reduce(%515 init: %cst_121) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %517 = stablehlo.broadcast_in_dim %516, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %518 = stablehlo.multiply %517, %91 : tensor<4x8x8xf32>
    %519 = stablehlo.negate %518 : tensor<4x8x8xf32>
    %cst_122 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %520 = stablehlo.reduce(%519 init: %cst_122) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %521 = stablehlo.reshape %520 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %522 = stablehlo.add %513, %518 : tensor<4x8x8xf32>
    %523 = stablehlo.add %512, %521 : tensor<4x8x1xf32>
    %cst_123 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %524 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %525 = stablehlo.divide %523, %524 : tensor<4x8x1xf32>
    %cst_124 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %526 = stablehlo.reduce(%525 init: %cst_124) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %527 = stablehlo.broadcast_in_dim %526, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %528 = stablehlo.add %522, %527 : tensor<4x8x8xf32>
    %529 = stablehlo.dot_general %528, %80, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %530 = stablehlo.transpose %529, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %531 = stablehlo.dot_general %528, %arg9, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %532 = stablehlo.reshape %531 : (tensor<4x8x8xf32>) -> tensor<4x8x2x4xf32>
    %533 = stablehlo.transpose %532, dims = [0, 2, 1, 3] : (tensor<4x8x2x4xf32>) -> tensor<4x2x8x4xf32>
    %534 = stablehlo.dot_general %533, %74, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x4xf32>, tensor<4x2x8x8xf32>) -> tensor<4x2x4x8xf32>
    %535 = stablehlo.transpose %534, dims = [0, 1, 3, 2] : (tensor<4x2x4x8xf32>) -> tensor<4x2x8x4xf32>
    %536 = stablehlo.dot_general %533, %57, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x4xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x8xf32>
    %537 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %538 = stablehlo.multiply %536, %537 : tensor<4x2x8x8xf32>
    %539 = stablehlo.multiply %538, %70 : tensor<4x2x8x8xf32>
    %cst_125 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %540 = stablehlo.reduce(%539 init: %cst_125) applies stablehlo.add across dimensions = [3] : (tensor<4x2x8x8xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %541 = stablehlo.reshape %540 : (tensor<4x2x8xf32>) -> tensor<4x2x8x1xf32>
    %542 = stablehlo.negate %541 : tensor<4x2x8x1xf32>
    %543 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<4x2x8x1xf32>) -> tensor<4x2x8x8xf32>
    %544 = stablehlo.divide %536, %543 : tensor<4x2x8x8xf32>
    %cst_126 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %545 = stablehlo.reduce(%542 init: %cst_126) applies stablehlo.add across dimensions = [3] : (tensor<4x2x8x1xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %546 = stablehlo.broadcast_in_dim %545, dims = [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<4x2x8x8xf32>
    %547 = stablehlo.add %544, %546 : tensor<4x2x8x8xf32>
    %548 = stablehlo.multiply %547, %70 : tensor<4x2x8x8xf32>
    %549 = call @_where_2(%63#1, %548) : (tensor<4x2x8x8xi1>, tensor<4x2x8x8xf32>) -> tensor<4x2x8x8xf32>
    %cst_127 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %550 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %551 = stablehlo.divide %549, %550 : tensor<4x2x8x8xf32>
    %552 = stablehlo.dot_general %551, %51, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x8xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x4xf32>
    %553 = stablehlo.dot_general %551, %54, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<4x2x8x8xf32>, tensor<4x2x8x4xf32>) -> tensor<4x2x8x4xf32>
    %554 = stablehlo.transpose %535, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %555 = stablehlo.reshape %554 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %556 = stablehlo.dot_general %555, %48, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %557 = stablehlo.transpose %556, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %558 = stablehlo.dot_general %555, %arg11, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %559 = stablehlo.transpose %552, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %560 = stablehlo.reshape %559 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %561 = stablehlo.dot_general %560, %48, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %562 = stablehlo.transpose %561, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %563 = stablehlo.dot_general %560, %arg8, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %564 = stablehlo.add %558, %563 : tensor<4x8x8xf32>
    %565 = stablehlo.transpose %553, dims = [0, 2, 1, 3] : (tensor<4x2x8x4xf32>) -> tensor<4x8x2x4xf32>
    %566 = stablehlo.reshape %565 : (tensor<4x8x2x4xf32>) -> tensor<4x8x8xf32>
    %567 = stablehlo.dot_general %566, %48, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<8x8xf32>
    %568 = stablehlo.transpose %567, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %569 = stablehlo.dot_general %566, %arg10, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x8xf32>) -> tensor<4x8x8xf32>
    %570 = stablehlo.add %564, %569 : tensor<4x8x8xf32>
    %cst_128 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %571 = stablehlo.reduce(%570 init: %cst_128) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %572 = stablehlo.reshape %571 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_129 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %573 = stablehlo.reduce(%572 init: %cst_129) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %574 = stablehlo.multiply %39, %570 : tensor<4x8x8xf32>
    %cst_130 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %575 = stablehlo.reduce(%574 init: %cst_130) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %576 = stablehlo.reshape %575 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %577 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %578 = stablehlo.multiply %570, %577 : tensor<4x8x8xf32>
    %cst_131 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %579 = stablehlo.reduce(%576 init: %cst_131) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x1x8xf32>, tensor<f32>) -> tensor<8xf32>
    %580 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %581 = stablehlo.multiply %578, %580 : tensor<4x8x8xf32>
    %582 = stablehlo.multiply %581, %32 : tensor<4x8x8xf32>
    %cst_132 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %583 = stablehlo.reduce(%582 init: %cst_132) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %584 = stablehlo.reshape %583 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %585 = stablehlo.negate %584 : tensor<4x8x1xf32>
    %586 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %587 = stablehlo.divide %578, %586 : tensor<4x8x8xf32>
    %588 = stablehlo.multiply %585, %37 : tensor<4x8x1xf32>
    %589 = stablehlo.negate %587 : tensor<4x8x8xf32>
    %cst_133 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %590 = stablehlo.reduce(%589 init: %cst_133) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %591 = stablehlo.reshape %590 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %592 = stablehlo.add %528, %587 : tensor<4x8x8xf32>
    %cst_134 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %593 = stablehlo.broadcast_in_dim %cst_134, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %594 = stablehlo.divide %588, %593 : tensor<4x8x1xf32>
    %cst_135 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %595 = stablehlo.reduce(%594 init: %cst_135) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %596 = stablehlo.broadcast_in_dim %595, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %597 = stablehlo.multiply %596, %26 : tensor<4x8x8xf32>
    %598 = stablehlo.negate %597 : tensor<4x8x8xf32>
    %cst_136 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %599 = stablehlo.reduce(%598 init: %cst_136) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %600 = stablehlo.reshape %599 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %601 = stablehlo.add %592, %597 : tensor<4x8x8xf32>
    %602 = stablehlo.add %591, %600 : tensor<4x8x1xf32>
    %cst_137 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %603 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %604 = stablehlo.divide %602, %603 : tensor<4x8x1xf32>
    %cst_138 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %605 = stablehlo.reduce(%604 init: %cst_138) applies stablehlo.add across dimensions = [2] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x8xf32>
    %606 = stablehlo.broadcast_in_dim %605, dims = [0, 1] : (tensor<4x8xf32>) -> tensor<4x8x8xf32>
    %607 = stablehlo.add %601, %606 : tensor<4x8x8xf32>
    %cst_139 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %608 = stablehlo.reduce(%607 init: %cst_139) applies stablehlo.add across dimensions = [0] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
    %609 = stablehlo.reshape %608 : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
    %cst_140 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %610 = stablehlo.reduce(%609 init: %cst_140) applies stablehlo.add across dimensions = [0] : (tensor<1x8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
    %cst_141 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %611 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %612 = "stablehlo.scatter"(%611, %13, %610) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg26: tensor<f32> loc("scatter-add:"(#loc77)), %arg27: tensor<f32> loc("scatter-add:"(#loc77))):
      %688 = stablehlo.add %arg26, %arg27 : tensor<f32>
      stablehlo.return %688 : tensor<f32>
    }) : (tensor<8x8xf32>, tensor<8x1xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %cst_142 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %613 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %614 = "stablehlo.scatter"(%613, %5, %607) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg26: tensor<f32> loc("scatter-add:"(#loc77)), %arg27: tensor<f32> loc("scatter-add:"(#loc77))):
      %688 = stablehlo.add %arg26, %arg27 : tensor<f32>
      stablehlo.return %688 : tensor<f32>
    }) : (tensor<16x8xf32>, tensor<4x8x1xi32>, tensor<4x8x8xf32>) -> tensor<16x8xf32>
    %615 = stablehlo.add %299, %614 : tensor<16x8xf32>
    %cst_143 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %616 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %617 = stablehlo.multiply %616, %302 : tensor<8xf32>
    %618 = stablehlo.subtract %arg0, %617 : tensor<8xf32>
    %cst_144 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %619 = stablehlo.broadcast_in_dim %cst_144, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %620 = stablehlo.multiply %619, %308 : tensor<8xf32>
    %621 = stablehlo.subtract %arg1, %620 : tensor<8xf32>
    %cst_145 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %622 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %623 = stablehlo.multiply %622, %573 : tensor<8xf32>
    %624 = stablehlo.subtract %arg2, %623 : tensor<8xf32>
    %cst_146 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %625 = stablehlo.broadcast_in_dim %cst_146, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %626 = stablehlo.multiply %625, %494 : tensor<8xf32>
    %627 = stablehlo.subtract %arg3, %626 : tensor<8xf32>
    %cst_147 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %628 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %629 = stablehlo.multiply %628, %579 : tensor<8xf32>
    %630 = stablehlo.subtract %arg4, %629 : tensor<8xf32>
    %cst_148 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %631 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %632 = stablehlo.multiply %631, %500 : tensor<8xf32>
    %633 = stablehlo.subtract %arg5, %632 : tensor<8xf32>
    %cst_149 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %634 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
    %635 = stablehlo.multiply %634, %490 : tensor<8x32xf32>
    %636 = stablehlo.subtract %arg6, %635 : tensor<8x32xf32>
    %cst_150 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %637 = stablehlo.broadcast_in_dim %cst_150, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %638 = stablehlo.multiply %637, %473 : tensor<32x8xf32>
    %639 = stablehlo.subtract %arg7, %638 : tensor<32x8xf32>
    %cst_151 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %640 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %641 = stablehlo.multiply %640, %562 : tensor<8x8xf32>
    %642 = stablehlo.subtract %arg8, %641 : tensor<8x8xf32>
    %cst_152 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %643 = stablehlo.broadcast_in_dim %cst_152, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %644 = stablehlo.multiply %643, %530 : tensor<8x8xf32>
    %645 = stablehlo.subtract %arg9, %644 : tensor<8x8xf32>
    %cst_153 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %646 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %647 = stablehlo.multiply %646, %568 : tensor<8x8xf32>
    %648 = stablehlo.subtract %arg10, %647 : tensor<8x8xf32>
    %cst_154 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %649 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %650 = stablehlo.multiply %649, %557 : tensor<8x8xf32>
    %651 = stablehlo.subtract %arg11, %650 : tensor<8x8xf32>
    %cst_155 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %652 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %653 = stablehlo.multiply %652, %437 : tensor<8xf32>
    %654 = stablehlo.subtract %arg12, %653 : tensor<8xf32>
    %cst_156 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %655 = stablehlo.broadcast_in_dim %cst_156, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %656 = stablehlo.multiply %655, %358 : tensor<8xf32>
    %657 = stablehlo.subtract %arg13, %656 : tensor<8xf32>
    %cst_157 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %658 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %659 = stablehlo.multiply %658, %443 : tensor<8xf32>
    %660 = stablehlo.subtract %arg14, %659 : tensor<8xf32>
    %cst_158 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %661 = stablehlo.broadcast_in_dim %cst_158, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %662 = stablehlo.multiply %661, %364 : tensor<8xf32>
    %663 = stablehlo.subtract %arg15, %662 : tensor<8xf32>
    %cst_159 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %664 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
    %665 = stablehlo.multiply %664, %354 : tensor<8x32xf32>
    %666 = stablehlo.subtract %arg16, %665 : tensor<8x32xf32>
    %cst_160 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %667 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<32x8xf32>
    %668 = stablehlo.multiply %667, %337 : tensor<32x8xf32>
    %669 = stablehlo.subtract %arg17, %668 : tensor<32x8xf32>
    %cst_161 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %670 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %671 = stablehlo.multiply %670, %426 : tensor<8x8xf32>
    %672 = stablehlo.subtract %arg18, %671 : tensor<8x8xf32>
    %cst_162 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %673 = stablehlo.broadcast_in_dim %cst_162, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %674 = stablehlo.multiply %673, %394 : tensor<8x8xf32>
    %675 = stablehlo.subtract %arg19, %674 : tensor<8x8xf32>
    %cst_163 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %676 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %677 = stablehlo.multiply %676, %432 : tensor<8x8xf32>
    %678 = stablehlo.subtract %arg20, %677 : tensor<8x8xf32>
    %cst_164 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %679 = stablehlo.broadcast_in_dim %cst_164, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %680 = stablehlo.multiply %679, %421 : tensor<8x8xf32>
    %681 = stablehlo.subtract %arg21, %680 : tensor<8x8xf32>
    %cst_165 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %682 = stablehlo.broadcast_in_dim %cst_165, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %683 = stablehlo.multiply %682, %612 : tensor<8x8xf32>
    %684 = stablehlo.subtract %arg22, %683 : tensor<8x8xf32>
    %cst_166 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %685 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %686 = stablehlo.multiply %685, %615 : tensor<16x8xf32>
    %687 = stablehlo.subtract %arg23, %686 : tensor<16x8xf32>
    return %290, %618, %621, %624, %627, %630, %633, %636, %639, %642, %645, %648, %651, %654, %657, %660, %663, %666, %669, %672, %675, %678, %681, %684, %687 : tensor<f32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x32xf32>, tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x32xf32>, tensor<32x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<16x8xf32>
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
  func.func private @_where(%arg0: tensor<8x8xi1> loc(unknown), %arg1: tensor<4x2x8x8xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> (tensor<4x2x8x8xf32>, tensor<4x2x8x8xi1>) {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<4x2x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<4x2x8x8xi1>, tensor<4x2x8x8xf32>
    return %3, %1 : tensor<4x2x8x8xf32>, tensor<4x2x8x8xi1>
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
  func.func private @take_along_axis_0(%arg0: tensor<4x8x1x1xi32> loc(unknown), %arg1: tensor<4x8x1xf32> loc(unknown)) -> tensor<4x8x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [2], input_batching_dims = [0, 1], scatter_indices_batching_dims = [0, 1], scatter_dims_to_operand_dims = [2], index_vector_dim = 3>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32> loc("scatter-add:"(#loc77)), %arg3: tensor<f32> loc("scatter-add:"(#loc77))):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4x8x16xf32>, tensor<4x8x1x1xi32>, tensor<4x8x1xf32>) -> tensor<4x8x16xf32>
    return %1 : tensor<4x8x16xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<4x8x16xf32> loc(unknown), %arg1: tensor<4x8x1xf32> loc(unknown), %arg2: tensor<4x8x16xf32> loc(unknown)) -> tensor<4x8x16xf32> {
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
  func.func private @_where_2(%arg0: tensor<4x2x8x8xi1> loc(unknown), %arg1: tensor<4x2x8x8xf32> loc(unknown)) -> tensor<4x2x8x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<4x2x8x8xi1>, tensor<4x2x8x8xf32>
    return %1 : tensor<4x2x8x8xf32>
  }
}
