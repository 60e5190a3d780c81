module @jit_places attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x6xf32> loc("x"), %arg1: tensor<4xi32> loc("i"), %arg2: tensor<4xi32> loc("j")) -> (tensor<4x6xf32> {jax.result_info = "result['added']"}, tensor<4x1xf32> {jax.result_info = "result['along']"}, tensor<4x1xf32> {jax.result_info = "result['along_clipped']"}, tensor<4x6xf32> {jax.result_info = "result['bytes']"}, tensor<4x4xf32> {jax.result_info = "result['clipped']"}, tensor<4x6xf32> {jax.result_info = "result['filled']"}, tensor<4xf32> {jax.result_info = "result['in_range']"}, tensor<4xi32> {jax.result_info = "result['integers']"}, tensor<4x6xf32> {jax.result_info = "result['largest']"}, tensor<4x6xf32> {jax.result_info = "result['multiplied']"}, tensor<4xf32> {jax.result_info = "result['pairs']"}, tensor<4x6xf32> {jax.result_info = "result['pairs_added']"}, tensor<4x6xf32> {jax.result_info = "result['plain']"}, tensor<4x6xf32> {jax.result_info = "result['unsigned']"}, tensor<2x3xf32> {jax.result_info = "result['window']"}, tensor<4x6xf32> {jax.result_info = "result['written']"}) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %2 = stablehlo.compare LT, %arg1, %1, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %4 = stablehlo.add %arg1, %3 : tensor<4xi32>
    %5 = stablehlo.select %2, %4, %arg1 : tensor<4xi1>, tensor<4xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %7 = "stablehlo.gather"(%arg0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<4x1xi32>) -> tensor<4x6xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %9 = stablehlo.compare LT, %arg1, %8, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_2 = stablehlo.constant dense<4> : tensor<i32>
    %10 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %11 = stablehlo.add %arg1, %10 : tensor<4xi32>
    %12 = stablehlo.select %9, %11, %arg1 : tensor<4xi1>, tensor<4xi32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %13 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %14 = stablehlo.compare LT, %arg2, %13, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_4 = stablehlo.constant dense<6> : tensor<i32>
    %15 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %16 = stablehlo.add %arg2, %15 : tensor<4xi32>
    %17 = stablehlo.select %14, %16, %arg2 : tensor<4xi1>, tensor<4xi32>
    %18 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %19 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %20 = stablehlo.concatenate %18, %19, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
    %21 = "stablehlo.gather"(%arg0, %20) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x6xf32>, tensor<4x2xi32>) -> tensor<4xf32>
    %22 = call @_take(%arg0, %arg1) : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4x4xf32>
    %23 = call @_take_0(%arg0, %arg1) : (tensor<4x6xf32>, tensor<4xi32>) -> tensor<4x6xf32>
    %24 = call @take_along_axis(%arg0, %0) : (tensor<4x6xf32>, tensor<4x1xi32>) -> tensor<4x1xf32>
    %25 = call @take_along_axis_1(%arg0, %0) : (tensor<4x6xf32>, tensor<4x1xi32>) -> tensor<4x1xf32>
    %26 = stablehlo.convert %arg1 : (tensor<4xi32>) -> tensor<4xui32>
    %27 = stablehlo.convert %26 : (tensor<4xui32>) -> tensor<4xi32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %29 = "stablehlo.gather"(%arg0, %28) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<4x1xi32>) -> tensor<4x6xf32>
    %30 = stablehlo.convert %arg1 : (tensor<4xi32>) -> tensor<4xi8>
    %c_5 = stablehlo.constant dense<0> : tensor<i8>
    %31 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i8>) -> tensor<4xi8>
    %32 = stablehlo.compare LT, %30, %31, SIGNED : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi1>
    %c_6 = stablehlo.constant dense<4> : tensor<i8>
    %33 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i8>) -> tensor<4xi8>
    %34 = stablehlo.add %30, %33 : tensor<4xi8>
    %35 = stablehlo.select %32, %34, %30 : tensor<4xi1>, tensor<4xi8>
    %36 = stablehlo.convert %35 : (tensor<4xi8>) -> tensor<4xi32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %38 = "stablehlo.gather"(%arg0, %37) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<4x1xi32>) -> tensor<4x6xf32>
    %39 = stablehlo.slice %arg1 [0:1] : (tensor<4xi32>) -> tensor<1xi32>
    %40 = stablehlo.reshape %39 : (tensor<1xi32>) -> tensor<i32>
    %41 = stablehlo.slice %arg2 [0:1] : (tensor<4xi32>) -> tensor<1xi32>
    %42 = stablehlo.reshape %41 : (tensor<1xi32>) -> tensor<i32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %43 = stablehlo.compare LT, %40, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_8 = stablehlo.constant dense<4> : tensor<i32>
    %44 = stablehlo.add %40, %c_8 : tensor<i32>
    %45 = stablehlo.select %43, %44, %40 : tensor<i1>, tensor<i32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %46 = stablehlo.compare LT, %42, %c_9, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_10 = stablehlo.constant dense<6> : tensor<i32>
    %47 = stablehlo.add %42, %c_10 : tensor<i32>
    %48 = stablehlo.select %46, %47, %42 : tensor<i1>, tensor<i32>
    %49 = stablehlo.dynamic_slice %arg0, %45, %48, sizes = [2, 3] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %50 = stablehlo.slice %arg0 [0:1, 0:6] : (tensor<4x6xf32>) -> tensor<1x6xf32>
    %51 = stablehlo.reshape %50 : (tensor<1x6xf32>) -> tensor<6xf32>
    %52 = call @argmax(%arg0) : (tensor<4x6xf32>) -> tensor<4xi32>
    %c_11 = stablehlo.constant dense<0> : tensor<i32>
    %53 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %54 = stablehlo.compare LT, %52, %53, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_12 = stablehlo.constant dense<6> : tensor<i32>
    %55 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %56 = stablehlo.add %52, %55 : tensor<4xi32>
    %57 = stablehlo.select %54, %56, %52 : tensor<4xi1>, tensor<4xi32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %59 = "stablehlo.gather"(%51, %58) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<6xf32>, tensor<4x1xi32>) -> tensor<4xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %61 = stablehlo.slice %arg1 [1:2] : (tensor<4xi32>) -> tensor<1xi32>
    %62 = stablehlo.reshape %61 : (tensor<1xi32>) -> tensor<i32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %63 = stablehlo.compare LT, %62, %c_13, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_14 = stablehlo.constant dense<4> : tensor<i32>
    %64 = stablehlo.add %62, %c_14 : tensor<i32>
    %65 = stablehlo.select %63, %64, %62 : tensor<i1>, tensor<i32>
    %c_15 = stablehlo.constant dense<0> : tensor<i32>
    %66 = stablehlo.dynamic_update_slice %arg0, %60, %65, %c_15 : (tensor<4x6xf32>, tensor<2x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %c_16 = stablehlo.constant dense<0> : tensor<i32>
    %67 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %68 = stablehlo.compare LT, %arg1, %67, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_17 = stablehlo.constant dense<4> : tensor<i32>
    %69 = stablehlo.broadcast_in_dim %c_17, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %70 = stablehlo.add %arg1, %69 : tensor<4xi32>
    %71 = stablehlo.select %68, %70, %arg1 : tensor<4xi1>, tensor<4xi32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %cst_18 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %74 = "stablehlo.scatter"(%arg0, %72, %73) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32> loc("scatter-add:"(#loc28)), %arg4: tensor<f32> loc("scatter-add:"(#loc28))):
      %115 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %115 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<4x1xi32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %c_19 = stablehlo.constant dense<0> : tensor<i32>
    %75 = stablehlo.broadcast_in_dim %c_19, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %76 = stablehlo.compare LT, %arg1, %75, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_20 = stablehlo.constant dense<4> : tensor<i32>
    %77 = stablehlo.broadcast_in_dim %c_20, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %78 = stablehlo.add %arg1, %77 : tensor<4xi32>
    %79 = stablehlo.select %76, %78, %arg1 : tensor<4xi1>, tensor<4xi32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %cst_21 = stablehlo.constant dense<3.000000e-01> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %82 = "stablehlo.scatter"(%arg0, %80, %81) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32> loc("scatter-max:"(#loc30)), %arg4: tensor<f32> loc("scatter-max:"(#loc30))):
      %115 = stablehlo.maximum %arg3, %arg4 : tensor<f32>
      stablehlo.return %115 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<4x1xi32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %c_22 = stablehlo.constant dense<0> : tensor<i32>
    %83 = stablehlo.broadcast_in_dim %c_22, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %84 = stablehlo.compare LT, %arg1, %83, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_23 = stablehlo.constant dense<4> : tensor<i32>
    %85 = stablehlo.broadcast_in_dim %c_23, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %86 = stablehlo.add %arg1, %85 : tensor<4xi32>
    %87 = stablehlo.select %84, %86, %arg1 : tensor<4xi1>, tensor<4xi32>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %cst_24 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %90 = "stablehlo.scatter"(%arg0, %88, %89) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32> loc("scatter-mul:"(#loc32)), %arg4: tensor<f32> loc("scatter-mul:"(#loc32))):
      %115 = stablehlo.multiply %arg3, %arg4 : tensor<f32>
      stablehlo.return %115 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<4x1xi32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %c_25 = stablehlo.constant dense<0> : tensor<i32>
    %91 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %92 = stablehlo.compare LT, %arg1, %91, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_26 = stablehlo.constant dense<4> : tensor<i32>
    %93 = stablehlo.broadcast_in_dim %c_26, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %94 = stablehlo.add %arg1, %93 : tensor<4xi32>
    %95 = stablehlo.select %92, %94, %arg1 : tensor<4xi1>, tensor<4xi32>
    %c_27 = stablehlo.constant dense<0> : tensor<i32>
    %96 = stablehlo.broadcast_in_dim %c_27, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %97 = stablehlo.compare LT, %arg2, %96, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_28 = stablehlo.constant dense<6> : tensor<i32>
    %98 = stablehlo.broadcast_in_dim %c_28, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %99 = stablehlo.add %arg2, %98 : tensor<4xi32>
    %100 = stablehlo.select %97, %99, %arg2 : tensor<4xi1>, tensor<4xi32>
    %101 = stablehlo.broadcast_in_dim %95, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %102 = stablehlo.broadcast_in_dim %100, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %103 = stablehlo.concatenate %101, %102, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
    %cst_29 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %105 = "stablehlo.scatter"(%arg0, %103, %104) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32> loc("scatter-add:"(#loc28)), %arg4: tensor<f32> loc("scatter-add:"(#loc28))):
      %115 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %115 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<4x2xi32>, tensor<4xf32>) -> tensor<4x6xf32>
    %106 = stablehlo.iota dim = 0 : tensor<4xi32>
    %c_30 = stablehlo.constant dense<0> : tensor<i32>
    %107 = stablehlo.broadcast_in_dim %c_30, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %108 = stablehlo.compare LT, %arg1, %107, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_31 = stablehlo.constant dense<4> : tensor<i32>
    %109 = stablehlo.broadcast_in_dim %c_31, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %110 = stablehlo.add %arg1, %109 : tensor<4xi32>
    %111 = stablehlo.select %108, %110, %arg1 : tensor<4xi1>, tensor<4xi32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %c_32 = stablehlo.constant dense<1> : tensor<i32>
    %113 = stablehlo.broadcast_in_dim %c_32, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %114 = "stablehlo.scatter"(%106, %112, %113) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<i32> loc("scatter-min:"(#loc36)), %arg4: tensor<i32> loc("scatter-min:"(#loc36))):
      %115 = stablehlo.minimum %arg3, %arg4 : tensor<i32>
      stablehlo.return %115 : tensor<i32>
    }) : (tensor<4xi32>, tensor<4x1xi32>, tensor<4xi32>) -> tensor<4xi32>
    return %74, %24, %25, %38, %22, %23, %59, %114, %82, %90, %21, %105, %7, %29, %49, %66 : tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x6xf32>, tensor<4x4xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x3xf32>, tensor<4x6xf32>
  }
  func.func private @_take(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<4xi32> loc(unknown)) -> tensor<4x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %1 = "stablehlo.gather"(%arg0, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 4, 1>}> : (tensor<4x6xf32>, tensor<4x1xi32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
  func.func private @_take_0(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<4xi32> loc(unknown)) -> tensor<4x6xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %c_0 = stablehlo.constant dense<4> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4xi32>
    %4 = call @_where(%1, %3, %arg1) : (tensor<4xi1>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %c_1 = stablehlo.constant dense<3> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<4x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<4x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [1] : (tensor<4x1xi1>, tensor<i1>) -> tensor<4xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<4x1xi32>) -> tensor<4x6xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<4xi1>) -> tensor<4x6xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<4x6xi1>, tensor<4x6xf32>
    return %16 : tensor<4x6xf32>
  }
  func.func private @_where(%arg0: tensor<4xi1> loc(unknown), %arg1: tensor<4xi32> loc(unknown), %arg2: tensor<4xi32> loc(unknown)) -> tensor<4xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<4xi1>, tensor<4xi32>
    return %0 : tensor<4xi32>
  }
  func.func private @take_along_axis(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<4x1xi32> loc(unknown)) -> tensor<4x1xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x1xi1>
    %c_0 = stablehlo.constant dense<6> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<4x1xi1>, tensor<4x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<4x1xi32>) -> tensor<4x1x1xi32>
    %c_1 = stablehlo.constant dense<5> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<4x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<4x1x1xi32>, tensor<4x1x1xi32>) -> tensor<4x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<4x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<4x1x1xi32>, tensor<4x1x1xi32>) -> tensor<4x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<4x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<4x1x1xi1>, tensor<i1>) -> tensor<4x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x6xf32>, tensor<4x1x1xi32>) -> tensor<4x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<4x1xi1>, tensor<4x1xf32>
    return %15 : tensor<4x1xf32>
  }
  func.func private @take_along_axis_1(%arg0: tensor<4x6xf32> loc(unknown), %arg1: tensor<4x1xi32> loc(unknown)) -> tensor<4x1xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x1xi1>
    %c_0 = stablehlo.constant dense<6> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<4x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<4x1xi1>, tensor<4x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<4x1xi32>) -> tensor<4x1x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x6xf32>, tensor<4x1x1xi32>) -> tensor<4x1xf32>
    return %6 : tensor<4x1xf32>
  }
  func.func private @argmax(%arg0: tensor<4x6xf32> loc("jit(places)"(#loc115))) -> tensor<4xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<4x6xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%arg1: tensor<f32> loc("reduce:"(#loc50)), %arg3: tensor<f32> loc("reduce:"(#loc50))) (%arg2: tensor<i32> loc("reduce:"(#loc50)), %arg4: tensor<i32> loc("reduce:"(#loc50)))  {
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
}
