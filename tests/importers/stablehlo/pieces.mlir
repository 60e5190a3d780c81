module @jit_pieces attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32> loc("x"), %arg1: tensor<4xi32> loc("tokens"), %arg2: tensor<i32> loc("start")) -> (tensor<4xi1> {jax.result_info = "result['all']"}, tensor<4xi32> {jax.result_info = "result['argmax']"}, tensor<4x6xf32> {jax.result_info = "result['clipped']"}, tensor<16xf32> {jax.result_info = "result['counts']"}, tensor<4x6xf32> {jax.result_info = "result['cumulative']"}, tensor<4x6xi1> {jax.result_info = "result['either']"}, tensor<4x4xf32> {jax.result_info = "result['every_other']"}, tensor<4x6xi1> {jax.result_info = "result['finite']"}, tensor<4x6xf32> {jax.result_info = "result['flipped']"}, tensor<6xf32> {jax.result_info = "result['least']"}, tensor<4xf32> {jax.result_info = "result['logsumexp']"}, tensor<4xf32> {jax.result_info = "result['looped']"}, tensor<4x5xf32> {jax.result_info = "result['one_hot']"}, tensor<2x2x2x2xf32> {jax.result_info = "result['outer']"}, tensor<5x8xf32> {jax.result_info = "result['padded']"}, tensor<2xf32> {jax.result_info = "result['picked']"}, tensor<4x3xi32> {jax.result_info = "result['places']"}, tensor<4xi32> {jax.result_info = "result['remainder']"}, tensor<4x6xf32> {jax.result_info = "result['softplus']"}, tensor<4x6xf32> {jax.result_info = "result['squares']"}, tensor<4x3xf32> {jax.result_info = "result['top']"}, tensor<6xf32> {jax.result_info = "result['variance']"}, tensor<4x2xf32> {jax.result_info = "result['window']"}, tensor<4x6xf32> {jax.result_info = "result['written']"}) {
    %c = stablehlo.constant dense<[2, 0]> : tensor<2xi32>
    %values, %indices = chlo.top_k(%arg0, k = 3) : tensor<4x6xf32> -> (tensor<4x3xf32>, tensor<4x3xi32>)
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg2, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_1 = stablehlo.constant dense<6> : tensor<i32>
    %1 = stablehlo.add %arg2, %c_1 : tensor<i32>
    %2 = stablehlo.select %0, %1, %arg2 : tensor<i1>, tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.dynamic_slice %arg0, %c_2, %2, sizes = [4, 2] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.compare LT, %arg2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_4 = stablehlo.constant dense<6> : tensor<i32>
    %6 = stablehlo.add %arg2, %c_4 : tensor<i32>
    %7 = stablehlo.select %5, %6, %arg2 : tensor<i1>, tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.dynamic_update_slice %arg0, %4, %c_5, %7 : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %10:4 = stablehlo.while(%iterArg = %arg0, %iterArg_34 = %c_8, %iterArg_35 = %c_7, %iterArg_36 = %9) : tensor<4x6xf32>, tensor<i32>, tensor<i32>, tensor<4xf32>
    cond {
      %c_37 = stablehlo.constant dense<4> : tensor<i32>
      %78 = stablehlo.compare LT, %iterArg_34, %c_37, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %78 : tensor<i1>
    } do {
      %78:2 = func.call @closed_call(%iterArg, %iterArg_35, %iterArg_36) : (tensor<4x6xf32>, tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
      %c_37 = stablehlo.constant dense<1> : tensor<i32>
      %79 = stablehlo.add %iterArg_34, %c_37 : tensor<i32>
      stablehlo.return %iterArg, %79, %78#0, %78#1 : tensor<4x6xf32>, tensor<i32>, tensor<i32>, tensor<4xf32>
    }
    %11 = call @argmax(%arg0) : (tensor<4x6xf32>) -> tensor<4xi32>
    %12 = call @cumsum(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %13 = call @softplus(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %14 = call @_flip(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %cst_9 = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %15 = call @_pad(%arg0, %cst_9) : (tensor<4x6xf32>, tensor<f32>) -> tensor<5x8xf32>
    %c_10 = stablehlo.constant dense<1> : tensor<i32>
    %16 = call @_var(%arg0, %c_10) : (tensor<4x6xf32>, tensor<i32>) -> tensor<6xf32>
    %17 = stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
    %18 = stablehlo.slice %17 [0:4, 1:9:2] : (tensor<4x12xf32>) -> tensor<4x4xf32>
    %19 = call @_one_hot(%arg1) : (tensor<4xi32>) -> tensor<4x5xf32>
    %cst_11 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %cst_12 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %20 = call @clip(%arg0, %cst_11, %cst_12) : (tensor<4x6xf32>, tensor<f32>, tensor<f32>) -> tensor<4x6xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %22 = stablehlo.broadcast_in_dim %c_14, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %23 = stablehlo.compare LT, %arg1, %22, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_15 = stablehlo.constant dense<16> : tensor<i32>
    %24 = stablehlo.broadcast_in_dim %c_15, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %25 = stablehlo.add %arg1, %24 : tensor<4xi32>
    %26 = stablehlo.select %23, %25, %arg1 : tensor<4xi1>, tensor<4xi32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %29 = "stablehlo.scatter"(%21, %27, %28) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32> loc("scatter-add:"(#loc25)), %arg4: tensor<f32> loc("scatter-add:"(#loc25))):
      %78 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %78 : tensor<f32>
    }) : (tensor<16xf32>, tensor<4x1xi32>, tensor<4xf32>) -> tensor<16xf32>
    %30 = stablehlo.iota dim = 0 : tensor<2xi32>
    %c_17 = stablehlo.constant dense<0> : tensor<i32>
    %31 = stablehlo.broadcast_in_dim %c_17, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %32 = stablehlo.compare LT, %30, %31, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_18 = stablehlo.constant dense<4> : tensor<i32>
    %33 = stablehlo.broadcast_in_dim %c_18, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %34 = stablehlo.add %30, %33 : tensor<2xi32>
    %35 = stablehlo.select %32, %34, %30 : tensor<2xi1>, tensor<2xi32>
    %c_19 = stablehlo.constant dense<0> : tensor<i32>
    %36 = stablehlo.broadcast_in_dim %c_19, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %37 = stablehlo.compare LT, %c, %36, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_20 = stablehlo.constant dense<6> : tensor<i32>
    %38 = stablehlo.broadcast_in_dim %c_20, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %39 = stablehlo.add %c, %38 : tensor<2xi32>
    %40 = stablehlo.select %37, %39, %c : tensor<2xi1>, tensor<2xi32>
    %41 = stablehlo.broadcast_in_dim %35, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %42 = stablehlo.broadcast_in_dim %40, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %43 = stablehlo.concatenate %41, %42, dim = 1 : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>
    %44 = "stablehlo.gather"(%arg0, %43) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x6xf32>, tensor<2x2xi32>) -> tensor<2xf32>
    %c_21 = stablehlo.constant dense<3> : tensor<i32>
    %45 = call @remainder(%arg1, %c_21) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
    %46 = stablehlo.slice %arg0 [0:2, 0:2] : (tensor<4x6xf32>) -> tensor<2x2xf32>
    %47 = stablehlo.slice %arg0 [2:4, 0:2] : (tensor<4x6xf32>) -> tensor<2x2xf32>
    %48 = stablehlo.dot_general %47, %46, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2x2x2xf32>
    %49 = stablehlo.transpose %48, dims = [2, 0, 3, 1] : (tensor<2x2x2x2xf32>) -> tensor<2x2x2x2xf32>
    %cst_22 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %50 = stablehlo.reduce(%arg0 init: %cst_22) applies stablehlo.maximum across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %cst_23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %52 = stablehlo.maximum %51, %50 : tensor<4xf32>
    %53 = stablehlo.is_finite %52 : (tensor<4xf32>) -> tensor<4xi1>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %55 = stablehlo.select %53, %52, %54 : tensor<4xi1>, tensor<4xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x6xf32>
    %58 = stablehlo.subtract %arg0, %57 : tensor<4x6xf32>
    %59 = stablehlo.exponential %58 : tensor<4x6xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_25) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
    %61 = stablehlo.abs %60 : tensor<4xf32>
    %62 = stablehlo.log %61 : tensor<4xf32>
    %63 = stablehlo.add %62, %55 : tensor<4xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %65 = stablehlo.divide %arg0, %64 : tensor<4x6xf32>
    %66 = stablehlo.is_finite %65 : (tensor<4x6xf32>) -> tensor<4x6xi1>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %c_28 = stablehlo.constant dense<0> : tensor<i32>
    %68:3 = stablehlo.while(%iterArg = %arg0, %iterArg_34 = %c_28, %iterArg_35 = %67) : tensor<4x6xf32>, tensor<i32>, tensor<4x6xf32>
    cond {
      %c_36 = stablehlo.constant dense<4> : tensor<i32>
      %78 = stablehlo.compare LT, %iterArg_34, %c_36, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %78 : tensor<i1>
    } do {
      %78 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_34) : (tensor<4x6xf32>, tensor<i32>) -> tensor<6xf32>
      %79 = func.call @closed_call_2(%78) : (tensor<6xf32>) -> tensor<6xf32>
      %80 = func.call @dynamic_update_index_in_dim(%iterArg_35, %79, %iterArg_34) : (tensor<4x6xf32>, tensor<6xf32>, tensor<i32>) -> tensor<4x6xf32>
      %c_36 = stablehlo.constant dense<1> : tensor<i32>
      %81 = stablehlo.add %iterArg_34, %c_36 : tensor<i32>
      stablehlo.return %iterArg, %81, %80 : tensor<4x6xf32>, tensor<i32>, tensor<4x6xf32>
    }
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %70 = stablehlo.compare GT, %arg0, %69, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    %cst_30 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %72 = stablehlo.compare GT, %arg0, %71, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    %73 = stablehlo.xor %70, %72 : tensor<4x6xi1>
    %cst_31 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %74 = stablehlo.reduce(%arg0 init: %cst_31) applies stablehlo.minimum across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %cst_32 = stablehlo.constant dense<-9.000000e+00> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %76 = stablehlo.compare GT, %arg0, %75, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    %c_33 = stablehlo.constant dense<true> : tensor<i1>
    %77 = stablehlo.reduce(%76 init: %c_33) applies stablehlo.and across dimensions = [1] : (tensor<4x6xi1>, tensor<i1>) -> tensor<4xi1>
    return %77, %11, %20, %29, %12, %73, %18, %66, %14, %74, %63, %10#3, %19, %49, %15, %44, %indices, %45, %13, %68#2, %values, %16, %3, %8 : tensor<4xi1>, tensor<4xi32>, tensor<4x6xf32>, tensor<16xf32>, tensor<4x6xf32>, tensor<4x6xi1>, tensor<4x4xf32>, tensor<4x6xi1>, tensor<4x6xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x5xf32>, tensor<2x2x2x2xf32>, tensor<5x8xf32>, tensor<2xf32>, tensor<4x3xi32>, tensor<4xi32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x3xf32>, tensor<6xf32>, tensor<4x2xf32>, tensor<4x6xf32>
  }
  func.func private @closed_call(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<i32> loc(unknown), %arg2: tensor<4xf32> loc(unknown)) -> (tensor<i32>, tensor<4xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg1, %c : tensor<i32>
    %1 = stablehlo.convert %arg1 : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.compare LT, %c_0, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<4> : tensor<i32>
    %3 = stablehlo.add %c_2, %c_3 : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.select %2, %3, %c_4 : tensor<i1>, tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.compare LT, %1, %c_5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_6 = stablehlo.constant dense<6> : tensor<i32>
    %6 = stablehlo.add %1, %c_6 : tensor<i32>
    %7 = stablehlo.select %5, %6, %1 : tensor<i1>, tensor<i32>
    %8 = stablehlo.dynamic_slice %arg0, %4, %7, sizes = [4, 1] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x1xf32>
    %9 = stablehlo.reshape %8 : (tensor<4x1xf32>) -> tensor<4xf32>
    %10 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<4xf32>
    %13 = stablehlo.add %arg2, %12 : tensor<4xf32>
    return %0, %13 : tensor<i32>, tensor<4xf32>
  }
  func.func private @argmax(%arg0: tensor<4x6xf32> loc("jit(pieces)"(#loc161))) -> tensor<4xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<4x6xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%arg1: tensor<f32> loc("reduce:"(#loc47)), %arg3: tensor<f32> loc("reduce:"(#loc47))) (%arg2: tensor<i32> loc("reduce:"(#loc47)), %arg4: tensor<i32> loc("reduce:"(#loc47)))  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<4xi32>
  }
  func.func private @cumsum(%arg0: tensor<4x6xf32> loc(unknown)) -> tensor<4x6xf32> {
    %0 = call @cumsum_0(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
  func.func private @cumsum_0(%arg0: tensor<4x6xf32> loc(unknown)) -> tensor<4x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 6>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg1: tensor<f32> loc("reduce_window_sum:"(#loc48)), %arg2: tensor<f32> loc("reduce_window_sum:"(#loc48))):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
  func.func private @softplus(%arg0: tensor<4x6xf32> loc(unknown)) -> tensor<4x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<4x6xf32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<4x6xf32>
    %4 = stablehlo.compare NE, %3, %3, FLOAT : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %6 = stablehlo.add %arg0, %5 : tensor<4x6xf32>
    %7 = stablehlo.abs %3 : tensor<4x6xf32>
    %8 = stablehlo.negate %7 : tensor<4x6xf32>
    %9 = stablehlo.exponential %8 : tensor<4x6xf32>
    %10 = stablehlo.log_plus_one %9 : tensor<4x6xf32>
    %11 = stablehlo.add %1, %10 : tensor<4x6xf32>
    %12 = stablehlo.select %4, %6, %11 : tensor<4x6xi1>, tensor<4x6xf32>
    return %12 : tensor<4x6xf32>
  }
  func.func private @_flip(%arg0: tensor<4x6xf32> loc(unknown)) -> tensor<4x6xf32> {
    %0 = stablehlo.reverse %arg0, dims = [1] : tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
  func.func private @_pad(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<f32> loc(unknown)) -> tensor<5x8xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [0, 2], high = [1, 0], interior = [0, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<5x8xf32>
    return %1 : tensor<5x8xf32>
  }
  func.func private @_var(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<6xf32>) -> tensor<1x6xf32>
    %cst_0 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x6xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x6xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<4x6xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4x6xf32>
    %6 = chlo.square %5 : tensor<4x6xf32> -> tensor<4x6xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %8 = stablehlo.subtract %cst_1, %7 : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
    %10 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %11 = stablehlo.divide %9, %10 : tensor<6xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.compare GT, %8, %cst_3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %13 = call @_where(%12, %11, %cst_4) : (tensor<i1>, tensor<6xf32>, tensor<f32>) -> tensor<6xf32>
    return %13 : tensor<6xf32>
  }
  func.func private @_where(%arg0: tensor<i1> loc(unknown), %arg1: tensor<6xf32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<6xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<6xf32>
    return %2 : tensor<6xf32>
  }
  func.func private @_one_hot(%arg0: tensor<4xi32> loc(unknown)) -> tensor<4x5xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x5xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<4x1xi32>) -> tensor<4x5xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x5xi32>) -> tensor<4x5xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<4x5xi32>, tensor<4x5xi32>) -> tensor<4x5xi1>
    %5 = stablehlo.convert %4 : (tensor<4x5xi1>) -> tensor<4x5xf32>
    return %5 : tensor<4x5xf32>
  }
  func.func private @clip(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<f32> loc(unknown), %arg2: tensor<f32> loc(unknown)) -> tensor<4x6xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %2 = stablehlo.maximum %1, %arg0 : tensor<4x6xf32>
    %3 = stablehlo.convert %arg2 : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %5 = stablehlo.minimum %4, %2 : tensor<4x6xf32>
    return %5 : tensor<4x6xf32>
  }
  func.func private @remainder(%arg0: tensor<4xi32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<4xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare EQ, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = call @_where_1(%1, %c_0, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<4xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %8 = stablehlo.compare LT, %4, %7, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.compare LT, %2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<4xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
    %12 = stablehlo.and %11, %6 : tensor<4xi1>
    %13 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %14 = stablehlo.add %4, %13 : tensor<4xi32>
    %15 = stablehlo.select %12, %14, %4 : tensor<4xi1>, tensor<4xi32>
    return %15 : tensor<4xi32>
  }
  func.func private @_where_1(%arg0: tensor<i1> loc(unknown), %arg1: tensor<i32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<i32> loc(unknown)) -> tensor<6xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 6] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x6xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x6xf32>) -> tensor<6xf32>
    return %1 : tensor<6xf32>
  }
  func.func private @closed_call_2(%arg0: tensor<6xf32> loc(unknown)) -> tensor<6xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<6xf32> loc(unknown), %arg2: tensor<i32> loc(unknown)) -> tensor<4x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<6xf32>) -> tensor<1x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<4x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}
