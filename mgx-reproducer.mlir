// configuration: builtin.module(mgx-normalize-ops,mgx-fold-constants{keep-quantized=true},mgx-normalize-control-flow,mgx-eliminate-identities,mgx-simplify-gathers,mgx-simplify-reshapes,mgx-eliminate-pads,mgx-rewrite-pooling)
module {
  func.func @main(%arg0: tensor<?x?xi64, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?]>> {mgx.name = "input_ids"}, %arg1: tensor<?x?xi64, #mgx.dims<[batch_size : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> {mgx.name = "attention_mask"}, %arg2: tensor<?x?xi64, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?]>> {mgx.name = "position_ids"}, %arg3: tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, past_sequence_length : 1 ... ?, _]>> {mgx.name = "past_key_values.0.key"}, %arg4: tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, past_sequence_length : 1 ... ?, _]>> {mgx.name = "past_key_values.0.value"}) -> (tensor<?x?x200xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> {mgx.name = "logits"}, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>> {mgx.name = "present.0.key"}, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>> {mgx.name = "present.0.value"}) {
    %0 = mgx.literal "embeddings" : tensor<200x128xf32>
    %1 = mgx.literal "constant_1" : tensor<64x64xf32>
    %2 = mgx.literal "constant_2" : tensor<64x64xf32>
    %3 = mgx.constant dense<0.000000e+00> : tensor<f32>
    %4 = mgx.constant dense<-3.40282347E+38> : tensor<f32>
    %5 = mgx.constant dense<2.000000e+00> : tensor<f32>
    %6 = mgx.constant dense<9.99999997E-7> : tensor<f32>
    %7 = mgx.constant dense<1.000000e+00> : tensor<f32>
    %8 = mgx.literal "layers.0.first" : tensor<128xf32>
    %9 = mgx.literal "layers.0.q/codes" : tensor<128x4x16xui8>
    %10 = mgx.literal "layers.0.q/scales" : tensor<512xf32>
    %11 = mgx.literal "layers.0.q/zeros" : tensor<512xf32>
    %12 = mgx.literal "layers.0.k/codes" : tensor<128x4x16xui8>
    %13 = mgx.literal "layers.0.k/scales" : tensor<512xf32>
    %14 = mgx.literal "layers.0.k/zeros" : tensor<512xf32>
    %15 = mgx.literal "layers.0.v/codes" : tensor<128x4x16xui8>
    %16 = mgx.literal "layers.0.v/scales" : tensor<512xf32>
    %17 = mgx.literal "layers.0.v/zeros" : tensor<512xf32>
    %18 = mgx.constant dense<1.250000e-01> : tensor<f32>
    %19 = mgx.literal "layers.0.o/codes" : tensor<128x4x16xui8>
    %20 = mgx.literal "layers.0.o/scales" : tensor<512xf32>
    %21 = mgx.literal "layers.0.o/zeros" : tensor<512xf32>
    %22 = mgx.constant dense<2.000000e+00> : tensor<f32>
    %23 = mgx.constant dense<9.99999997E-7> : tensor<f32>
    %24 = mgx.constant dense<1.000000e+00> : tensor<f32>
    %25 = mgx.literal "layers.0.second" : tensor<128xf32>
    %26 = mgx.literal "layers.0.gate/codes" : tensor<256x4x16xui8>
    %27 = mgx.literal "layers.0.gate/scales" : tensor<1024xf32>
    %28 = mgx.literal "layers.0.gate/zeros" : tensor<1024xf32>
    %29 = mgx.literal "layers.0.up/codes" : tensor<256x4x16xui8>
    %30 = mgx.literal "layers.0.up/scales" : tensor<1024xf32>
    %31 = mgx.literal "layers.0.up/zeros" : tensor<1024xf32>
    %32 = mgx.literal "layers.0.down/codes" : tensor<128x8x16xui8>
    %33 = mgx.literal "layers.0.down/scales" : tensor<1024xf32>
    %34 = mgx.literal "layers.0.down/zeros" : tensor<1024xf32>
    %35 = mgx.constant dense<2.000000e+00> : tensor<f32>
    %36 = mgx.constant dense<9.99999997E-7> : tensor<f32>
    %37 = mgx.constant dense<1.000000e+00> : tensor<f32>
    %38 = mgx.literal "last" : tensor<128xf32>
    %39 = mgx.literal "head/codes" : tensor<200x4x16xui8>
    %40 = mgx.literal "head/scales" : tensor<800xf32>
    %41 = mgx.literal "head/zeros" : tensor<800xf32>
    %42 = mgx.gather %0[%arg0] axis = 0 : tensor<200x128xf32>, tensor<?x?xi64, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %43 = mgx.gather %1[%arg2] axis = 0 : tensor<64x64xf32>, tensor<?x?xi64, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?]>> -> tensor<?x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %44 = mgx.unsqueeze %43 axes = [1] : tensor<?x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %45 = mgx.gather %2[%arg2] axis = 0 : tensor<64x64xf32>, tensor<?x?xi64, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?]>> -> tensor<?x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %46 = mgx.unsqueeze %45 axes = [1] : tensor<?x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %47 = mgx.dimensions_of %42 start = 0 end = 3 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<3xi64>
    %48 = mgx.slice %47 axes = [0] starts = [1] ends = [2] : tensor<3xi64> -> tensor<1xi64>
    %49 = mgx.squeeze %48 axes = [0] : tensor<1xi64> -> tensor<i64>
    %50 = mgx.dimensions_of %arg1 start = 0 end = 2 : tensor<?x?xi64, #mgx.dims<[batch_size : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<2xi64>
    %51 = mgx.slice %50 axes = [0] starts = [1] ends = [2] : tensor<2xi64> -> tensor<1xi64>
    %52 = mgx.squeeze %51 axes = [0] : tensor<1xi64> -> tensor<i64>
    %53 = mgx.iota : tensor<?xi64, #mgx.dims<["past_sequence_length+sequence_length" : 2 ... ?]>>
    %54 = mgx.iota : tensor<?xi64, #mgx.dims<[sequence_length : 1 ... ?]>>
    %55 = mgx.sub %52, %49 : tensor<i64>, tensor<i64> -> tensor<i64>
    %56 = mgx.multibroadcast %55 : tensor<i64> -> tensor<?xi64, #mgx.dims<[sequence_length : 1 ... ?]>>
    %57 = mgx.add %54, %56 : tensor<?xi64, #mgx.dims<[sequence_length : 1 ... ?]>>, tensor<?xi64, #mgx.dims<[sequence_length : 1 ... ?]>> -> tensor<?xi64, #mgx.dims<[sequence_length : 1 ... ?]>>
    %58 = mgx.unsqueeze %57 axes = [1] : tensor<?xi64, #mgx.dims<[sequence_length : 1 ... ?]>> -> tensor<?x1xi64, #mgx.dims<[sequence_length : 1 ... ?, _]>>
    %59 = mgx.multibroadcast %53 : tensor<?xi64, #mgx.dims<["past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x?xi64, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %60 = mgx.multibroadcast %58 : tensor<?x1xi64, #mgx.dims<[sequence_length : 1 ... ?, _]>> -> tensor<?x?xi64, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %61 = mgx.less %59, %60 : tensor<?x?xi64, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x?xi64, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x?xi1, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %62 = mgx.equal %59, %60 : tensor<?x?xi64, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x?xi64, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x?xi1, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %63 = mgx.logical_or %61, %62 : tensor<?x?xi1, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x?xi1, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x?xi1, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %64 = mgx.convert %arg1 : tensor<?x?xi64, #mgx.dims<[batch_size : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x?xi1, #mgx.dims<[batch_size : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %65 = mgx.unsqueeze %64 axes = [1, 2] : tensor<?x?xi1, #mgx.dims<[batch_size : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x1x1x?xi1, #mgx.dims<[batch_size : 1 ... ?, _, _, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %66 = mgx.multibroadcast %63 : tensor<?x?xi1, #mgx.dims<[sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x1x?x?xi1, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %67 = mgx.multibroadcast %65 : tensor<?x1x1x?xi1, #mgx.dims<[batch_size : 1 ... ?, _, _, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x1x?x?xi1, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %68 = mgx.logical_and %66, %67 : tensor<?x1x?x?xi1, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x1x?x?xi1, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x1x?x?xi1, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %69 = mgx.multibroadcast %3 : tensor<f32> -> tensor<?x1x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %70 = mgx.multibroadcast %4 : tensor<f32> -> tensor<?x1x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %71 = mgx.where %68, %69, %70 : tensor<?x1x?x?xi1, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x1x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x1x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x1x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %72 = mgx.multibroadcast %5 : tensor<f32> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %73 = mgx.pow %42, %72 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %74 = mgx.reduce_mean %73 axes = [2] : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %75 = mgx.multibroadcast %6 : tensor<f32> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %76 = mgx.add %74, %75 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %77 = mgx.sqrt %76 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %78 = mgx.multibroadcast %7 : tensor<f32> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %79 = mgx.div %78, %77 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %80 = mgx.multibroadcast %79 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %81 = mgx.mul %42, %80 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %82 = mgx.multibroadcast %8 : tensor<128xf32> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %83 = mgx.mul %82, %81 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %84 = mgx.reshape %9 : tensor<128x4x16xui8> -> tensor<128x64xui8>
    %85 = mgx.unpack %84 : tensor<128x64xui8> -> tensor<128x128xui4>
    %86 = mgx.reshape %10 : tensor<512xf32> -> tensor<128x4xf32>
    %87 = mgx.reshape %11 : tensor<512xf32> -> tensor<128x4xf32>
    %88 = mgx.convert %85 : tensor<128x128xui4> -> tensor<128x128xf32>
    %89 = mgx.unsqueeze %87 axes = [2] : tensor<128x4xf32> -> tensor<128x4x1xf32>
    %90 = mgx.multibroadcast %89 : tensor<128x4x1xf32> -> tensor<128x4x32xf32>
    %91 = mgx.reshape %90 : tensor<128x4x32xf32> -> tensor<128x128xf32>
    %92 = mgx.sub %88, %91 : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    %93 = mgx.unsqueeze %86 axes = [2] : tensor<128x4xf32> -> tensor<128x4x1xf32>
    %94 = mgx.multibroadcast %93 : tensor<128x4x1xf32> -> tensor<128x4x32xf32>
    %95 = mgx.reshape %94 : tensor<128x4x32xf32> -> tensor<128x128xf32>
    %96 = mgx.mul %92, %95 : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    %97 = mgx.transpose %96 permutation = [1, 0] : tensor<128x128xf32> -> tensor<128x128xf32>
    %98 = mgx.multibroadcast %97 : tensor<128x128xf32> -> tensor<?x128x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>>
    %99 = mgx.dot %83, %98 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x128x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %100 = mgx.reshape %99 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x2x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _, _]>>
    %101 = mgx.transpose %100 permutation = [0, 2, 1, 3] : tensor<?x?x2x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %102 = mgx.reshape %12 : tensor<128x4x16xui8> -> tensor<128x64xui8>
    %103 = mgx.unpack %102 : tensor<128x64xui8> -> tensor<128x128xui4>
    %104 = mgx.reshape %13 : tensor<512xf32> -> tensor<128x4xf32>
    %105 = mgx.reshape %14 : tensor<512xf32> -> tensor<128x4xf32>
    %106 = mgx.convert %103 : tensor<128x128xui4> -> tensor<128x128xf32>
    %107 = mgx.unsqueeze %105 axes = [2] : tensor<128x4xf32> -> tensor<128x4x1xf32>
    %108 = mgx.multibroadcast %107 : tensor<128x4x1xf32> -> tensor<128x4x32xf32>
    %109 = mgx.reshape %108 : tensor<128x4x32xf32> -> tensor<128x128xf32>
    %110 = mgx.sub %106, %109 : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    %111 = mgx.unsqueeze %104 axes = [2] : tensor<128x4xf32> -> tensor<128x4x1xf32>
    %112 = mgx.multibroadcast %111 : tensor<128x4x1xf32> -> tensor<128x4x32xf32>
    %113 = mgx.reshape %112 : tensor<128x4x32xf32> -> tensor<128x128xf32>
    %114 = mgx.mul %110, %113 : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    %115 = mgx.transpose %114 permutation = [1, 0] : tensor<128x128xf32> -> tensor<128x128xf32>
    %116 = mgx.multibroadcast %115 : tensor<128x128xf32> -> tensor<?x128x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>>
    %117 = mgx.dot %83, %116 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x128x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %118 = mgx.reshape %117 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x2x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _, _]>>
    %119 = mgx.transpose %118 permutation = [0, 2, 1, 3] : tensor<?x?x2x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %120 = mgx.reshape %15 : tensor<128x4x16xui8> -> tensor<128x64xui8>
    %121 = mgx.unpack %120 : tensor<128x64xui8> -> tensor<128x128xui4>
    %122 = mgx.reshape %16 : tensor<512xf32> -> tensor<128x4xf32>
    %123 = mgx.reshape %17 : tensor<512xf32> -> tensor<128x4xf32>
    %124 = mgx.convert %121 : tensor<128x128xui4> -> tensor<128x128xf32>
    %125 = mgx.unsqueeze %123 axes = [2] : tensor<128x4xf32> -> tensor<128x4x1xf32>
    %126 = mgx.multibroadcast %125 : tensor<128x4x1xf32> -> tensor<128x4x32xf32>
    %127 = mgx.reshape %126 : tensor<128x4x32xf32> -> tensor<128x128xf32>
    %128 = mgx.sub %124, %127 : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    %129 = mgx.unsqueeze %122 axes = [2] : tensor<128x4xf32> -> tensor<128x4x1xf32>
    %130 = mgx.multibroadcast %129 : tensor<128x4x1xf32> -> tensor<128x4x32xf32>
    %131 = mgx.reshape %130 : tensor<128x4x32xf32> -> tensor<128x128xf32>
    %132 = mgx.mul %128, %131 : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    %133 = mgx.transpose %132 permutation = [1, 0] : tensor<128x128xf32> -> tensor<128x128xf32>
    %134 = mgx.multibroadcast %133 : tensor<128x128xf32> -> tensor<?x128x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>>
    %135 = mgx.dot %83, %134 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x128x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %136 = mgx.reshape %135 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x2x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _, _]>>
    %137 = mgx.transpose %136 permutation = [0, 2, 1, 3] : tensor<?x?x2x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %138 = mgx.slice %101 axes = [3] starts = [32] ends = [64] : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %139 = mgx.slice %101 axes = [3] starts = [0] ends = [32] : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %140 = mgx.neg %138 : tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %141 = mgx.concat %140, %139 axis = 3 : tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %142 = mgx.multibroadcast %44 : tensor<?x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %143 = mgx.mul %101, %142 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %144 = mgx.multibroadcast %46 : tensor<?x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %145 = mgx.mul %141, %144 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %146 = mgx.add %143, %145 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %147 = mgx.slice %119 axes = [3] starts = [32] ends = [64] : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %148 = mgx.slice %119 axes = [3] starts = [0] ends = [32] : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %149 = mgx.neg %147 : tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %150 = mgx.concat %149, %148 axis = 3 : tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x32xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %151 = mgx.multibroadcast %44 : tensor<?x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %152 = mgx.mul %119, %151 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %153 = mgx.multibroadcast %46 : tensor<?x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %154 = mgx.mul %150, %153 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %155 = mgx.add %152, %154 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %156 = mgx.concat %arg3, %155 axis = 2 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, past_sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>>
    %157 = mgx.concat %arg4, %137 axis = 2 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, past_sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>>
    %158 = mgx.unsqueeze %156 axes = [2] : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>> -> tensor<?x2x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>>
    %159 = mgx.reshape %158 : tensor<?x2x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>>
    %160 = mgx.unsqueeze %157 axes = [2] : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>> -> tensor<?x2x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>>
    %161 = mgx.reshape %160 : tensor<?x2x1x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>>
    %162 = mgx.transpose %159 permutation = [0, 1, 3, 2] : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>> -> tensor<?x2x64x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, _, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %163 = mgx.dot %146, %162 : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>, tensor<?x2x64x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, _, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %164 = mgx.multibroadcast %18 : tensor<f32> -> tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %165 = mgx.mul %163, %164 : tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %166 = mgx.multibroadcast %71 : tensor<?x1x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %167 = mgx.add %165, %166 : tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>> -> tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %168 = mgx.softmax %167 axis = 3 : tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>
    %169 = mgx.dot %168, %161 : tensor<?x2x?x?xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, "past_sequence_length+sequence_length" : 2 ... ?]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>> -> tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>>
    %170 = mgx.transpose %169 permutation = [0, 2, 1, 3] : tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, sequence_length : 1 ... ?, _]>> -> tensor<?x?x2x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _, _]>>
    %171 = mgx.reshape %170 : tensor<?x?x2x64xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %172 = mgx.reshape %19 : tensor<128x4x16xui8> -> tensor<128x64xui8>
    %173 = mgx.unpack %172 : tensor<128x64xui8> -> tensor<128x128xui4>
    %174 = mgx.reshape %20 : tensor<512xf32> -> tensor<128x4xf32>
    %175 = mgx.reshape %21 : tensor<512xf32> -> tensor<128x4xf32>
    %176 = mgx.convert %173 : tensor<128x128xui4> -> tensor<128x128xf32>
    %177 = mgx.unsqueeze %175 axes = [2] : tensor<128x4xf32> -> tensor<128x4x1xf32>
    %178 = mgx.multibroadcast %177 : tensor<128x4x1xf32> -> tensor<128x4x32xf32>
    %179 = mgx.reshape %178 : tensor<128x4x32xf32> -> tensor<128x128xf32>
    %180 = mgx.sub %176, %179 : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    %181 = mgx.unsqueeze %174 axes = [2] : tensor<128x4xf32> -> tensor<128x4x1xf32>
    %182 = mgx.multibroadcast %181 : tensor<128x4x1xf32> -> tensor<128x4x32xf32>
    %183 = mgx.reshape %182 : tensor<128x4x32xf32> -> tensor<128x128xf32>
    %184 = mgx.mul %180, %183 : tensor<128x128xf32>, tensor<128x128xf32> -> tensor<128x128xf32>
    %185 = mgx.transpose %184 permutation = [1, 0] : tensor<128x128xf32> -> tensor<128x128xf32>
    %186 = mgx.multibroadcast %185 : tensor<128x128xf32> -> tensor<?x128x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>>
    %187 = mgx.dot %171, %186 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x128x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %188 = mgx.add %42, %187 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %189 = mgx.multibroadcast %22 : tensor<f32> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %190 = mgx.pow %188, %189 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %191 = mgx.reduce_mean %190 axes = [2] : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %192 = mgx.multibroadcast %23 : tensor<f32> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %193 = mgx.add %191, %192 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %194 = mgx.sqrt %193 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %195 = mgx.multibroadcast %24 : tensor<f32> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %196 = mgx.div %195, %194 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %197 = mgx.multibroadcast %196 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %198 = mgx.mul %188, %197 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %199 = mgx.multibroadcast %25 : tensor<128xf32> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %200 = mgx.mul %199, %198 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %201 = mgx.reshape %26 : tensor<256x4x16xui8> -> tensor<256x64xui8>
    %202 = mgx.unpack %201 : tensor<256x64xui8> -> tensor<256x128xui4>
    %203 = mgx.reshape %27 : tensor<1024xf32> -> tensor<256x4xf32>
    %204 = mgx.reshape %28 : tensor<1024xf32> -> tensor<256x4xf32>
    %205 = mgx.convert %202 : tensor<256x128xui4> -> tensor<256x128xf32>
    %206 = mgx.unsqueeze %204 axes = [2] : tensor<256x4xf32> -> tensor<256x4x1xf32>
    %207 = mgx.multibroadcast %206 : tensor<256x4x1xf32> -> tensor<256x4x32xf32>
    %208 = mgx.reshape %207 : tensor<256x4x32xf32> -> tensor<256x128xf32>
    %209 = mgx.sub %205, %208 : tensor<256x128xf32>, tensor<256x128xf32> -> tensor<256x128xf32>
    %210 = mgx.unsqueeze %203 axes = [2] : tensor<256x4xf32> -> tensor<256x4x1xf32>
    %211 = mgx.multibroadcast %210 : tensor<256x4x1xf32> -> tensor<256x4x32xf32>
    %212 = mgx.reshape %211 : tensor<256x4x32xf32> -> tensor<256x128xf32>
    %213 = mgx.mul %209, %212 : tensor<256x128xf32>, tensor<256x128xf32> -> tensor<256x128xf32>
    %214 = mgx.transpose %213 permutation = [1, 0] : tensor<256x128xf32> -> tensor<128x256xf32>
    %215 = mgx.multibroadcast %214 : tensor<128x256xf32> -> tensor<?x128x256xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>>
    %216 = mgx.dot %200, %215 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x128x256xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>> -> tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %217 = mgx.sigmoid %216 : tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %218 = mgx.mul %216, %217 : tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %219 = mgx.reshape %29 : tensor<256x4x16xui8> -> tensor<256x64xui8>
    %220 = mgx.unpack %219 : tensor<256x64xui8> -> tensor<256x128xui4>
    %221 = mgx.reshape %30 : tensor<1024xf32> -> tensor<256x4xf32>
    %222 = mgx.reshape %31 : tensor<1024xf32> -> tensor<256x4xf32>
    %223 = mgx.convert %220 : tensor<256x128xui4> -> tensor<256x128xf32>
    %224 = mgx.unsqueeze %222 axes = [2] : tensor<256x4xf32> -> tensor<256x4x1xf32>
    %225 = mgx.multibroadcast %224 : tensor<256x4x1xf32> -> tensor<256x4x32xf32>
    %226 = mgx.reshape %225 : tensor<256x4x32xf32> -> tensor<256x128xf32>
    %227 = mgx.sub %223, %226 : tensor<256x128xf32>, tensor<256x128xf32> -> tensor<256x128xf32>
    %228 = mgx.unsqueeze %221 axes = [2] : tensor<256x4xf32> -> tensor<256x4x1xf32>
    %229 = mgx.multibroadcast %228 : tensor<256x4x1xf32> -> tensor<256x4x32xf32>
    %230 = mgx.reshape %229 : tensor<256x4x32xf32> -> tensor<256x128xf32>
    %231 = mgx.mul %227, %230 : tensor<256x128xf32>, tensor<256x128xf32> -> tensor<256x128xf32>
    %232 = mgx.transpose %231 permutation = [1, 0] : tensor<256x128xf32> -> tensor<128x256xf32>
    %233 = mgx.multibroadcast %232 : tensor<128x256xf32> -> tensor<?x128x256xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>>
    %234 = mgx.dot %200, %233 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x128x256xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>> -> tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %235 = mgx.mul %218, %234 : tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %236 = mgx.reshape %32 : tensor<128x8x16xui8> -> tensor<128x128xui8>
    %237 = mgx.unpack %236 : tensor<128x128xui8> -> tensor<128x256xui4>
    %238 = mgx.reshape %33 : tensor<1024xf32> -> tensor<128x8xf32>
    %239 = mgx.reshape %34 : tensor<1024xf32> -> tensor<128x8xf32>
    %240 = mgx.convert %237 : tensor<128x256xui4> -> tensor<128x256xf32>
    %241 = mgx.unsqueeze %239 axes = [2] : tensor<128x8xf32> -> tensor<128x8x1xf32>
    %242 = mgx.multibroadcast %241 : tensor<128x8x1xf32> -> tensor<128x8x32xf32>
    %243 = mgx.reshape %242 : tensor<128x8x32xf32> -> tensor<128x256xf32>
    %244 = mgx.sub %240, %243 : tensor<128x256xf32>, tensor<128x256xf32> -> tensor<128x256xf32>
    %245 = mgx.unsqueeze %238 axes = [2] : tensor<128x8xf32> -> tensor<128x8x1xf32>
    %246 = mgx.multibroadcast %245 : tensor<128x8x1xf32> -> tensor<128x8x32xf32>
    %247 = mgx.reshape %246 : tensor<128x8x32xf32> -> tensor<128x256xf32>
    %248 = mgx.mul %244, %247 : tensor<128x256xf32>, tensor<128x256xf32> -> tensor<128x256xf32>
    %249 = mgx.transpose %248 permutation = [1, 0] : tensor<128x256xf32> -> tensor<256x128xf32>
    %250 = mgx.multibroadcast %249 : tensor<256x128xf32> -> tensor<?x256x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>>
    %251 = mgx.dot %235, %250 : tensor<?x?x256xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x256x128xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %252 = mgx.add %188, %251 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %253 = mgx.multibroadcast %35 : tensor<f32> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %254 = mgx.pow %252, %253 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %255 = mgx.reduce_mean %254 axes = [2] : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %256 = mgx.multibroadcast %36 : tensor<f32> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %257 = mgx.add %255, %256 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %258 = mgx.sqrt %257 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %259 = mgx.multibroadcast %37 : tensor<f32> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %260 = mgx.div %259, %258 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %261 = mgx.multibroadcast %260 : tensor<?x?x1xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %262 = mgx.mul %252, %261 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %263 = mgx.multibroadcast %38 : tensor<128xf32> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %264 = mgx.mul %263, %262 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>> -> tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    %265 = mgx.reshape %39 : tensor<200x4x16xui8> -> tensor<200x64xui8>
    %266 = mgx.unpack %265 : tensor<200x64xui8> -> tensor<200x128xui4>
    %267 = mgx.reshape %40 : tensor<800xf32> -> tensor<200x4xf32>
    %268 = mgx.reshape %41 : tensor<800xf32> -> tensor<200x4xf32>
    %269 = mgx.convert %266 : tensor<200x128xui4> -> tensor<200x128xf32>
    %270 = mgx.unsqueeze %268 axes = [2] : tensor<200x4xf32> -> tensor<200x4x1xf32>
    %271 = mgx.multibroadcast %270 : tensor<200x4x1xf32> -> tensor<200x4x32xf32>
    %272 = mgx.reshape %271 : tensor<200x4x32xf32> -> tensor<200x128xf32>
    %273 = mgx.sub %269, %272 : tensor<200x128xf32>, tensor<200x128xf32> -> tensor<200x128xf32>
    %274 = mgx.unsqueeze %267 axes = [2] : tensor<200x4xf32> -> tensor<200x4x1xf32>
    %275 = mgx.multibroadcast %274 : tensor<200x4x1xf32> -> tensor<200x4x32xf32>
    %276 = mgx.reshape %275 : tensor<200x4x32xf32> -> tensor<200x128xf32>
    %277 = mgx.mul %273, %276 : tensor<200x128xf32>, tensor<200x128xf32> -> tensor<200x128xf32>
    %278 = mgx.transpose %277 permutation = [1, 0] : tensor<200x128xf32> -> tensor<128x200xf32>
    %279 = mgx.multibroadcast %278 : tensor<128x200xf32> -> tensor<?x128x200xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>>
    %280 = mgx.dot %264, %279 : tensor<?x?x128xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x128x200xf32, #mgx.dims<[batch_size : 1 ... ?, _, _]>> -> tensor<?x?x200xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>
    return %280, %156, %157 : tensor<?x?x200xf32, #mgx.dims<[batch_size : 1 ... ?, sequence_length : 1 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>>, tensor<?x2x?x64xf32, #mgx.dims<[batch_size : 1 ... ?, _, "past_sequence_length+sequence_length" : 2 ... ?, _]>>
  }
}
