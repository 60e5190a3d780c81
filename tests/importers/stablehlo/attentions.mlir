module @jit_attentions attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x4x8xf32> loc("q"), %arg1: tensor<2x6x2x8xf32> loc("k"), %arg2: tensor<2x6x2x8xf32> loc("v"), %arg3: tensor<2x1x6x6xi1> loc("mask"), %arg4: tensor<2x4x6x6xf32> loc("bias")) -> (tensor<2x6x4x8xf32> {jax.result_info = "result['bfloat16']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['biased']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['causal']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['groups']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['masked']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['of_one_head']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['one_head']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['repeated']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['window']"}) {
    %c = stablehlo.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
    %c_0 = stablehlo.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x6x4x8xf32>
    %2 = stablehlo.reshape %1 : (tensor<2x6x4x8xf32>) -> tensor<2x6x2x2x8xf32>
    %3 = stablehlo.dot_general %2, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x2x8xf32>, tensor<2x6x2x8xf32>) -> tensor<2x2x6x2x6xf32>
    %cst_1 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x2x6x2x6xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<2x2x6x2x6xf32>
    %c_2 = stablehlo.constant dense<true> : tensor<i1>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i1>) -> tensor<2x2x6x6xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %7 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %8 = call @tril(%7) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %9 = stablehlo.broadcast_in_dim %8, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<1x1x6x6xi1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<1x1x6x6xi1>) -> tensor<2x2x6x6xi1>
    %11 = stablehlo.and %6, %10 : tensor<2x2x6x6xi1>
    %cst_4 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %12 = call @_where(%11, %5, %cst_4) : (tensor<2x2x6x6xi1>, tensor<2x2x6x2x6xf32>, tensor<f32>) -> tensor<2x2x2x6x6xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %13 = stablehlo.reduce(%12 init: %cst_5) applies stablehlo.maximum across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x2x2x6xf32>
    %15 = stablehlo.maximum %14, %13 : tensor<2x2x2x6xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %18 = stablehlo.subtract %12, %17 : tensor<2x2x2x6x6xf32>
    %19 = stablehlo.exponential %18 : tensor<2x2x2x6x6xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%19 init: %cst_7) applies stablehlo.add across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %23 = stablehlo.divide %19, %22 : tensor<2x2x2x6x6xf32>
    %24 = stablehlo.dot_general %arg2, %23, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x8xf32>, tensor<2x2x2x6x6xf32>) -> tensor<2x2x8x2x6xf32>
    %25 = stablehlo.transpose %24, dims = [3, 0, 4, 1, 2] : (tensor<2x2x8x2x6xf32>) -> tensor<2x2x6x2x8xf32>
    %26 = stablehlo.transpose %25, dims = [1, 2, 3, 0, 4] : (tensor<2x2x6x2x8xf32>) -> tensor<2x6x2x2x8xf32>
    %27 = stablehlo.reshape %26 : (tensor<2x6x2x2x8xf32>) -> tensor<2x6x4x8xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %29 = stablehlo.add %arg0, %28 : tensor<2x6x4x8xf32>
    %30 = stablehlo.reshape %29 : (tensor<2x6x4x8xf32>) -> tensor<2x6x2x2x8xf32>
    %31 = stablehlo.dot_general %30, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x2x8xf32>, tensor<2x6x2x8xf32>) -> tensor<2x2x6x2x6xf32>
    %cst_9 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x2x6x2x6xf32>
    %33 = stablehlo.multiply %31, %32 : tensor<2x2x6x2x6xf32>
    %c_10 = stablehlo.constant dense<true> : tensor<i1>
    %34 = stablehlo.broadcast_in_dim %c_10, dims = [] : (tensor<i1>) -> tensor<2x2x6x6xi1>
    %c_11 = stablehlo.constant dense<true> : tensor<i1>
    %35 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %36 = call @tril(%35) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %37 = stablehlo.broadcast_in_dim %36, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<1x1x6x6xi1>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<1x1x6x6xi1>) -> tensor<2x2x6x6xi1>
    %39 = stablehlo.and %34, %38 : tensor<2x2x6x6xi1>
    %40 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %41 = stablehlo.broadcast_in_dim %c_0, dims = [1] : (tensor<6xi32>) -> tensor<1x6xi32>
    %c_12 = stablehlo.constant dense<2> : tensor<i32>
    %42 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i32>) -> tensor<1x6xi32>
    %43 = stablehlo.add %41, %42 : tensor<1x6xi32>
    %44 = stablehlo.broadcast_in_dim %40, dims = [0, 1] : (tensor<6x1xi32>) -> tensor<6x6xi32>
    %45 = stablehlo.broadcast_in_dim %43, dims = [0, 1] : (tensor<1x6xi32>) -> tensor<6x6xi32>
    %46 = stablehlo.compare LE, %44, %45, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %47 = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %48 = stablehlo.broadcast_in_dim %c_0, dims = [1] : (tensor<6xi32>) -> tensor<1x6xi32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %49 = stablehlo.broadcast_in_dim %c_13, dims = [] : (tensor<i32>) -> tensor<1x6xi32>
    %50 = stablehlo.subtract %48, %49 : tensor<1x6xi32>
    %51 = stablehlo.broadcast_in_dim %47, dims = [0, 1] : (tensor<6x1xi32>) -> tensor<6x6xi32>
    %52 = stablehlo.broadcast_in_dim %50, dims = [0, 1] : (tensor<1x6xi32>) -> tensor<6x6xi32>
    %53 = stablehlo.compare GE, %51, %52, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %54 = stablehlo.and %53, %46 : tensor<6x6xi1>
    %55 = stablehlo.broadcast_in_dim %54, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<1x1x6x6xi1>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<1x1x6x6xi1>) -> tensor<2x2x6x6xi1>
    %57 = stablehlo.and %39, %56 : tensor<2x2x6x6xi1>
    %cst_14 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %58 = call @_where(%57, %33, %cst_14) : (tensor<2x2x6x6xi1>, tensor<2x2x6x2x6xf32>, tensor<f32>) -> tensor<2x2x2x6x6xf32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_15) applies stablehlo.maximum across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %cst_16 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x2x2x6xf32>
    %61 = stablehlo.maximum %60, %59 : tensor<2x2x2x6xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %64 = stablehlo.subtract %58, %63 : tensor<2x2x2x6x6xf32>
    %65 = stablehlo.exponential %64 : tensor<2x2x2x6x6xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_17) applies stablehlo.add across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %69 = stablehlo.divide %65, %68 : tensor<2x2x2x6x6xf32>
    %70 = stablehlo.dot_general %arg2, %69, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x8xf32>, tensor<2x2x2x6x6xf32>) -> tensor<2x2x8x2x6xf32>
    %71 = stablehlo.transpose %70, dims = [3, 0, 4, 1, 2] : (tensor<2x2x8x2x6xf32>) -> tensor<2x2x6x2x8xf32>
    %72 = stablehlo.transpose %71, dims = [1, 2, 3, 0, 4] : (tensor<2x2x6x2x8xf32>) -> tensor<2x6x2x2x8xf32>
    %73 = stablehlo.reshape %72 : (tensor<2x6x2x2x8xf32>) -> tensor<2x6x4x8xf32>
    %cst_18 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %75 = stablehlo.add %arg0, %74 : tensor<2x6x4x8xf32>
    %76 = stablehlo.reshape %75 : (tensor<2x6x4x8xf32>) -> tensor<2x6x2x2x8xf32>
    %77 = stablehlo.broadcast_in_dim %arg3, dims = [0, 1, 3, 4] : (tensor<2x1x6x6xi1>) -> tensor<2x1x1x6x6xi1>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2, 3, 4] : (tensor<2x1x1x6x6xi1>) -> tensor<2x1x2x6x6xi1>
    %79 = stablehlo.dot_general %76, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x2x8xf32>, tensor<2x6x2x8xf32>) -> tensor<2x2x6x2x6xf32>
    %cst_19 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %80 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x2x6x2x6xf32>
    %81 = stablehlo.multiply %79, %80 : tensor<2x2x6x2x6xf32>
    %c_20 = stablehlo.constant dense<true> : tensor<i1>
    %82 = stablehlo.broadcast_in_dim %c_20, dims = [] : (tensor<i1>) -> tensor<2x2x6x6xi1>
    %83 = stablehlo.broadcast_in_dim %82, dims = [1, 2, 3, 4] : (tensor<2x2x6x6xi1>) -> tensor<1x2x2x6x6xi1>
    %84 = stablehlo.transpose %78, dims = [2, 0, 1, 3, 4] : (tensor<2x1x2x6x6xi1>) -> tensor<2x2x1x6x6xi1>
    %85 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x6x6xi1>) -> tensor<2x2x2x6x6xi1>
    %86 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2, 3, 4] : (tensor<2x2x1x6x6xi1>) -> tensor<2x2x2x6x6xi1>
    %87 = stablehlo.and %85, %86 : tensor<2x2x2x6x6xi1>
    %cst_21 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %88 = call @_where_0(%87, %81, %cst_21) : (tensor<2x2x2x6x6xi1>, tensor<2x2x6x2x6xf32>, tensor<f32>) -> tensor<2x2x2x6x6xf32>
    %cst_22 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %89 = stablehlo.reduce(%88 init: %cst_22) applies stablehlo.maximum across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %cst_23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x2x2x6xf32>
    %91 = stablehlo.maximum %90, %89 : tensor<2x2x2x6xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %94 = stablehlo.subtract %88, %93 : tensor<2x2x2x6x6xf32>
    %95 = stablehlo.exponential %94 : tensor<2x2x2x6x6xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %96 = stablehlo.reduce(%95 init: %cst_24) applies stablehlo.add across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %99 = stablehlo.divide %95, %98 : tensor<2x2x2x6x6xf32>
    %100 = stablehlo.dot_general %arg2, %99, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x8xf32>, tensor<2x2x2x6x6xf32>) -> tensor<2x2x8x2x6xf32>
    %101 = stablehlo.transpose %100, dims = [3, 0, 4, 1, 2] : (tensor<2x2x8x2x6xf32>) -> tensor<2x2x6x2x8xf32>
    %102 = stablehlo.transpose %101, dims = [1, 2, 3, 0, 4] : (tensor<2x2x6x2x8xf32>) -> tensor<2x6x2x2x8xf32>
    %103 = stablehlo.reshape %102 : (tensor<2x6x2x2x8xf32>) -> tensor<2x6x4x8xf32>
    %cst_25 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %105 = stablehlo.add %arg0, %104 : tensor<2x6x4x8xf32>
    %106 = stablehlo.reshape %105 : (tensor<2x6x4x8xf32>) -> tensor<2x6x2x2x8xf32>
    %107 = stablehlo.reshape %arg4 : (tensor<2x4x6x6xf32>) -> tensor<2x2x2x6x6xf32>
    %108 = stablehlo.dot_general %106, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x2x8xf32>, tensor<2x6x2x8xf32>) -> tensor<2x2x6x2x6xf32>
    %cst_26 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2x2x6x2x6xf32>
    %110 = stablehlo.multiply %108, %109 : tensor<2x2x6x2x6xf32>
    %111 = stablehlo.transpose %110, dims = [3, 0, 1, 2, 4] : (tensor<2x2x6x2x6xf32>) -> tensor<2x2x2x6x6xf32>
    %112 = stablehlo.transpose %107, dims = [2, 0, 1, 3, 4] : (tensor<2x2x2x6x6xf32>) -> tensor<2x2x2x6x6xf32>
    %113 = stablehlo.add %111, %112 : tensor<2x2x2x6x6xf32>
    %cst_27 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %114 = stablehlo.reduce(%113 init: %cst_27) applies stablehlo.maximum across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %cst_28 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x2x2x6xf32>
    %116 = stablehlo.maximum %115, %114 : tensor<2x2x2x6xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %119 = stablehlo.subtract %113, %118 : tensor<2x2x2x6x6xf32>
    %120 = stablehlo.exponential %119 : tensor<2x2x2x6x6xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %121 = stablehlo.reduce(%120 init: %cst_29) applies stablehlo.add across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %122 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %124 = stablehlo.divide %120, %123 : tensor<2x2x2x6x6xf32>
    %125 = stablehlo.dot_general %arg2, %124, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x8xf32>, tensor<2x2x2x6x6xf32>) -> tensor<2x2x8x2x6xf32>
    %126 = stablehlo.transpose %125, dims = [3, 0, 4, 1, 2] : (tensor<2x2x8x2x6xf32>) -> tensor<2x2x6x2x8xf32>
    %127 = stablehlo.transpose %126, dims = [1, 2, 3, 0, 4] : (tensor<2x2x6x2x8xf32>) -> tensor<2x6x2x2x8xf32>
    %128 = stablehlo.reshape %127 : (tensor<2x6x2x2x8xf32>) -> tensor<2x6x4x8xf32>
    %cst_30 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %129 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %130 = stablehlo.add %arg0, %129 : tensor<2x6x4x8xf32>
    %131 = stablehlo.slice %arg1 [0:2, 0:6, 0:1, 0:8] : (tensor<2x6x2x8xf32>) -> tensor<2x6x1x8xf32>
    %132 = stablehlo.slice %arg2 [0:2, 0:6, 0:1, 0:8] : (tensor<2x6x2x8xf32>) -> tensor<2x6x1x8xf32>
    %133 = stablehlo.reshape %130 : (tensor<2x6x4x8xf32>) -> tensor<2x6x1x4x8xf32>
    %134 = stablehlo.dot_general %133, %131, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x1x4x8xf32>, tensor<2x6x1x8xf32>) -> tensor<2x1x6x4x6xf32>
    %cst_31 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %135 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x1x6x4x6xf32>
    %136 = stablehlo.multiply %134, %135 : tensor<2x1x6x4x6xf32>
    %c_32 = stablehlo.constant dense<true> : tensor<i1>
    %137 = stablehlo.broadcast_in_dim %c_32, dims = [] : (tensor<i1>) -> tensor<2x1x6x6xi1>
    %c_33 = stablehlo.constant dense<true> : tensor<i1>
    %138 = stablehlo.broadcast_in_dim %c_33, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %139 = call @tril_1(%138) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %140 = stablehlo.broadcast_in_dim %139, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<1x1x6x6xi1>
    %141 = stablehlo.broadcast_in_dim %140, dims = [0, 1, 2, 3] : (tensor<1x1x6x6xi1>) -> tensor<2x1x6x6xi1>
    %142 = stablehlo.and %137, %141 : tensor<2x1x6x6xi1>
    %cst_34 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %143 = call @_where_2(%142, %136, %cst_34) : (tensor<2x1x6x6xi1>, tensor<2x1x6x4x6xf32>, tensor<f32>) -> tensor<4x2x1x6x6xf32>
    %cst_35 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %144 = stablehlo.reduce(%143 init: %cst_35) applies stablehlo.maximum across dimensions = [4] : (tensor<4x2x1x6x6xf32>, tensor<f32>) -> tensor<4x2x1x6xf32>
    %cst_36 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<4x2x1x6xf32>
    %146 = stablehlo.maximum %145, %144 : tensor<4x2x1x6xf32>
    %147 = stablehlo.broadcast_in_dim %146, dims = [0, 1, 2, 3] : (tensor<4x2x1x6xf32>) -> tensor<4x2x1x6x1xf32>
    %148 = stablehlo.broadcast_in_dim %147, dims = [0, 1, 2, 3, 4] : (tensor<4x2x1x6x1xf32>) -> tensor<4x2x1x6x6xf32>
    %149 = stablehlo.subtract %143, %148 : tensor<4x2x1x6x6xf32>
    %150 = stablehlo.exponential %149 : tensor<4x2x1x6x6xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %151 = stablehlo.reduce(%150 init: %cst_37) applies stablehlo.add across dimensions = [4] : (tensor<4x2x1x6x6xf32>, tensor<f32>) -> tensor<4x2x1x6xf32>
    %152 = stablehlo.broadcast_in_dim %151, dims = [0, 1, 2, 3] : (tensor<4x2x1x6xf32>) -> tensor<4x2x1x6x1xf32>
    %153 = stablehlo.broadcast_in_dim %152, dims = [0, 1, 2, 3, 4] : (tensor<4x2x1x6x1xf32>) -> tensor<4x2x1x6x6xf32>
    %154 = stablehlo.divide %150, %153 : tensor<4x2x1x6x6xf32>
    %155 = stablehlo.dot_general %132, %154, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x1x8xf32>, tensor<4x2x1x6x6xf32>) -> tensor<2x1x8x4x6xf32>
    %156 = stablehlo.transpose %155, dims = [3, 0, 4, 1, 2] : (tensor<2x1x8x4x6xf32>) -> tensor<4x2x6x1x8xf32>
    %157 = stablehlo.transpose %156, dims = [1, 2, 3, 0, 4] : (tensor<4x2x6x1x8xf32>) -> tensor<2x6x1x4x8xf32>
    %158 = stablehlo.reshape %157 : (tensor<2x6x1x4x8xf32>) -> tensor<2x6x4x8xf32>
    %cst_38 = stablehlo.constant dense<5.000000e+00> : tensor<f32>
    %159 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %160 = stablehlo.add %arg0, %159 : tensor<2x6x4x8xf32>
    %161 = stablehlo.convert %160 : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x8xbf16>
    %162 = stablehlo.convert %arg1 : (tensor<2x6x2x8xf32>) -> tensor<2x6x2x8xbf16>
    %163 = stablehlo.convert %arg2 : (tensor<2x6x2x8xf32>) -> tensor<2x6x2x8xbf16>
    %164 = stablehlo.reshape %161 : (tensor<2x6x4x8xbf16>) -> tensor<2x6x2x2x8xbf16>
    %165 = stablehlo.dot_general %164, %162, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x6x2x2x8xbf16>, tensor<2x6x2x8xbf16>) -> tensor<2x2x6x2x6xf32>
    %cst_39 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %166 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x2x6x2x6xf32>
    %167 = stablehlo.multiply %165, %166 : tensor<2x2x6x2x6xf32>
    %c_40 = stablehlo.constant dense<true> : tensor<i1>
    %168 = stablehlo.broadcast_in_dim %c_40, dims = [] : (tensor<i1>) -> tensor<2x2x6x6xi1>
    %c_41 = stablehlo.constant dense<true> : tensor<i1>
    %169 = stablehlo.broadcast_in_dim %c_41, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %170 = call @tril(%169) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %171 = stablehlo.broadcast_in_dim %170, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<1x1x6x6xi1>
    %172 = stablehlo.broadcast_in_dim %171, dims = [0, 1, 2, 3] : (tensor<1x1x6x6xi1>) -> tensor<2x2x6x6xi1>
    %173 = stablehlo.and %168, %172 : tensor<2x2x6x6xi1>
    %cst_42 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %174 = call @_where(%173, %167, %cst_42) : (tensor<2x2x6x6xi1>, tensor<2x2x6x2x6xf32>, tensor<f32>) -> tensor<2x2x2x6x6xf32>
    %cst_43 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %175 = stablehlo.reduce(%174 init: %cst_43) applies stablehlo.maximum across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %cst_44 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %176 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<2x2x2x6xf32>
    %177 = stablehlo.maximum %176, %175 : tensor<2x2x2x6xf32>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %179 = stablehlo.broadcast_in_dim %178, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %180 = stablehlo.subtract %174, %179 : tensor<2x2x2x6x6xf32>
    %181 = stablehlo.exponential %180 : tensor<2x2x2x6x6xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %182 = stablehlo.reduce(%181 init: %cst_45) applies stablehlo.add across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %183 = stablehlo.broadcast_in_dim %182, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %185 = stablehlo.divide %181, %184 : tensor<2x2x2x6x6xf32>
    %186 = stablehlo.convert %185 : (tensor<2x2x2x6x6xf32>) -> tensor<2x2x2x6x6xbf16>
    %187 = stablehlo.dot_general %163, %186, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x8xbf16>, tensor<2x2x2x6x6xbf16>) -> tensor<2x2x8x2x6xbf16>
    %188 = stablehlo.transpose %187, dims = [3, 0, 4, 1, 2] : (tensor<2x2x8x2x6xbf16>) -> tensor<2x2x6x2x8xbf16>
    %189 = stablehlo.transpose %188, dims = [1, 2, 3, 0, 4] : (tensor<2x2x6x2x8xbf16>) -> tensor<2x6x2x2x8xbf16>
    %190 = stablehlo.reshape %189 : (tensor<2x6x2x2x8xbf16>) -> tensor<2x6x4x8xbf16>
    %191 = stablehlo.convert %190 : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x8xf32>
    %cst_46 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %192 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %193 = stablehlo.add %arg0, %192 : tensor<2x6x4x8xf32>
    %194 = stablehlo.reshape %193 : (tensor<2x6x4x8xf32>) -> tensor<2x6x2x2x8xf32>
    %195 = stablehlo.dot_general %arg1, %194, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x8xf32>, tensor<2x6x2x2x8xf32>) -> tensor<2x2x6x6x2xf32>
    %196 = stablehlo.transpose %195, dims = [0, 1, 4, 3, 2] : (tensor<2x2x6x6x2xf32>) -> tensor<2x2x2x6x6xf32>
    %cst_47 = stablehlo.constant dense<2.82842708> : tensor<f32>
    %197 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<2x2x2x6x6xf32>
    %198 = stablehlo.divide %196, %197 : tensor<2x2x2x6x6xf32>
    %c_48 = stablehlo.constant dense<true> : tensor<i1>
    %199 = stablehlo.broadcast_in_dim %c_48, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %200 = call @tril_3(%199) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %cst_49 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %201 = call @_where_4(%200, %198, %cst_49) : (tensor<6x6xi1>, tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6x6xf32>
    %cst_50 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %202 = stablehlo.reduce(%201 init: %cst_50) applies stablehlo.maximum across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %cst_51 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %203 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<2x2x2x6xf32>
    %204 = stablehlo.maximum %203, %202 : tensor<2x2x2x6xf32>
    %205 = stablehlo.broadcast_in_dim %204, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %206 = stablehlo.broadcast_in_dim %205, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %207 = stablehlo.subtract %201, %206 : tensor<2x2x2x6x6xf32>
    %208 = stablehlo.exponential %207 : tensor<2x2x2x6x6xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %209 = stablehlo.reduce(%208 init: %cst_52) applies stablehlo.add across dimensions = [4] : (tensor<2x2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x2x6xf32>
    %210 = stablehlo.broadcast_in_dim %209, dims = [0, 1, 2, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6x1xf32>
    %211 = stablehlo.broadcast_in_dim %210, dims = [0, 1, 2, 3, 4] : (tensor<2x2x2x6x1xf32>) -> tensor<2x2x2x6x6xf32>
    %212 = stablehlo.divide %208, %211 : tensor<2x2x2x6x6xf32>
    %213 = stablehlo.dot_general %arg2, %212, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x8xf32>, tensor<2x2x2x6x6xf32>) -> tensor<2x2x8x2x6xf32>
    %214 = stablehlo.transpose %213, dims = [0, 4, 1, 3, 2] : (tensor<2x2x8x2x6xf32>) -> tensor<2x6x2x2x8xf32>
    %215 = stablehlo.reshape %214 : (tensor<2x6x2x2x8xf32>) -> tensor<2x6x4x8xf32>
    %cst_53 = stablehlo.constant dense<7.000000e+00> : tensor<f32>
    %216 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %217 = stablehlo.add %arg0, %216 : tensor<2x6x4x8xf32>
    %218 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1, 2, 4] : (tensor<2x6x2x8xf32>) -> tensor<2x6x2x2x8xf32>
    %219 = stablehlo.reshape %218 : (tensor<2x6x2x2x8xf32>) -> tensor<2x6x4x8xf32>
    %220 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1, 2, 4] : (tensor<2x6x2x8xf32>) -> tensor<2x6x2x2x8xf32>
    %221 = stablehlo.reshape %220 : (tensor<2x6x2x2x8xf32>) -> tensor<2x6x4x8xf32>
    %222 = stablehlo.dot_general %217, %219, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>) -> tensor<2x4x6x6xf32>
    %cst_54 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %223 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %224 = stablehlo.multiply %222, %223 : tensor<2x4x6x6xf32>
    %c_55 = stablehlo.constant dense<true> : tensor<i1>
    %225 = stablehlo.broadcast_in_dim %c_55, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %226 = call @tril_3(%225) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %cst_56 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %227 = call @_where_5(%226, %224, %cst_56) : (tensor<6x6xi1>, tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6x6xf32>
    %cst_57 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %228 = stablehlo.reduce(%227 init: %cst_57) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %cst_58 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %229 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<2x4x6xf32>
    %230 = stablehlo.maximum %229, %228 : tensor<2x4x6xf32>
    %231 = stablehlo.broadcast_in_dim %230, dims = [0, 1, 2] : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %232 = stablehlo.broadcast_in_dim %231, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %233 = stablehlo.subtract %227, %232 : tensor<2x4x6x6xf32>
    %234 = stablehlo.exponential %233 : tensor<2x4x6x6xf32>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %235 = stablehlo.reduce(%234 init: %cst_59) applies stablehlo.add across dimensions = [3] : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %236 = stablehlo.broadcast_in_dim %235, dims = [0, 1, 2] : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %237 = stablehlo.broadcast_in_dim %236, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %238 = stablehlo.divide %234, %237 : tensor<2x4x6x6xf32>
    %239 = stablehlo.dot_general %221, %238, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4x8xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x8x6xf32>
    %240 = stablehlo.transpose %239, dims = [0, 3, 1, 2] : (tensor<2x4x8x6xf32>) -> tensor<2x6x4x8xf32>
    %cst_60 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %241 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %242 = stablehlo.add %arg0, %241 : tensor<2x6x4x8xf32>
    %243 = stablehlo.slice %arg1 [0:2, 0:6, 0:1, 0:8] : (tensor<2x6x2x8xf32>) -> tensor<2x6x1x8xf32>
    %244 = stablehlo.reshape %243 : (tensor<2x6x1x8xf32>) -> tensor<2x6x8xf32>
    %245 = stablehlo.dot_general %244, %242, batching_dims = [0] x [0], contracting_dims = [2] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<2x6x4x8xf32>) -> tensor<2x6x6x4xf32>
    %246 = stablehlo.transpose %245, dims = [0, 3, 2, 1] : (tensor<2x6x6x4xf32>) -> tensor<2x4x6x6xf32>
    %cst_61 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %247 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %248 = stablehlo.multiply %246, %247 : tensor<2x4x6x6xf32>
    %c_62 = stablehlo.constant dense<true> : tensor<i1>
    %249 = stablehlo.broadcast_in_dim %c_62, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %250 = call @tril_3(%249) : (tensor<6x6xi1>) -> tensor<6x6xi1>
    %cst_63 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %251 = call @_where_5(%250, %248, %cst_63) : (tensor<6x6xi1>, tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6x6xf32>
    %cst_64 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %252 = stablehlo.reduce(%251 init: %cst_64) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %cst_65 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %253 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<2x4x6xf32>
    %254 = stablehlo.maximum %253, %252 : tensor<2x4x6xf32>
    %255 = stablehlo.broadcast_in_dim %254, dims = [0, 1, 2] : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %256 = stablehlo.broadcast_in_dim %255, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %257 = stablehlo.subtract %251, %256 : tensor<2x4x6x6xf32>
    %258 = stablehlo.exponential %257 : tensor<2x4x6x6xf32>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %259 = stablehlo.reduce(%258 init: %cst_66) applies stablehlo.add across dimensions = [3] : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %260 = stablehlo.broadcast_in_dim %259, dims = [0, 1, 2] : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %261 = stablehlo.broadcast_in_dim %260, dims = [0, 1, 2, 3] : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %262 = stablehlo.divide %258, %261 : tensor<2x4x6x6xf32>
    %263 = stablehlo.slice %arg2 [0:2, 0:6, 0:1, 0:8] : (tensor<2x6x2x8xf32>) -> tensor<2x6x1x8xf32>
    %264 = stablehlo.reshape %263 : (tensor<2x6x1x8xf32>) -> tensor<2x6x8xf32>
    %265 = stablehlo.dot_general %264, %262, batching_dims = [0] x [0], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<2x4x6x6xf32>) -> tensor<2x8x4x6xf32>
    %266 = stablehlo.transpose %265, dims = [0, 3, 2, 1] : (tensor<2x8x4x6xf32>) -> tensor<2x6x4x8xf32>
    return %191, %128, %27, %215, %103, %266, %158, %240, %73 : tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>
  }
  func.func private @tril(%arg0: tensor<6x6xi1> loc(unknown)) -> tensor<6x6xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<6x6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x6xi32>
    %2 = stablehlo.add %0, %1 : tensor<6x6xi32>
    %3 = stablehlo.iota dim = 1 : tensor<6x6xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<6x6xi1>, tensor<6x6xi1>
    return %6 : tensor<6x6xi1>
  }
  func.func private @_where(%arg0: tensor<2x2x6x6xi1> loc(unknown), %arg1: tensor<2x2x6x2x6xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<2x2x2x6x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x2x6x6xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<2x2x6x6xi1>) -> tensor<2x2x2x6x6xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<2x2x6x6xf32>) -> tensor<2x2x2x6x6xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<2x2x6x2x6xf32>) -> tensor<2x2x2x6x6xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<2x2x2x6x6xi1>, tensor<2x2x2x6x6xf32>
    return %4 : tensor<2x2x2x6x6xf32>
  }
  func.func private @_where_0(%arg0: tensor<2x2x2x6x6xi1> loc(unknown), %arg1: tensor<2x2x6x2x6xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<2x2x2x6x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x2x6x6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<2x2x6x6xf32>) -> tensor<2x2x2x6x6xf32>
    %2 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<2x2x6x2x6xf32>) -> tensor<2x2x2x6x6xf32>
    %3 = stablehlo.select %arg0, %2, %1 : tensor<2x2x2x6x6xi1>, tensor<2x2x2x6x6xf32>
    return %3 : tensor<2x2x2x6x6xf32>
  }
  func.func private @tril_1(%arg0: tensor<6x6xi1> loc(unknown)) -> tensor<6x6xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<6x6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x6xi32>
    %2 = stablehlo.add %0, %1 : tensor<6x6xi32>
    %3 = stablehlo.iota dim = 1 : tensor<6x6xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<6x6xi1>, tensor<6x6xi1>
    return %6 : tensor<6x6xi1>
  }
  func.func private @_where_2(%arg0: tensor<2x1x6x6xi1> loc(unknown), %arg1: tensor<2x1x6x4x6xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<4x2x1x6x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x1x6x6xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<2x1x6x6xi1>) -> tensor<4x2x1x6x6xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<2x1x6x6xf32>) -> tensor<4x2x1x6x6xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<2x1x6x4x6xf32>) -> tensor<4x2x1x6x6xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<4x2x1x6x6xi1>, tensor<4x2x1x6x6xf32>
    return %4 : tensor<4x2x1x6x6xf32>
  }
  func.func private @tril_3(%arg0: tensor<6x6xi1> loc(unknown)) -> tensor<6x6xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<6x6xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x6xi32>
    %2 = stablehlo.add %0, %1 : tensor<6x6xi32>
    %3 = stablehlo.iota dim = 1 : tensor<6x6xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<6x6xi1>, tensor<6x6xi1>
    return %6 : tensor<6x6xi1>
  }
  func.func private @_where_4(%arg0: tensor<6x6xi1> loc(unknown), %arg1: tensor<2x2x2x6x6xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<2x2x2x6x6xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3, 4] : (tensor<6x6xi1>) -> tensor<2x2x2x6x6xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x2x6x6xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x2x6x6xi1>, tensor<2x2x2x6x6xf32>
    return %3 : tensor<2x2x2x6x6xf32>
  }
  func.func private @_where_5(%arg0: tensor<6x6xi1> loc(unknown), %arg1: tensor<2x4x6x6xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<2x4x6x6xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<6x6xi1>) -> tensor<2x4x6x6xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>
    return %3 : tensor<2x4x6x6xf32>
  }
}
