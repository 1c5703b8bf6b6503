#include "mgx/IR/Mgx.h"
using namespace mlir; using namespace mgx;
#define F(X) OpFoldResult X::fold(FoldAdaptor) { return {}; }
F(ReshapeOp) F(MultibroadcastOp) F(BroadcastOp) F(TransposeOp) F(SqueezeOp) F(UnsqueezeOp) F(ReverseOp) F(FlattenOp) F(SliceOp) F(StepOp) F(IdentityOp) F(DimensionsOfOp) F(ConcatOp) F(PadOp)
