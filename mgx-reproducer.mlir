// configuration: builtin.module(mgx-simplify-algebra,mgx-fold-constants,mgx-simplify-reshapes,mgx-eliminate-identities,mgx-sink-views,mgx-simplify-reshapes,mgx-fuse-horizontal,mgx-fold-constants,mgx-layout-weights,mgx-find-attention,mgx-rewrite-reduce,mgx-layout-convolution,mgx-simplify-reshapes)
module {
  func.func @main(%arg0: tensor<?x3x32x32xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> {mgx.name = "x"}) -> (tensor<?x10xf32, #mgx.dims<[batch : 1 ... ?, _]>> {mgx.name = "y"}) {
    %0 = mgx.constant dense<1.000000e+00> : tensor<f32>
    %1 = mgx.constant dense<0.000000e+00> : tensor<f32>
    %2 = mgx.constant dense<5.000000e-01> : tensor<f32>
    %3 = mgx.constant dense<0.166666672> : tensor<f32>
    %4 = mgx.constant dense<[0.0172063671, -0.0239095818, -0.00340436702, -0.035960719, 0.0273094755, -0.0181182809, -0.0352410972, -0.0159730092, -0.00817044359, 0.0425640494]> : tensor<10xf32>
    %5 = mgx.constant dense<[-0.0236403197, 0.0607663691, 0.0593602397, 0.10518723, 0.0562469065, -0.182282865, -0.0219399575, -0.115568109, 0.0801847204, -0.0313515253, -0.024728179, 0.0123756882, -0.00678863237, 0.0473165028, -0.0572306328, -0.0592514202, -0.251824945, -0.0870233699, -0.00873960461, 0.0279097594, -0.080503337, 0.0342400968, 1.412520e-01, 0.135315582, 0.0403277948, -0.00967581942, -0.0362038426, -0.0537856482, 0.0516634695, -0.0592447631, -0.0640946403, 0.0250058305, -0.124522917, -1.69450956E-4, 0.0193432309, -0.0108480277, -0.101758718, 9.78846801E-4, 0.12930122, -0.036294464]> : tensor<40xf32>
    %6 = mgx.constant dense<[-0.085284695, -0.154579297, 0.12254665, 0.0398974381, 0.0141764013, -0.0616239421, 0.00600933749, 0.174017236, 0.180394083, -6.576080e-03, -0.121769443, -0.0988937914, 0.0222201589, 0.0579131469, 0.0611669645, 0.145511419, 0.0140861245, 0.0732063353, -0.0485955738, 0.0678910464, 0.0246978272, 0.133595929, -0.0274653435, -0.120416507, 0.0854542329, -0.256249487, -1.10502275E-4, 0.0943285227, -0.131900504, -0.0621814802, 0.272275239, -0.0365600288]> : tensor<32xf32>
    %7 = mgx.constant dense<[-0.031118067, 0.153944418, 0.105837546, -0.101872101, -0.0370676033, 0.0692623555, 0.104235992, 0.103382252, -0.023014199, -0.112962447, 0.0191387143, -8.521190e-02, -0.195983112, -0.0867525339, 0.0437776409, -0.0323908105, -0.0885701104, -0.0198084917, -0.00274859858, 0.129770681, -0.0524222255, 0.109884612, 0.0675901324, -0.0545021854, -0.0921283513, -5.545140e-03, -0.0120869931, -0.0206733774, -0.146228567, -0.0789606422, -0.0916717424, -0.00284564844]> : tensor<32xf32>
    %8 = mgx.constant dense<[-0.0209696889, 7.870090e-02, 0.105713859, 0.0391967297, 0.0627491251, 0.14233461, 0.24494426, 0.0363757312, -0.0501550324, 0.019650951, -0.128307566, -0.0159384161, 0.091147907, 0.120507874, 0.0948771834, 0.0264650024, 0.123092994, 0.143345937, 0.0650910363, -0.0563591421, -0.0417836048, 0.013885878, -0.0678925291, 0.0734815076, 0.237327591, -0.0461594537, 0.231136233, -0.0924524814, 0.0192734748, 0.00410661194, 0.0218153466, 0.0520573333, -0.090382196, -0.0204917081, 0.237378046, -0.0994406491, 0.0778346509, 0.0155125642, 0.0926001444, 0.033272922, -0.11228887, -0.0780633837, 0.104240268, 0.132640317, 0.102949314, -0.00358769554, 0.0324419141, 0.0689993426]> : tensor<48xf32>
    %9 = mgx.constant dense<[-0.125118718, -0.0853583216, -0.0816376134, -0.0328041241, 0.00632932922, -0.0717535316, -0.190972015, -0.0620563216, 0.163087666, 0.0124251042, 0.115172029, -0.115905747, 0.00924974401, -0.018306205, 0.234314412, 0.163302496, -0.170435652, -0.0477957949, 0.12020655, -0.112036116, -0.230420128, -0.0155453766, 0.0684739947, 0.00478678662, -0.0285275932, 0.129266933, 0.0283589195, -0.071664013, -0.042042017, -0.0425373204, 0.0857291519, 0.0352991596, -0.163039759, 0.0517070144, -0.12810339, -0.0434767529, 0.139452577, -0.167242154, -0.0737167448, -0.0462370142, -0.122426078, 0.117848806, -0.0561574697, 0.00180895254, -0.0188625939, 0.0861419364, 0.0405503251, 0.11302115]> : tensor<48xf32>
    %10 = mgx.constant dense<[0.125811398, -0.142870039, -0.230188489, 0.0548177212, 0.121058531, -0.0642939806, 0.0503930151, -0.0263252296, 0.205073506, 0.100003146, 0.0291816369, 0.0185668208, 0.159736469, 0.0183583144, 0.0221912824, 0.0109677082]> : tensor<16xf32>
    %11 = mgx.constant dense<[0.122917481, 0.076786235, -0.00297053414, -0.168889165, -0.0332282484, -0.0408996679, -0.072711423, 0.0902200192, -0.024952786, -0.0782379806, -0.163808212, 0.138045728, 0.0977840498, -0.00432368647, 0.0436365902, -0.00992231536]> : tensor<16xf32>
    %12 = mgx.constant dense<[0.0524372607, 3.857490e-02, -0.0522884876, 0.0295993164, -0.0520587526, 0.0133818658, -0.0496869609, 0.00972906779, 0.160064593, -0.0653891414, -0.146312699, 0.159414545, 0.0292444397, -0.0650614202, -0.0249649938, -0.091375105]> : tensor<16xf32>
    %13 = mgx.literal "w0" : tensor<16x3x7x7xf32>
    %14 = mgx.literal "w2" : tensor<16x16x3x3xf32>
    %15 = mgx.literal "w4" : tensor<16x16x3x3xf32>
    %16 = mgx.literal "w6" : tensor<48x16x1x1xf32>
    %17 = mgx.literal "w8" : tensor<48x1x5x5xf32>
    %18 = mgx.literal "w10" : tensor<32x48x1x1xf32>
    %19 = mgx.literal "w12" : tensor<32x16x1x1xf32>
    %20 = mgx.literal "w14" : tensor<40x16x3x3xf32>
    %21 = mgx.literal "classes.weight" : tensor<40x10xf32>
    %22 = mgx.convolution %arg0, %13 pads = [3, 3, 3, 3] strides = [2, 2] dilations = [1, 1] : tensor<?x3x32x32xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<16x3x7x7xf32> -> tensor<?x16x16x16xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %23 = mgx.broadcast %12 axis = 1 : tensor<16xf32> -> tensor<?x16x16x16xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %24 = mgx.add %22, %23 : tensor<?x16x16x16xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x16x16x16xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x16x16x16xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %25 = mgx.relu %24 : tensor<?x16x16x16xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %26 = mgx.pooling max %25 lengths = [3, 3] pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] : tensor<?x16x16x16xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %27 = mgx.convolution %26, %14 pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<16x16x3x3xf32> -> tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %28 = mgx.broadcast %11 axis = 1 : tensor<16xf32> -> tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %29 = mgx.add %27, %28 : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %30 = mgx.relu %29 : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %31 = mgx.convolution %30, %15 pads = [1, 1, 1, 1] strides = [1, 1] dilations = [1, 1] : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<16x16x3x3xf32> -> tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %32 = mgx.broadcast %10 axis = 1 : tensor<16xf32> -> tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %33 = mgx.add %31, %32 : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %34 = mgx.add %33, %26 : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %35 = mgx.relu %34 : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %36 = mgx.convolution %35, %16 pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<48x16x1x1xf32> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %37 = mgx.broadcast %9 axis = 1 : tensor<48xf32> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %38 = mgx.add %36, %37 : tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %39 = mgx.multibroadcast %3 : tensor<f32> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %40 = mgx.mul %38, %39 : tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %41 = mgx.multibroadcast %2 : tensor<f32> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %42 = mgx.add %40, %41 : tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %43 = mgx.multibroadcast %1 : tensor<f32> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %44 = mgx.multibroadcast %0 : tensor<f32> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %45 = mgx.clip %42, %43, %44 : tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %46 = mgx.mul %38, %45 : tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %47 = mgx.convolution %46, %17 pads = [2, 2, 2, 2] strides = [2, 2] dilations = [1, 1] {group = 48 : i64} : tensor<?x48x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<48x1x5x5xf32> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %48 = mgx.broadcast %8 axis = 1 : tensor<48xf32> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %49 = mgx.add %47, %48 : tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %50 = mgx.multibroadcast %3 : tensor<f32> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %51 = mgx.mul %49, %50 : tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %52 = mgx.multibroadcast %2 : tensor<f32> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %53 = mgx.add %51, %52 : tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %54 = mgx.multibroadcast %1 : tensor<f32> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %55 = mgx.multibroadcast %0 : tensor<f32> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %56 = mgx.clip %53, %54, %55 : tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %57 = mgx.mul %49, %56 : tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %58 = mgx.pooling average %35 lengths = [2, 2] pads = [0, 0, 0, 0] strides = [2, 2] dilations = [1, 1] : tensor<?x16x8x8xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x16x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %59 = mgx.convolution %57, %18 pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<?x48x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<32x48x1x1xf32> -> tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %60 = mgx.broadcast %7 axis = 1 : tensor<32xf32> -> tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %61 = mgx.add %59, %60 : tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %62 = mgx.convolution %58, %19 pads = [0, 0, 0, 0] strides = [1, 1] dilations = [1, 1] : tensor<?x16x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<32x16x1x1xf32> -> tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %63 = mgx.broadcast %6 axis = 1 : tensor<32xf32> -> tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %64 = mgx.add %62, %63 : tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %65 = mgx.add %61, %64 : tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %66 = mgx.convolution %65, %20 pads = [1, 1, 1, 1] strides = [2, 2] dilations = [1, 1] {group = 2 : i64} : tensor<?x32x4x4xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<40x16x3x3xf32> -> tensor<?x40x2x2xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %67 = mgx.broadcast %5 axis = 1 : tensor<40xf32> -> tensor<?x40x2x2xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %68 = mgx.add %66, %67 : tensor<?x40x2x2xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>, tensor<?x40x2x2xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x40x2x2xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %69 = mgx.relu %68 : tensor<?x40x2x2xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %70 = mgx.reduce_mean %69 axes = [2, 3] : tensor<?x40x2x2xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x40x1x1xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>>
    %71 = mgx.flatten %70 axis = 1 : tensor<?x40x1x1xf32, #mgx.dims<[batch : 1 ... ?, _, _, _]>> -> tensor<?x40xf32, #mgx.dims<[batch : 1 ... ?, _]>>
    %72 = mgx.dot %71, %21 : tensor<?x40xf32, #mgx.dims<[batch : 1 ... ?, _]>>, tensor<40x10xf32> -> tensor<?x10xf32, #mgx.dims<[batch : 1 ... ?, _]>>
    %73 = mgx.multibroadcast %4 : tensor<10xf32> -> tensor<?x10xf32, #mgx.dims<[batch : 1 ... ?, _]>>
    %74 = mgx.add %73, %72 : tensor<?x10xf32, #mgx.dims<[batch : 1 ... ?, _]>>, tensor<?x10xf32, #mgx.dims<[batch : 1 ... ?, _]>> -> tensor<?x10xf32, #mgx.dims<[batch : 1 ... ?, _]>>
    return %74 : tensor<?x10xf32, #mgx.dims<[batch : 1 ... ?, _]>>
  }
}
