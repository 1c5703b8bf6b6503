//===- code.h - code objects: the functions of kernels, and how to launch them -----===//
#pragma once

#include "plan.h"

#include <array>

namespace mgx {

enum class ArgumentKind : uint8_t { input, output, scratch, size, counters };

// A pointer, or size, that a function takes: the number of an input or output, a byte offset in
// the kernel's scratch memory, the size itself, or how many counters it needs.
struct Argument {
  ArgumentKind kind;
  int64_t index;
};

// A function, run once. `grid` counts blocks, `block` threads. `kept` bytes of its one scratch
// argument depend on its inputs alone: where these are weights, it runs once.
struct Launch {
  std::string function;
  std::array<int64_t, 3> grid, block;
  std::vector<Argument> arguments;
  int64_t kept = 0;
};

// A tensor that a kernel reads or writes. A result may have the memory of each input in `over`.
struct Operand {
  const Element *element;
  int64_t bytes;
  std::vector<int64_t> over;
};

// Launches of a plan's neighbouring steps as one launch of a resident kernel, whose work-groups all
// run at a time: it has the bodies of their functions, and walks the launches in order. Where a
// phase waits, all work-groups wait for each other first.
struct Resident {
  // Some launch of some kernels, which have the same code.
  struct Body {
    int64_t launch;
    std::vector<int64_t> kernels;
  };
  struct Phase {
    int64_t body;
    bool waits;
  };
  int64_t first = 0, steps = 0; // These are steps of the plan.
  std::vector<Body> bodies;
  std::vector<Phase> phases; // One a launch.
};

// The memory that a kernel's functions may touch. The code is for sizes of `dims` alone, where
// the formulas that `zeros` name are 0.
struct Interface {
  std::vector<Operand> inputs, outputs;
  std::vector<Dimension> dims;
  std::vector<int64_t> zeros;

  const Operand &operand(size_t place) const {
    return place < inputs.size() ? inputs[place] : outputs[place - inputs.size()];
  }
};

// A kernel finalized for one target. With symbolic sizes its numbers below 0 refer to `formulas`.
struct CodeObject {
  std::string arch;
  std::string_view data; // An ELF file, in the artifact.
  std::string sha256;
  std::vector<Launch> launches;
  int64_t scratch_bytes = 0;
  std::optional<Interface> interface;
  std::vector<Formula> formulas;
  std::optional<Resident>
      resident; // It is no kernel of the plan then, and launches have no arguments.

  // Reads the record beside the bytes, whose hash is given.
  static CodeObject read(const Json &record, std::string_view data, const std::string &sha256);
  // The code object for symbols of these sizes. An error of the caller where a launch takes no such
  // sizes, and of the artifact for others that the code is not for.
  CodeObject bound(const Known &known) const;
  // How many outputs the kernel has: every output is written by a launch.
  int64_t outputs() const;
};

using Code = std::vector<CodeObject>;

// Throws an error of the artifact where a launch may touch memory that the plan does not give it.
void check_fit(const Plan &plan, const Code &code);
// The same for plans of any sizes too: those are tried with some sizes.
void check_code(const Plan &plan, const Code &code);

// The record in the form that the code hash covers.
std::string code_json(const CodeObject &code, const Json &record);

} // namespace mgx
