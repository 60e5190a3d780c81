module @jit_rotations attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x4x8xf32> loc("x"), %arg1: tensor<2x6xi32> loc("positions")) -> (tensor<2x6x4x8xf32> {jax.result_info = "result['bfloat16']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['given_apart']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['given_half_negated']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['given_neighbours']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['known_apart']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['known_half_negated']"}, tensor<2x6x4x8xf32> {jax.result_info = "result['known_neighbours']"}) {
    %0 = stablehlo.iota dim = 0 : tensor<4xi32>
    %1 = stablehlo.negate %0 : tensor<4xi32>
    %2 = stablehlo.convert %1 : (tensor<4xi32>) -> tensor<4xf32>
    %cst = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %4 = stablehlo.divide %2, %3 : tensor<4xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %6 = stablehlo.power %5, %4 : tensor<4xf32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [0, 1] : (tensor<2x6xi32>) -> tensor<2x6x1x1xi32>
    %8 = stablehlo.convert %7 : (tensor<2x6x1x1xi32>) -> tensor<2x6x1x1xf32>
    %9 = stablehlo.broadcast_in_dim %6, dims = [3] : (tensor<4xf32>) -> tensor<1x1x1x4xf32>
    %10 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<2x6x1x1xf32>) -> tensor<2x6x1x4xf32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xf32>) -> tensor<2x6x1x4xf32>
    %12 = stablehlo.multiply %10, %11 : tensor<2x6x1x4xf32>
    %13 = stablehlo.iota dim = 0 : tensor<6xi32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<6xi32>) -> tensor<6x1x1xi32>
    %15 = stablehlo.convert %14 : (tensor<6x1x1xi32>) -> tensor<6x1x1xf32>
    %16 = stablehlo.broadcast_in_dim %6, dims = [2] : (tensor<4xf32>) -> tensor<1x1x4xf32>
    %17 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<6x1x1xf32>) -> tensor<6x1x4xf32>
    %18 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<1x1x4xf32>) -> tensor<6x1x4xf32>
    %19 = stablehlo.multiply %17, %18 : tensor<6x1x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %21 = stablehlo.add %arg0, %20 : tensor<2x6x4x8xf32>
    %22 = stablehlo.cosine %12 : tensor<2x6x1x4xf32>
    %23 = stablehlo.sine %12 : tensor<2x6x1x4xf32>
    %24 = stablehlo.slice %21 [0:2, 0:6, 0:4, 0:4] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %25 = stablehlo.slice %21 [0:2, 0:6, 0:4, 4:8] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %26 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3] : (tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %27 = stablehlo.multiply %24, %26 : tensor<2x6x4x4xf32>
    %28 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %29 = stablehlo.multiply %25, %28 : tensor<2x6x4x4xf32>
    %30 = stablehlo.subtract %27, %29 : tensor<2x6x4x4xf32>
    %31 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3] : (tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %32 = stablehlo.multiply %25, %31 : tensor<2x6x4x4xf32>
    %33 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %34 = stablehlo.multiply %24, %33 : tensor<2x6x4x4xf32>
    %35 = stablehlo.add %32, %34 : tensor<2x6x4x4xf32>
    %36 = stablehlo.concatenate %30, %35, dim = 3 : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>) -> tensor<2x6x4x8xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %38 = stablehlo.add %arg0, %37 : tensor<2x6x4x8xf32>
    %39 = stablehlo.cosine %12 : tensor<2x6x1x4xf32>
    %40 = stablehlo.sine %12 : tensor<2x6x1x4xf32>
    %41 = stablehlo.concatenate %39, %39, dim = 3 : (tensor<2x6x1x4xf32>, tensor<2x6x1x4xf32>) -> tensor<2x6x1x8xf32>
    %42 = stablehlo.concatenate %40, %40, dim = 3 : (tensor<2x6x1x4xf32>, tensor<2x6x1x4xf32>) -> tensor<2x6x1x8xf32>
    %43 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<2x6x1x8xf32>) -> tensor<2x6x4x8xf32>
    %44 = stablehlo.multiply %38, %43 : tensor<2x6x4x8xf32>
    %45 = stablehlo.slice %38 [0:2, 0:6, 0:4, 4:8] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %46 = stablehlo.negate %45 : tensor<2x6x4x4xf32>
    %47 = stablehlo.slice %38 [0:2, 0:6, 0:4, 0:4] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %48 = stablehlo.concatenate %46, %47, dim = 3 : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>) -> tensor<2x6x4x8xf32>
    %49 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<2x6x1x8xf32>) -> tensor<2x6x4x8xf32>
    %50 = stablehlo.multiply %48, %49 : tensor<2x6x4x8xf32>
    %51 = stablehlo.add %44, %50 : tensor<2x6x4x8xf32>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %52 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %53 = stablehlo.add %arg0, %52 : tensor<2x6x4x8xf32>
    %54 = stablehlo.cosine %12 : tensor<2x6x1x4xf32>
    %55 = stablehlo.sine %12 : tensor<2x6x1x4xf32>
    %56 = stablehlo.slice %53 [0:2, 0:6, 0:4, 0:8:2] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %57 = stablehlo.slice %53 [0:2, 0:6, 0:4, 1:8:2] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %58 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3] : (tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %59 = stablehlo.multiply %56, %58 : tensor<2x6x4x4xf32>
    %60 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %61 = stablehlo.multiply %57, %60 : tensor<2x6x4x4xf32>
    %62 = stablehlo.subtract %59, %61 : tensor<2x6x4x4xf32>
    %63 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %64 = stablehlo.multiply %56, %63 : tensor<2x6x4x4xf32>
    %65 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3] : (tensor<2x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %66 = stablehlo.multiply %57, %65 : tensor<2x6x4x4xf32>
    %67 = stablehlo.add %64, %66 : tensor<2x6x4x4xf32>
    %68 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2, 3] : (tensor<2x6x4x4xf32>) -> tensor<2x6x4x4x1xf32>
    %69 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3] : (tensor<2x6x4x4xf32>) -> tensor<2x6x4x4x1xf32>
    %70 = stablehlo.concatenate %68, %69, dim = 4 : (tensor<2x6x4x4x1xf32>, tensor<2x6x4x4x1xf32>) -> tensor<2x6x4x4x2xf32>
    %71 = stablehlo.reshape %70 : (tensor<2x6x4x4x2xf32>) -> tensor<2x6x4x8xf32>
    %cst_4 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %73 = stablehlo.add %arg0, %72 : tensor<2x6x4x8xf32>
    %74 = stablehlo.cosine %19 : tensor<6x1x4xf32>
    %75 = stablehlo.sine %19 : tensor<6x1x4xf32>
    %76 = stablehlo.slice %73 [0:2, 0:6, 0:4, 0:4] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %77 = stablehlo.slice %73 [0:2, 0:6, 0:4, 4:8] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %78 = stablehlo.broadcast_in_dim %74, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %80 = stablehlo.multiply %76, %79 : tensor<2x6x4x4xf32>
    %81 = stablehlo.broadcast_in_dim %75, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %83 = stablehlo.multiply %77, %82 : tensor<2x6x4x4xf32>
    %84 = stablehlo.subtract %80, %83 : tensor<2x6x4x4xf32>
    %85 = stablehlo.broadcast_in_dim %74, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %87 = stablehlo.multiply %77, %86 : tensor<2x6x4x4xf32>
    %88 = stablehlo.broadcast_in_dim %75, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %90 = stablehlo.multiply %76, %89 : tensor<2x6x4x4xf32>
    %91 = stablehlo.add %87, %90 : tensor<2x6x4x4xf32>
    %92 = stablehlo.concatenate %84, %91, dim = 3 : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>) -> tensor<2x6x4x8xf32>
    %cst_5 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %94 = stablehlo.add %arg0, %93 : tensor<2x6x4x8xf32>
    %95 = stablehlo.cosine %19 : tensor<6x1x4xf32>
    %96 = stablehlo.sine %19 : tensor<6x1x4xf32>
    %97 = stablehlo.concatenate %95, %95, dim = 2 : (tensor<6x1x4xf32>, tensor<6x1x4xf32>) -> tensor<6x1x8xf32>
    %98 = stablehlo.concatenate %96, %96, dim = 2 : (tensor<6x1x4xf32>, tensor<6x1x4xf32>) -> tensor<6x1x8xf32>
    %99 = stablehlo.broadcast_in_dim %97, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x1x8xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2, 3] : (tensor<1x6x1x8xf32>) -> tensor<2x6x4x8xf32>
    %101 = stablehlo.multiply %94, %100 : tensor<2x6x4x8xf32>
    %102 = stablehlo.slice %94 [0:2, 0:6, 0:4, 4:8] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %103 = stablehlo.negate %102 : tensor<2x6x4x4xf32>
    %104 = stablehlo.slice %94 [0:2, 0:6, 0:4, 0:4] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %105 = stablehlo.concatenate %103, %104, dim = 3 : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>) -> tensor<2x6x4x8xf32>
    %106 = stablehlo.broadcast_in_dim %98, dims = [1, 2, 3] : (tensor<6x1x8xf32>) -> tensor<1x6x1x8xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2, 3] : (tensor<1x6x1x8xf32>) -> tensor<2x6x4x8xf32>
    %108 = stablehlo.multiply %105, %107 : tensor<2x6x4x8xf32>
    %109 = stablehlo.add %101, %108 : tensor<2x6x4x8xf32>
    %cst_6 = stablehlo.constant dense<5.000000e+00> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %111 = stablehlo.add %arg0, %110 : tensor<2x6x4x8xf32>
    %112 = stablehlo.cosine %19 : tensor<6x1x4xf32>
    %113 = stablehlo.sine %19 : tensor<6x1x4xf32>
    %114 = stablehlo.slice %111 [0:2, 0:6, 0:4, 0:8:2] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %115 = stablehlo.slice %111 [0:2, 0:6, 0:4, 1:8:2] : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x4xf32>
    %116 = stablehlo.broadcast_in_dim %112, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %118 = stablehlo.multiply %114, %117 : tensor<2x6x4x4xf32>
    %119 = stablehlo.broadcast_in_dim %113, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %120 = stablehlo.broadcast_in_dim %119, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %121 = stablehlo.multiply %115, %120 : tensor<2x6x4x4xf32>
    %122 = stablehlo.subtract %118, %121 : tensor<2x6x4x4xf32>
    %123 = stablehlo.broadcast_in_dim %113, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %124 = stablehlo.broadcast_in_dim %123, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %125 = stablehlo.multiply %114, %124 : tensor<2x6x4x4xf32>
    %126 = stablehlo.broadcast_in_dim %112, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %128 = stablehlo.multiply %115, %127 : tensor<2x6x4x4xf32>
    %129 = stablehlo.add %125, %128 : tensor<2x6x4x4xf32>
    %130 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2, 3] : (tensor<2x6x4x4xf32>) -> tensor<2x6x4x4x1xf32>
    %131 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<2x6x4x4xf32>) -> tensor<2x6x4x4x1xf32>
    %132 = stablehlo.concatenate %130, %131, dim = 4 : (tensor<2x6x4x4x1xf32>, tensor<2x6x4x4x1xf32>) -> tensor<2x6x4x4x2xf32>
    %133 = stablehlo.reshape %132 : (tensor<2x6x4x4x2xf32>) -> tensor<2x6x4x8xf32>
    %cst_7 = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %134 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x6x4x8xf32>
    %135 = stablehlo.add %arg0, %134 : tensor<2x6x4x8xf32>
    %136 = stablehlo.convert %135 : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x8xbf16>
    %137 = stablehlo.cosine %19 : tensor<6x1x4xf32>
    %138 = stablehlo.sine %19 : tensor<6x1x4xf32>
    %139 = stablehlo.slice %136 [0:2, 0:6, 0:4, 0:4] : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x4xbf16>
    %140 = stablehlo.slice %136 [0:2, 0:6, 0:4, 4:8] : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x4xbf16>
    %141 = stablehlo.convert %139 : (tensor<2x6x4x4xbf16>) -> tensor<2x6x4x4xf32>
    %142 = stablehlo.broadcast_in_dim %137, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %143 = stablehlo.broadcast_in_dim %142, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %144 = stablehlo.multiply %141, %143 : tensor<2x6x4x4xf32>
    %145 = stablehlo.convert %140 : (tensor<2x6x4x4xbf16>) -> tensor<2x6x4x4xf32>
    %146 = stablehlo.broadcast_in_dim %138, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %147 = stablehlo.broadcast_in_dim %146, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %148 = stablehlo.multiply %145, %147 : tensor<2x6x4x4xf32>
    %149 = stablehlo.subtract %144, %148 : tensor<2x6x4x4xf32>
    %150 = stablehlo.convert %140 : (tensor<2x6x4x4xbf16>) -> tensor<2x6x4x4xf32>
    %151 = stablehlo.broadcast_in_dim %137, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %152 = stablehlo.broadcast_in_dim %151, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %153 = stablehlo.multiply %150, %152 : tensor<2x6x4x4xf32>
    %154 = stablehlo.convert %139 : (tensor<2x6x4x4xbf16>) -> tensor<2x6x4x4xf32>
    %155 = stablehlo.broadcast_in_dim %138, dims = [1, 2, 3] : (tensor<6x1x4xf32>) -> tensor<1x6x1x4xf32>
    %156 = stablehlo.broadcast_in_dim %155, dims = [0, 1, 2, 3] : (tensor<1x6x1x4xf32>) -> tensor<2x6x4x4xf32>
    %157 = stablehlo.multiply %154, %156 : tensor<2x6x4x4xf32>
    %158 = stablehlo.add %153, %157 : tensor<2x6x4x4xf32>
    %159 = stablehlo.concatenate %149, %158, dim = 3 : (tensor<2x6x4x4xf32>, tensor<2x6x4x4xf32>) -> tensor<2x6x4x8xf32>
    %160 = stablehlo.convert %159 : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x8xbf16>
    %161 = stablehlo.convert %160 : (tensor<2x6x4x8xbf16>) -> tensor<2x6x4x8xf32>
    return %161, %36, %51, %71, %92, %109, %133 : tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>
  }
}
