//===- code.cpp - code objects read from their records, and bound to sizes ---------===//
#include "code.h"
#include "json_writer.h"

#include <algorithm>

namespace mgx {

namespace {

constexpr int64_t most_groups = (int64_t(1) << 32) - 1;
constexpr int64_t most_threads = 1024;
constexpr std::string_view argument_kinds[] = {"input", "output", "scratch", "size", "counters"};
const Fields fields("damaged: a code object");

int64_t count(const Json *value, const char *what, int64_t least = 0) {
  if (!value || value->kind != Json::Kind::integer || value->huge || value->number < least)
    damaged(what, " is a number from ", least, " to 2^63 - 1");
  return value->number;
}

std::array<int64_t, 3> dimensions(const Json &launch, const char *what, int64_t formulas,
                                  int64_t most) {
  const Json *value = launch.find(what);
  if (!value || value->kind != Json::Kind::list || value->items.size() != 3)
    damaged(what, " is three numbers");
  std::array<int64_t, 3> result;
  for (size_t i = 0; i < 3; ++i) {
    result[i] = count(&value->items[i], what, -formulas);
    if (result[i] == 0 || result[i] > most)
      damaged(what, " has sizes from 1 to ", most);
  }
  return result;
}

Argument read_argument(const Json &value, int64_t formulas) {
  if (value.kind == Json::Kind::list && value.items.size() == 2)
    for (size_t i = 0; i < std::size(argument_kinds); ++i)
      if (value.items[0].kind == Json::Kind::text && value.items[0].text == argument_kinds[i])
        return {static_cast<ArgumentKind>(i), count(&value.items[1], "argument index", -formulas)};
  damaged("an argument is [kind, index], got ", clip(value.source));
}

Launch read_launch(const Json &value, int64_t formulas) {
  Launch launch;
  launch.function = fields.text(value, "function");
  launch.grid = dimensions(value, "grid", formulas, most_groups);
  launch.block = dimensions(value, "block", 0, most_threads);
  for (const Json &one : fields.list(value, "arguments"))
    launch.arguments.push_back(read_argument(one, formulas));
  if (const Json *kept = value.find("kept"))
    launch.kept = count(kept, "kept");
  return launch;
}

Operand read_operand(const Json &value, int64_t formulas, int64_t inputs) {
  auto wrong = [&]() {
    damaged("an operand is [type, bytes] and inputs, got ", clip(value.source));
  };
  if (value.kind != Json::Kind::list || (value.items.size() != 2 && value.items.size() != 3))
    wrong();
  const Json &type = value.items[0], &bytes = value.items[1];
  const Element *element = type.kind == Json::Kind::text ? element_of(type.text) : nullptr;
  if (!element || bytes.kind != Json::Kind::integer || bytes.huge || bytes.number < -formulas)
    wrong();
  Operand operand{element, bytes.number, {}};
  if (value.items.size() == 3) {
    if (value.items[2].kind != Json::Kind::list)
      wrong();
    for (const Json &over : value.items[2].items) {
      if (over.kind != Json::Kind::integer || over.huge || over.number < 0 || over.number >= inputs)
        wrong();
      operand.over.push_back(over.number);
    }
  }
  return operand;
}

Interface read_interface(const Json &value, int64_t formulas) {
  Interface result;
  for (const Json &one : fields.list(value, "inputs"))
    result.inputs.push_back(read_operand(one, formulas, 0));
  for (const Json &one : fields.list(value, "outputs"))
    result.outputs.push_back(
        read_operand(one, formulas, static_cast<int64_t>(result.inputs.size())));
  if (value.find("zeros"))
    for (const Json &one : fields.list(value, "zeros")) {
      if (one.kind != Json::Kind::integer || one.huge || one.number >= 0 || one.number < -formulas)
        damaged("an interface's zeros are numbers of formulas");
      result.zeros.push_back(one.number);
    }
  if (!value.find("dims"))
    return result;
  const Json &dims = fields.field(value, "dims", Json::Kind::object);
  for (size_t i = 0; i < dims.keys.size(); ++i) {
    const Json &ends = dims.items[i];
    if (ends.kind != Json::Kind::list || ends.items.size() != 2)
      damaged("a symbol has two bounds");
    Dimension dim{dims.keys[i], count(&ends.items[0], "the bound of a symbol"), {}, {}};
    if (ends.items[1].kind != Json::Kind::null)
      dim.high = count(&ends.items[1], "the bound of a symbol");
    result.dims.push_back(std::move(dim));
  }
  return result;
}

void check_stats(const Json &record) {
  const Json &stats = fields.field(record, "stats", Json::Kind::object);
  for (const Json &figures : stats.items) {
    if (figures.kind != Json::Kind::object)
      damaged("stats are numbers by name");
    for (const Json &figure : figures.items)
      if (figure.kind != Json::Kind::integer)
        damaged("stats are numbers by name");
  }
}

void bind_interface(Interface &interface, const Known &known, std::span<const int64_t> found) {
  for (const Dimension &dim : interface.dims) {
    const int64_t *size = known.find(dim.name);
    if (!size || *size < dim.low || (dim.high && *size > *dim.high))
      bad_artifact("a kernel is for '", clip(dim.name), "' from ", dim.low, " to ",
                   dim.high ? std::to_string(*dim.high) : "any", "; the plan gives it ",
                   size ? std::to_string(*size) : "none");
  }
  for (int64_t number : interface.zeros)
    if (bound(number, found))
      bad_artifact(clip(cat("the sizes in a kernel do not agree where ", known.text()), 200));
  for (auto *operands : {&interface.inputs, &interface.outputs})
    for (Operand &operand : *operands)
      operand.bytes = bound(operand.bytes, found);
}

std::string operand_json(const Operand &operand) {
  std::string over = operand.over.empty() ? "" : "," + numbers_json(operand.over);
  return cat("[\"", operand.element->name, "\",", operand.bytes, over, "]");
}

std::string interface_json(const Interface &interface) {
  std::map<std::string, std::string> dims;
  for (const Dimension &dim : interface.dims)
    dims[dim.name] = cat("[", dim.low, ",", dim.high ? std::to_string(*dim.high) : "null", "]");
  std::string text = "{";
  if (!dims.empty())
    text += cat("\"dims\":", object_json(dims), ",");
  text += cat("\"inputs\":", list_json(interface.inputs, operand_json),
              ",\"outputs\":", list_json(interface.outputs, operand_json));
  if (!interface.zeros.empty())
    text += cat(",\"zeros\":", numbers_json(interface.zeros));
  return text + "}";
}

Resident read_resident(const Json &value) {
  Resident resident;
  resident.first = count(value.find("first"), "a resident kernel's first step");
  resident.steps = count(value.find("steps"), "a resident kernel's steps", 1);
  for (const Json &body : fields.list(value, "bodies")) {
    if (body.kind != Json::Kind::list || body.items.size() < 2)
      damaged("a body is a launch and kernels");
    Resident::Body one{count(&body.items[0], "a body's launch"), {}};
    for (size_t i = 1; i < body.items.size(); ++i)
      one.kernels.push_back(count(&body.items[i], "a body's kernel"));
    resident.bodies.push_back(std::move(one));
  }
  for (const Json &phase : fields.list(value, "phases")) {
    if (phase.kind != Json::Kind::list || phase.items.size() != 2)
      damaged("a phase is a body, and whether it waits");
    int64_t body = count(&phase.items[0], "a phase's body");
    int64_t waits = count(&phase.items[1], "a phase's wait");
    if (body >= static_cast<int64_t>(resident.bodies.size()) || waits > 1)
      damaged("a phase of a resident kernel is out of range");
    resident.phases.push_back({body, waits != 0});
  }
  return resident;
}

std::string resident_json(const Resident &resident) {
  auto body = [](const Resident::Body &one) {
    std::vector<int64_t> numbers{one.launch};
    numbers.insert(numbers.end(), one.kernels.begin(), one.kernels.end());
    return numbers_json(numbers);
  };
  auto phase = [](const Resident::Phase &one) {
    return cat("[", one.body, ",", one.waits ? 1 : 0, "]");
  };
  return cat("{\"bodies\":", list_json(resident.bodies, body), ",\"first\":", resident.first,
             ",\"phases\":", list_json(resident.phases, phase), ",\"steps\":", resident.steps, "}");
}

std::string launch_json(const Launch &launch) {
  auto argument = [](const Argument &one) {
    return cat("[\"", argument_kinds[static_cast<int>(one.kind)], "\",", one.index, "]");
  };
  std::string kept = launch.kept ? cat(",\"kept\":", launch.kept) : "";
  return cat("{\"arguments\":", list_json(launch.arguments, argument),
             ",\"block\":", numbers_json(launch.block),
             ",\"function\":", text_json(launch.function), ",\"grid\":", numbers_json(launch.grid),
             kept, "}");
}

} // namespace

CodeObject CodeObject::read(const Json &record, std::string_view data, const std::string &sha256) {
  CodeObject code;
  code.arch = fields.text(record, "arch");
  code.data = data;
  code.sha256 = sha256;
  const Json *bytes = record.find("bytes");
  if (!bytes || bytes->kind != Json::Kind::integer ||
      bytes->number != static_cast<int64_t>(data.size()))
    damaged("a code object has other bytes than its record says");
  if (fields.text(record, "sha256") != sha256)
    damaged("the code object's bytes do not have the recorded sha256");
  if (record.find("why"))
    fields.text(record, "why");
  if (record.find("formulas"))
    for (std::string &text : fields.texts(record, "formulas")) {
      Formula formula; // Parsed where it is needed: a program may take other code.
      formula.text = std::move(text);
      code.formulas.push_back(std::move(formula));
    }
  auto formulas = static_cast<int64_t>(code.formulas.size());
  for (const Json &launch : fields.list(record, "launches"))
    code.launches.push_back(read_launch(launch, formulas));
  code.scratch_bytes = count(record.find("scratch_bytes"), "scratch_bytes", -formulas);
  check_stats(record);
  if (const Json *interface = record.find("interface"))
    code.interface = read_interface(*interface, formulas);
  if (const Json *resident = record.find("resident")) {
    code.resident = read_resident(*resident);
    if (code.launches.size() != 1 || !code.launches[0].arguments.empty() || formulas)
      damaged("a resident kernel is one launch, whose arguments its steps give");
  }
  return code;
}

CodeObject CodeObject::bound(const Known &known) const {
  if (formulas.empty())
    return *this;
  std::vector<int64_t> found;
  try {
    for (const Formula &formula : formulas)
      found.push_back(Formula::parse(formula.text).value(known));
  } catch (const Error &error) { // The limits of launches are formulas too.
    fail(MGX_ERROR_USAGE, error.text);
  }
  CodeObject result{arch, data, sha256, {}, mgx::bound(scratch_bytes, found), interface, {}, {}};
  for (const Launch &launch : launches) {
    Launch one = launch;
    for (int64_t &size : one.grid)
      size = mgx::bound(size, found);
    if (*std::max_element(one.grid.begin(), one.grid.end()) > most_groups)
      bad_artifact("a launch of ", one.grid[0], " x ", one.grid[1], " x ", one.grid[2],
                   " work-groups, which is out of range");
    if (std::count(one.grid.begin(), one.grid.end(), 0))
      continue; // No elements, no launch.
    for (Argument &argument : one.arguments)
      argument.index = mgx::bound(argument.index, found);
    result.launches.push_back(std::move(one));
  }
  if (result.interface)
    bind_interface(*result.interface, known, found);
  return result;
}

int64_t CodeObject::outputs() const {
  if (interface) // It counts the outputs of no elements too, whose launches `bound` leaves out.
    return static_cast<int64_t>(interface->outputs.size());
  int64_t most = -1;
  for (const Launch &launch : launches)
    for (const Argument &argument : launch.arguments)
      if (argument.kind == ArgumentKind::output)
        most = std::max(most, argument.index);
  return most + 1;
}

std::string code_json(const CodeObject &code, const Json &record) {
  std::map<std::string, std::string> result{{"arch", text_json(code.arch)},
                                            {"bytes", std::to_string(code.data.size())},
                                            {"sha256", text_json(code.sha256)},
                                            {"scratch_bytes", std::to_string(code.scratch_bytes)},
                                            {"launches", list_json(code.launches, launch_json)},
                                            {"stats", std::string(record.find("stats")->source)}};
  if (const Json *why = record.find("why"); why && !why->text.empty())
    result["why"] = why->source;
  if (!code.formulas.empty())
    result["formulas"] =
        list_json(code.formulas, [](const Formula &formula) { return text_json(formula.text); });
  if (code.resident)
    result["resident"] = resident_json(*code.resident);
  if (code.interface)
    result["interface"] = interface_json(*code.interface);
  return object_json(result);
}

} // namespace mgx
