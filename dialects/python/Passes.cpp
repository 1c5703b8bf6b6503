//===- Passes.cpp - upstream pattern sets that no pass exposes ------------===//
#include "Extension.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

// The other dialects alone: reading their ops as well takes three times as long.
#include "mlir/Dialect/AMDGPU/IR/AMDGPUDialect.h.inc"
#include "mlir/Dialect/LLVMIR/ROCDLOpsDialect.h.inc"
#include "mlir/Dialect/Math/IR/MathOpsDialect.h.inc"
#include "mlir/Dialect/SCF/IR/SCFOpsDialect.h.inc"

using namespace mlir;

namespace {
// gpu.subgroup_reduce has no lowering in convert-gpu-to-rocdl. On AMD GPUs it is best
// done in data-parallel primitives, which fold into the arithmetic instruction.
struct LowerSubgroupReduceToDpp : public PassWrapper<LowerSubgroupReduceToDpp, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerSubgroupReduceToDpp)
  LowerSubgroupReduceToDpp() = default;
  LowerSubgroupReduceToDpp(const LowerSubgroupReduceToDpp &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "mgx-lower-subgroup-reduce-to-dpp"; }
  StringRef getDescription() const override {
    return "Lower gpu.subgroup_reduce to AMD's data-parallel primitives (DPP)";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<amdgpu::AMDGPUDialect, arith::ArithDialect, gpu::GPUDialect,
                    ROCDL::ROCDLDialect, vector::VectorDialect>();
  }

  Option<std::string> chipset{*this, "chipset", llvm::cl::desc("The chip, for example gfx942")};
  Option<unsigned> subgroupSize{*this, "subgroup-size", llvm::cl::init(64),
                                llvm::cl::desc("Lanes in a subgroup: 32 or 64")};

  void runOnOperation() override {
    FailureOr<amdgpu::Chipset> chip = amdgpu::Chipset::parse(chipset);
    if (failed(chip)) {
      emitError(getOperation()->getLoc())
          << getArgument() << ": chipset must be gfx and digits, for example gfx942, got '"
          << chipset << "'";
      return signalPassFailure();
    }
    if (subgroupSize != 32 && subgroupSize != 64) {
      emitError(getOperation()->getLoc())
          << getArgument() << ": subgroup-size must be 32 or 64, got " << subgroupSize;
      return signalPassFailure();
    }
    RewritePatternSet patterns(&getContext());
    // DPP moves 32 bits: wider and narrower vectors are broken down first.
    populateGpuBreakDownSubgroupReducePatterns(patterns, /*maxShuffleBitwidth=*/32,
                                               PatternBenefit(2));
    populateGpuLowerSubgroupReduceToDPPPatterns(patterns, subgroupSize, *chip);
    populateGpuLowerClusteredSubgroupReduceToDPPPatterns(patterns, subgroupSize, *chip);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

// The functions that would otherwise be calls into libm or OCML. Sorted.
// Functions that every target has as an instruction (sqrt, fma, floor, ...) are not among them.
const StringRef callsOfLibm[] = {
    "math.acos",  "math.acosh", "math.asin",  "math.asinh", "math.atan", "math.atan2",
    "math.atanh", "math.cbrt",  "math.cos",   "math.cosh",  "math.erf",  "math.erfc",
    "math.exp",   "math.exp2",  "math.expm1", "math.fpowi", "math.log",  "math.log1p",
    "math.log2",  "math.powf",  "math.sin",   "math.sinh",  "math.tan",  "math.tanh"};

struct ExpandMath : public PassWrapper<ExpandMath, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  ExpandMath() = default;
  ExpandMath(const ExpandMath &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "mgx-expand-math"; }
  StringRef getDescription() const override {
    return "Replace math functions by arithmetic, so that code needs neither libm nor OCML";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  }

  ListOption<std::string> ops{
      *this, "ops", llvm::cl::desc("The functions, for example exp,tanh; all of libm if empty")};
  Option<bool> approximate{*this, "approximate", llvm::cl::init(true),
                           llvm::cl::desc("Use f32 polynomials, computing f16 and bf16 in f32")};
  Option<bool> expand{*this, "expand", llvm::cl::init(true),
                      llvm::cl::desc("Express functions by simpler ones (sinh by exp)")};

  bool isWanted(StringRef name) const {
    if (ops.empty())
      return llvm::is_contained(callsOfLibm, name);
    return llvm::any_of(
        ops, [&](const std::string &op) { return name == op || name == ("math." + op); });
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    auto wanted = [this](StringRef name) { return isWanted(name); };
    if (approximate) {
      // A polynomial of its own is more accurate than one expressed by others.
      populateMathPolynomialApproximationPatterns(patterns, wanted, PatternBenefit(3));
      populateMathF32ExpansionPatterns(patterns, wanted, PatternBenefit(2));
    }
    SmallVector<StringRef> mnemonics;
    for (StringRef name : callsOfLibm)
      if (isWanted(name))
        mnemonics.push_back(name.substr(StringRef("math.").size()));
    for (const std::string &op : ops)
      if (!llvm::is_contained(mnemonics, StringRef(op)))
        mnemonics.push_back(op);
    if (expand)
      math::populateExpansionPatterns(patterns, mnemonics);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

struct SimplifyMath : public PassWrapper<SimplifyMath, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SimplifyMath)
  StringRef getArgument() const override { return "mgx-simplify-math"; }
  StringRef getDescription() const override {
    return "Replace powers with constant exponents by products and roots";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathAlgebraicSimplificationPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

void mgx::python::registerPasses() {
  PassRegistration<ExpandMath>();
  PassRegistration<LowerSubgroupReduceToDpp>();
  PassRegistration<SimplifyMath>();
}
