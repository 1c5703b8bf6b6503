//===- Attributes.cpp - symbolic dimensions and architectures -------------===//
#include "mgx/IR/Mgx.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mgx;

#include "mgx/IR/MgxEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "mgx/IR/MgxAttrs.cpp.inc"

void MgxDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mgx/IR/MgxAttrs.cpp.inc"
      >();
}

// name `:` min `...` (max | `?`) (`{` optimals `}`)?
static ParseResult parseDimBody(AsmParser &parser, DimAttr &dim) {
  std::string name;
  int64_t min = 0, max = -1;
  SmallVector<int64_t> optimals;
  SMLoc start = parser.getCurrentLocation();
  if (parser.parseKeywordOrString(&name) || parser.parseColon() || parser.parseInteger(min) ||
      parser.parseEllipsis())
    return failure();
  if (failed(parser.parseOptionalQuestion()) && parser.parseInteger(max))
    return failure();
  if (succeeded(parser.parseOptionalLBrace())) {
    auto parseOne = [&] { return parser.parseInteger(optimals.emplace_back()); };
    if (parser.parseCommaSeparatedList(parseOne) || parser.parseRBrace())
      return failure();
  }
  dim = DimAttr::getChecked([&] { return parser.emitError(start); }, parser.getContext(), name, min,
                            max, optimals);
  return success(bool(dim));
}

static void printDimBody(AsmPrinter &printer, DimAttr dim) {
  printer.printKeywordOrString(dim.getName());
  printer << " : " << dim.getMin() << " ... ";
  if (dim.getMax() < 0)
    printer << "?";
  else
    printer << dim.getMax();
  if (dim.getOptimals().empty())
    return;
  printer << " {";
  llvm::interleaveComma(dim.getOptimals(), printer);
  printer << "}";
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  DimAttr dim;
  if (parser.parseLess() || parseDimBody(parser, dim) || parser.parseGreater())
    return {};
  return dim;
}

void DimAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printDimBody(printer, *this);
  printer << ">";
}

LogicalResult DimAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                              int64_t min, int64_t max, ArrayRef<int64_t> optimals) {
  if (name.empty() || name == "_")
    return emitError() << "a dimension's name must not be empty or '_', got '" << name << "'";
  if (min < 0)
    return emitError() << "dimension '" << name << "': the least size must not be negative, got "
                       << min;
  if (max < -1 || (max != -1 && max < min))
    return emitError() << "dimension '" << name
                       << "': the largest size must be -1 (no bound) or at least " << min
                       << ", got " << max;
  if (!llvm::is_sorted(optimals))
    return emitError() << "dimension '" << name << "': optimals must ascend, got [" << optimals
                       << "]";
  for (int64_t optimal : optimals)
    if (optimal < min || (max >= 0 && optimal > max))
      return emitError() << "dimension '" << name << "': optimal size " << optimal
                         << " is outside its bounds, " << min << " to "
                         << (max < 0 ? "any" : std::to_string(max));
  return success();
}

// `<` `[` (`_` | dim)* `]` `>`
Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimAttr> dims;
  auto parseOne = [&]() -> ParseResult {
    DimAttr &dim = dims.emplace_back();
    if (succeeded(parser.parseOptionalKeyword("_")))
      return success();
    return parseDimBody(parser, dim);
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne) ||
      parser.parseGreater())
    return {};
  return DimsAttr::get(parser.getContext(), dims);
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getDims(), printer, [&](DimAttr dim) {
    if (dim)
      printDimBody(printer, dim);
    else
      printer << "_";
  });
  printer << "]>";
}

LogicalResult DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getDims().size())
    return emitError() << "#mgx.dims names " << getDims().size()
                       << " dimensions, but the tensor has " << shape.size();
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (dim && !ShapedType::isDynamic(shape[i]))
      return emitError() << "dimension " << i << " is named '" << dim.getName()
                         << "', so its size must be '?', got " << shape[i];
  return success();
}
