#include "mgx/IR/Mgx.h"
using namespace mlir; using namespace mgx;
OpFoldResult mgx::foldUnary(Operation *, Attribute) { return {}; }
OpFoldResult mgx::foldBinary(Operation *, Attribute, Attribute) { return {}; }
OpFoldResult mgx::foldCompare(Operation *, Attribute, Attribute) { return {}; }
OpFoldResult mgx::foldReduction(Operation *, Attribute, ArrayRef<int64_t>) { return {}; }
OpFoldResult ConvertOp::fold(FoldAdaptor) { return {}; }
OpFoldResult WhereOp::fold(FoldAdaptor) { return {}; }
OpFoldResult ClipOp::fold(FoldAdaptor) { return {}; }
