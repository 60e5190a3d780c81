module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x4xf32> loc("params['blocks'][0]['attention']['key']['bias'].value"), %arg1: tensor<8x2x4xf32> loc("params['blocks'][0]['attention']['key']['kernel'].value"), %arg2: tensor<8xf32> loc("params['blocks'][0]['attention']['out']['bias'].value"), %arg3: tensor<2x4x8xf32> loc("params['blocks'][0]['attention']['out']['kernel'].value"), %arg4: tensor<2x4xf32> loc("params['blocks'][0]['attention']['query']['bias'].value"), %arg5: tensor<8x2x4xf32> loc("params['blocks'][0]['attention']['query']['kernel'].value"), %arg6: tensor<2x4xf32> loc("params['blocks'][0]['attention']['value']['bias'].value"), %arg7: tensor<8x2x4xf32> loc("params['blocks'][0]['attention']['value']['kernel'].value"), %arg8: tensor<8xf32> loc("params['blocks'][0]['down']['bias'].value"), %arg9: tensor<16x8xf32> loc("params['blocks'][0]['down']['kernel'].value"), %arg10: tensor<8xf32> loc("params['blocks'][0]['norm1']['bias'].value"), %arg11: tensor<8xf32> loc("params['blocks'][0]['norm1']['scale'].value"), %arg12: tensor<8xf32> loc("params['blocks'][0]['norm2']['scale'].value"), %arg13: tensor<16xf32> loc("params['blocks'][0]['up']['bias'].value"), %arg14: tensor<8x16xf32> loc("params['blocks'][0]['up']['kernel'].value"), %arg15: tensor<2x4xf32> loc("params['blocks'][1]['attention']['key']['bias'].value"), %arg16: tensor<8x2x4xf32> loc("params['blocks'][1]['attention']['key']['kernel'].value"), %arg17: tensor<8xf32> loc("params['blocks'][1]['attention']['out']['bias'].value"), %arg18: tensor<2x4x8xf32> loc("params['blocks'][1]['attention']['out']['kernel'].value"), %arg19: tensor<2x4xf32> loc("params['blocks'][1]['attention']['query']['bias'].value"), %arg20: tensor<8x2x4xf32> loc("params['blocks'][1]['attention']['query']['kernel'].value"), %arg21: tensor<2x4xf32> loc("params['blocks'][1]['attention']['value']['bias'].value"), %arg22: tensor<8x2x4xf32> loc("params['blocks'][1]['attention']['value']['kernel'].value"), %arg23: tensor<8xf32> loc("params['blocks'][1]['down']['bias'].value"), %arg24: tensor<16x8xf32> loc("params['blocks'][1]['down']['kernel'].value"), %arg25: tensor<8xf32> loc("params['blocks'][1]['norm1']['bias'].value"), %arg26: tensor<8xf32> loc("params['blocks'][1]['norm1']['scale'].value"), %arg27: tensor<8xf32> loc("params['blocks'][1]['norm2']['scale'].value"), %arg28: tensor<16xf32> loc("params['blocks'][1]['up']['bias'].value"), %arg29: tensor<8x16xf32> loc("params['blocks'][1]['up']['kernel'].value"), %arg30: tensor<16x8xf32> loc("params['embed']['embedding'].value"), %arg31: tensor<8xf32> loc("params['norm']['bias'].value"), %arg32: tensor<8xf32> loc("params['norm']['scale'].value"), %arg33: tensor<4x8xi32> loc("tokens")) -> (tensor<4x8x16xf32> {jax.result_info = "result"}) {
    %0 = call @_take(%arg30, %arg33) : (tensor<16x8xf32>, tensor<4x8xi32>) -> tensor<4x8x8xf32>
    %1 = stablehlo.iota dim = 0 : tensor<8xi32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<8xi32>) -> tensor<4x8xi32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<4x8xi32>) -> tensor<4x8x1xi32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [0, 2] : (tensor<4x8xi32>) -> tensor<4x1x8xi32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<4x8x1xi32>) -> tensor<4x8x8xi32>
    %6 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<4x1x8xi32>) -> tensor<4x8x8xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x8x8xi32>, tensor<4x8x8xi32>) -> tensor<4x8x8xi1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 2, 3] : (tensor<4x8x8xi1>) -> tensor<4x1x8x8xi1>
    %9 = stablehlo.convert %8 : (tensor<4x1x8x8xi1>) -> tensor<4x1x8x8xf32>
    %10 = chlo.square %0 : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %13 = stablehlo.divide %11, %12 : tensor<4x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.reduce(%10 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_2 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %16 = stablehlo.divide %14, %15 : tensor<4x8xf32>
    %17 = chlo.square %13 : tensor<4x8xf32> -> tensor<4x8xf32>
    %18 = stablehlo.subtract %16, %17 : tensor<4x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %20 = stablehlo.maximum %19, %18 : tensor<4x8xf32>
    %21 = stablehlo.reshape %13 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %22 = stablehlo.reshape %20 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %23 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %24 = stablehlo.subtract %0, %23 : tensor<4x8x8xf32>
    %cst_4 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %26 = stablehlo.add %22, %25 : tensor<4x8x1xf32>
    %27 = stablehlo.rsqrt %26 : tensor<4x8x1xf32>
    %28 = stablehlo.reshape %arg11 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %29 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %30 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<4x8x8xf32>
    %32 = stablehlo.multiply %24, %31 : tensor<4x8x8xf32>
    %33 = stablehlo.reshape %arg10 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %35 = stablehlo.add %32, %34 : tensor<4x8x8xf32>
    %36 = stablehlo.dot_general %35, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x2x4xf32>) -> tensor<4x8x2x4xf32>
    %37 = stablehlo.reshape %arg4 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %39 = stablehlo.add %36, %38 : tensor<4x8x2x4xf32>
    %40 = stablehlo.dot_general %35, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x2x4xf32>) -> tensor<4x8x2x4xf32>
    %41 = stablehlo.reshape %arg0 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %43 = stablehlo.add %40, %42 : tensor<4x8x2x4xf32>
    %44 = stablehlo.dot_general %35, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x2x4xf32>) -> tensor<4x8x2x4xf32>
    %45 = stablehlo.reshape %arg6 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %47 = stablehlo.add %44, %46 : tensor<4x8x2x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x1x8x8xf32>
    %49 = stablehlo.compare NE, %9, %48, FLOAT : (tensor<4x1x8x8xf32>, tensor<4x1x8x8xf32>) -> tensor<4x1x8x8xi1>
    %50 = stablehlo.convert %49 : tensor<4x1x8x8xi1>
    %51 = stablehlo.reshape %39 : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x1x4xf32>
    %52 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 3, 4] : (tensor<4x1x8x8xi1>) -> tensor<4x1x1x8x8xi1>
    %53 = stablehlo.dot_general %51, %43, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x8x2x1x4xf32>, tensor<4x8x2x4xf32>) -> tensor<4x2x8x1x8xf32>
    %cst_6 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x2x8x1x8xf32>
    %55 = stablehlo.multiply %53, %54 : tensor<4x2x8x1x8xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %56 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<4x2x8x8xi1>
    %57 = stablehlo.broadcast_in_dim %56, dims = [1, 2, 3, 4] : (tensor<4x2x8x8xi1>) -> tensor<1x4x2x8x8xi1>
    %58 = stablehlo.transpose %52, dims = [2, 0, 1, 3, 4] : (tensor<4x1x1x8x8xi1>) -> tensor<1x4x1x8x8xi1>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3, 4] : (tensor<1x4x1x8x8xi1>) -> tensor<1x4x2x8x8xi1>
    %60 = stablehlo.and %57, %59 : tensor<1x4x2x8x8xi1>
    %cst_7 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %61 = call @_where_0(%60, %55, %cst_7) : (tensor<1x4x2x8x8xi1>, tensor<4x2x8x1x8xf32>, tensor<f32>) -> tensor<1x4x2x8x8xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %62 = stablehlo.reduce(%61 init: %cst_8) applies stablehlo.maximum across dimensions = [4] : (tensor<1x4x2x8x8xf32>, tensor<f32>) -> tensor<1x4x2x8xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x4x2x8xf32>
    %64 = stablehlo.maximum %63, %62 : tensor<1x4x2x8xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8x1xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3, 4] : (tensor<1x4x2x8x1xf32>) -> tensor<1x4x2x8x8xf32>
    %67 = stablehlo.subtract %61, %66 : tensor<1x4x2x8x8xf32>
    %68 = stablehlo.exponential %67 : tensor<1x4x2x8x8xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%68 init: %cst_10) applies stablehlo.add across dimensions = [4] : (tensor<1x4x2x8x8xf32>, tensor<f32>) -> tensor<1x4x2x8xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2, 3] : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8x1xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1, 2, 3, 4] : (tensor<1x4x2x8x1xf32>) -> tensor<1x4x2x8x8xf32>
    %72 = stablehlo.divide %68, %71 : tensor<1x4x2x8x8xf32>
    %73 = stablehlo.dot_general %47, %72, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x8x2x4xf32>, tensor<1x4x2x8x8xf32>) -> tensor<4x2x4x1x8xf32>
    %74 = stablehlo.transpose %73, dims = [3, 0, 4, 1, 2] : (tensor<4x2x4x1x8xf32>) -> tensor<1x4x8x2x4xf32>
    %75 = stablehlo.transpose %74, dims = [1, 2, 3, 0, 4] : (tensor<1x4x8x2x4xf32>) -> tensor<4x8x2x1x4xf32>
    %76 = stablehlo.reshape %75 : (tensor<4x8x2x1x4xf32>) -> tensor<4x8x2x4xf32>
    %77 = stablehlo.dot_general %76, %arg3, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x2x4xf32>, tensor<2x4x8xf32>) -> tensor<4x8x8xf32>
    %78 = stablehlo.reshape %arg2 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %80 = stablehlo.add %77, %79 : tensor<4x8x8xf32>
    %81 = stablehlo.add %0, %80 : tensor<4x8x8xf32>
    %82 = chlo.square %81 : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %83 = stablehlo.reduce(%82 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_12 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %85 = stablehlo.divide %83, %84 : tensor<4x8xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %87 = stablehlo.reshape %86 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %88 = stablehlo.reshape %85 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %89 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %90 = stablehlo.subtract %81, %89 : tensor<4x8x8xf32>
    %cst_14 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %92 = stablehlo.add %88, %91 : tensor<4x8x1xf32>
    %93 = stablehlo.rsqrt %92 : tensor<4x8x1xf32>
    %94 = stablehlo.reshape %arg12 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %95 = stablehlo.broadcast_in_dim %93, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %96 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %97 = stablehlo.multiply %95, %96 : tensor<4x8x8xf32>
    %98 = stablehlo.multiply %90, %97 : tensor<4x8x8xf32>
    %99 = stablehlo.dot_general %98, %arg14, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %100 = stablehlo.reshape %arg13 : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %101 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<4x8x16xf32>
    %102 = stablehlo.add %99, %101 : tensor<4x8x16xf32>
    %cst_15 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %103 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %104 = stablehlo.multiply %103, %102 : tensor<4x8x16xf32>
    %105 = stablehlo.negate %102 : tensor<4x8x16xf32>
    %cst_16 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %106 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %107 = stablehlo.multiply %105, %106 : tensor<4x8x16xf32>
    %108 = chlo.erfc %107 : tensor<4x8x16xf32> -> tensor<4x8x16xf32>
    %109 = stablehlo.multiply %104, %108 : tensor<4x8x16xf32>
    %110 = stablehlo.dot_general %109, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<16x8xf32>) -> tensor<4x8x8xf32>
    %111 = stablehlo.reshape %arg8 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %113 = stablehlo.add %110, %112 : tensor<4x8x8xf32>
    %114 = stablehlo.add %81, %113 : tensor<4x8x8xf32>
    %115 = chlo.square %114 : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %116 = stablehlo.reduce(%114 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_18 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %118 = stablehlo.divide %116, %117 : tensor<4x8xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.reduce(%115 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_20 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %121 = stablehlo.divide %119, %120 : tensor<4x8xf32>
    %122 = chlo.square %118 : tensor<4x8xf32> -> tensor<4x8xf32>
    %123 = stablehlo.subtract %121, %122 : tensor<4x8xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %124 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %125 = stablehlo.maximum %124, %123 : tensor<4x8xf32>
    %126 = stablehlo.reshape %118 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %127 = stablehlo.reshape %125 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %128 = stablehlo.broadcast_in_dim %126, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %129 = stablehlo.subtract %114, %128 : tensor<4x8x8xf32>
    %cst_22 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %131 = stablehlo.add %127, %130 : tensor<4x8x1xf32>
    %132 = stablehlo.rsqrt %131 : tensor<4x8x1xf32>
    %133 = stablehlo.reshape %arg26 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %134 = stablehlo.broadcast_in_dim %132, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %135 = stablehlo.broadcast_in_dim %133, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %136 = stablehlo.multiply %134, %135 : tensor<4x8x8xf32>
    %137 = stablehlo.multiply %129, %136 : tensor<4x8x8xf32>
    %138 = stablehlo.reshape %arg25 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %140 = stablehlo.add %137, %139 : tensor<4x8x8xf32>
    %141 = stablehlo.dot_general %140, %arg20, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x2x4xf32>) -> tensor<4x8x2x4xf32>
    %142 = stablehlo.reshape %arg19 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %143 = stablehlo.broadcast_in_dim %142, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %144 = stablehlo.add %141, %143 : tensor<4x8x2x4xf32>
    %145 = stablehlo.dot_general %140, %arg16, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x2x4xf32>) -> tensor<4x8x2x4xf32>
    %146 = stablehlo.reshape %arg15 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %147 = stablehlo.broadcast_in_dim %146, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %148 = stablehlo.add %145, %147 : tensor<4x8x2x4xf32>
    %149 = stablehlo.dot_general %140, %arg22, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x2x4xf32>) -> tensor<4x8x2x4xf32>
    %150 = stablehlo.reshape %arg21 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %151 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<4x8x2x4xf32>
    %152 = stablehlo.add %149, %151 : tensor<4x8x2x4xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<4x1x8x8xf32>
    %154 = stablehlo.compare NE, %9, %153, FLOAT : (tensor<4x1x8x8xf32>, tensor<4x1x8x8xf32>) -> tensor<4x1x8x8xi1>
    %155 = stablehlo.convert %154 : tensor<4x1x8x8xi1>
    %156 = stablehlo.reshape %144 : (tensor<4x8x2x4xf32>) -> tensor<4x8x2x1x4xf32>
    %157 = stablehlo.broadcast_in_dim %155, dims = [0, 1, 3, 4] : (tensor<4x1x8x8xi1>) -> tensor<4x1x1x8x8xi1>
    %158 = stablehlo.dot_general %156, %148, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x8x2x1x4xf32>, tensor<4x8x2x4xf32>) -> tensor<4x2x8x1x8xf32>
    %cst_24 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %159 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4x2x8x1x8xf32>
    %160 = stablehlo.multiply %158, %159 : tensor<4x2x8x1x8xf32>
    %c_25 = stablehlo.constant dense<true> : tensor<i1>
    %161 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i1>) -> tensor<4x2x8x8xi1>
    %162 = stablehlo.broadcast_in_dim %161, dims = [1, 2, 3, 4] : (tensor<4x2x8x8xi1>) -> tensor<1x4x2x8x8xi1>
    %163 = stablehlo.transpose %157, dims = [2, 0, 1, 3, 4] : (tensor<4x1x1x8x8xi1>) -> tensor<1x4x1x8x8xi1>
    %164 = stablehlo.broadcast_in_dim %163, dims = [0, 1, 2, 3, 4] : (tensor<1x4x1x8x8xi1>) -> tensor<1x4x2x8x8xi1>
    %165 = stablehlo.and %162, %164 : tensor<1x4x2x8x8xi1>
    %cst_26 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %166 = call @_where_0(%165, %160, %cst_26) : (tensor<1x4x2x8x8xi1>, tensor<4x2x8x1x8xf32>, tensor<f32>) -> tensor<1x4x2x8x8xf32>
    %cst_27 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %167 = stablehlo.reduce(%166 init: %cst_27) applies stablehlo.maximum across dimensions = [4] : (tensor<1x4x2x8x8xf32>, tensor<f32>) -> tensor<1x4x2x8xf32>
    %cst_28 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %168 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<1x4x2x8xf32>
    %169 = stablehlo.maximum %168, %167 : tensor<1x4x2x8xf32>
    %170 = stablehlo.broadcast_in_dim %169, dims = [0, 1, 2, 3] : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8x1xf32>
    %171 = stablehlo.broadcast_in_dim %170, dims = [0, 1, 2, 3, 4] : (tensor<1x4x2x8x1xf32>) -> tensor<1x4x2x8x8xf32>
    %172 = stablehlo.subtract %166, %171 : tensor<1x4x2x8x8xf32>
    %173 = stablehlo.exponential %172 : tensor<1x4x2x8x8xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %174 = stablehlo.reduce(%173 init: %cst_29) applies stablehlo.add across dimensions = [4] : (tensor<1x4x2x8x8xf32>, tensor<f32>) -> tensor<1x4x2x8xf32>
    %175 = stablehlo.broadcast_in_dim %174, dims = [0, 1, 2, 3] : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8x1xf32>
    %176 = stablehlo.broadcast_in_dim %175, dims = [0, 1, 2, 3, 4] : (tensor<1x4x2x8x1xf32>) -> tensor<1x4x2x8x8xf32>
    %177 = stablehlo.divide %173, %176 : tensor<1x4x2x8x8xf32>
    %178 = stablehlo.dot_general %152, %177, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<4x8x2x4xf32>, tensor<1x4x2x8x8xf32>) -> tensor<4x2x4x1x8xf32>
    %179 = stablehlo.transpose %178, dims = [3, 0, 4, 1, 2] : (tensor<4x2x4x1x8xf32>) -> tensor<1x4x8x2x4xf32>
    %180 = stablehlo.transpose %179, dims = [1, 2, 3, 0, 4] : (tensor<1x4x8x2x4xf32>) -> tensor<4x8x2x1x4xf32>
    %181 = stablehlo.reshape %180 : (tensor<4x8x2x1x4xf32>) -> tensor<4x8x2x4xf32>
    %182 = stablehlo.dot_general %181, %arg18, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x2x4xf32>, tensor<2x4x8xf32>) -> tensor<4x8x8xf32>
    %183 = stablehlo.reshape %arg17 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %185 = stablehlo.add %182, %184 : tensor<4x8x8xf32>
    %186 = stablehlo.add %114, %185 : tensor<4x8x8xf32>
    %187 = chlo.square %186 : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %188 = stablehlo.reduce(%187 init: %cst_30) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_31 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %189 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %190 = stablehlo.divide %188, %189 : tensor<4x8xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %191 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %192 = stablehlo.reshape %191 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %193 = stablehlo.reshape %190 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %194 = stablehlo.broadcast_in_dim %192, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %195 = stablehlo.subtract %186, %194 : tensor<4x8x8xf32>
    %cst_33 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %196 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %197 = stablehlo.add %193, %196 : tensor<4x8x1xf32>
    %198 = stablehlo.rsqrt %197 : tensor<4x8x1xf32>
    %199 = stablehlo.reshape %arg27 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %200 = stablehlo.broadcast_in_dim %198, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %201 = stablehlo.broadcast_in_dim %199, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %202 = stablehlo.multiply %200, %201 : tensor<4x8x8xf32>
    %203 = stablehlo.multiply %195, %202 : tensor<4x8x8xf32>
    %204 = stablehlo.dot_general %203, %arg29, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    %205 = stablehlo.reshape %arg28 : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %206 = stablehlo.broadcast_in_dim %205, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<4x8x16xf32>
    %207 = stablehlo.add %204, %206 : tensor<4x8x16xf32>
    %cst_34 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %208 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %209 = stablehlo.multiply %208, %207 : tensor<4x8x16xf32>
    %210 = stablehlo.negate %207 : tensor<4x8x16xf32>
    %cst_35 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %211 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<4x8x16xf32>
    %212 = stablehlo.multiply %210, %211 : tensor<4x8x16xf32>
    %213 = chlo.erfc %212 : tensor<4x8x16xf32> -> tensor<4x8x16xf32>
    %214 = stablehlo.multiply %209, %213 : tensor<4x8x16xf32>
    %215 = stablehlo.dot_general %214, %arg24, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x16xf32>, tensor<16x8xf32>) -> tensor<4x8x8xf32>
    %216 = stablehlo.reshape %arg23 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %217 = stablehlo.broadcast_in_dim %216, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %218 = stablehlo.add %215, %217 : tensor<4x8x8xf32>
    %219 = stablehlo.add %186, %218 : tensor<4x8x8xf32>
    %220 = chlo.square %219 : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %221 = stablehlo.reduce(%219 init: %cst_36) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_37 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %222 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %223 = stablehlo.divide %221, %222 : tensor<4x8xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.reduce(%220 init: %cst_38) applies stablehlo.add across dimensions = [2] : (tensor<4x8x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %cst_39 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %225 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %226 = stablehlo.divide %224, %225 : tensor<4x8xf32>
    %227 = chlo.square %223 : tensor<4x8xf32> -> tensor<4x8xf32>
    %228 = stablehlo.subtract %226, %227 : tensor<4x8xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %229 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %230 = stablehlo.maximum %229, %228 : tensor<4x8xf32>
    %231 = stablehlo.reshape %223 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %232 = stablehlo.reshape %230 : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    %233 = stablehlo.broadcast_in_dim %231, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %234 = stablehlo.subtract %219, %233 : tensor<4x8x8xf32>
    %cst_41 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %235 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<4x8x1xf32>
    %236 = stablehlo.add %232, %235 : tensor<4x8x1xf32>
    %237 = stablehlo.rsqrt %236 : tensor<4x8x1xf32>
    %238 = stablehlo.reshape %arg32 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %239 = stablehlo.broadcast_in_dim %237, dims = [0, 1, 2] : (tensor<4x8x1xf32>) -> tensor<4x8x8xf32>
    %240 = stablehlo.broadcast_in_dim %238, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %241 = stablehlo.multiply %239, %240 : tensor<4x8x8xf32>
    %242 = stablehlo.multiply %234, %241 : tensor<4x8x8xf32>
    %243 = stablehlo.reshape %arg31 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %244 = stablehlo.broadcast_in_dim %243, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<4x8x8xf32>
    %245 = stablehlo.add %242, %244 : tensor<4x8x8xf32>
    %246 = stablehlo.transpose %arg30, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %247 = stablehlo.dot_general %245, %246, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<8x16xf32>) -> tensor<4x8x16xf32>
    return %247 : tensor<4x8x16xf32>
  }
  func.func private @_take(%arg0: tensor<16x8xf32> loc(unknown), %arg1: tensor<4x8xi32> loc(unknown)) -> tensor<4x8x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %c_0 = stablehlo.constant dense<16> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4x8xi32>
    %4 = call @_where(%1, %3, %arg1) : (tensor<4x8xi1>, tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<4x8xi32>) -> tensor<4x8x1xi32>
    %c_1 = stablehlo.constant dense<15> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x8x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x8x1xi32>, tensor<4x8x1xi32>) -> tensor<4x8x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x8x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<4x8x1xi32>, tensor<4x8x1xi32>) -> tensor<4x8x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<4x8x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<4x8x1xi1>, tensor<i1>) -> tensor<4x8xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<16x8xf32>, tensor<4x8x1xi32>) -> tensor<4x8x8xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<4x8xi1>) -> tensor<4x8x8xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8x8xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<4x8x8xi1>, tensor<4x8x8xf32>
    return %16 : tensor<4x8x8xf32>
  }
  func.func private @_where(%arg0: tensor<4x8xi1> loc(unknown), %arg1: tensor<4x8xi32> loc(unknown), %arg2: tensor<4x8xi32> loc(unknown)) -> tensor<4x8xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<4x8xi1>, tensor<4x8xi32>
    return %0 : tensor<4x8xi32>
  }
  func.func private @_where_0(%arg0: tensor<1x4x2x8x8xi1> loc(unknown), %arg1: tensor<4x2x8x1x8xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<1x4x2x8x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<4x2x8x8xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<4x2x8x8xf32>) -> tensor<1x4x2x8x8xf32>
    %2 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<4x2x8x1x8xf32>) -> tensor<1x4x2x8x8xf32>
    %3 = stablehlo.select %arg0, %2, %1 : tensor<1x4x2x8x8xi1>, tensor<1x4x2x8x8xf32>
    return %3 : tensor<1x4x2x8x8xf32>
  }
}
