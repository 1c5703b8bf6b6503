//===- plan.h - the host plan of a program: buffers, and the steps that fill them -===//
//
// Pure data, as docs/artifact.md describes it. In a plan for any sizes, numbers below 0 refer to
// formulas; `bind_plan` gives the plan for some sizes.
//
//===----------------------------------------------------------------------------===//
#pragma once

#include "elements.h"
#include "json.h"
#include "sizes.h"

#include <memory>
#include <optional>

namespace mgx {

// Kernels read vectors of so many bytes; all tensors in the arena are aligned to it.
constexpr int64_t arena_alignment = 16;
constexpr int64_t condition_bytes = 1;
constexpr int64_t trips_bytes = 8;
// A loop of so many trips, or more, states no number of its own.
constexpr int64_t endless = int64_t(1) << 62;

struct TensorSpec {
  std::string name;
  const Element *element = nullptr;
  std::vector<int64_t> shape;

  // -1 where a size is a formula.
  int64_t bytes() const;
};

enum class Memory : uint8_t { arena, input, output, weight };

// The memory of a step's argument. `place` is the offset in the arena, or the number of the
// caller's tensor; `key` names a weight.
struct Buffer {
  Memory kind = Memory::arena;
  int64_t bytes = 0;
  int64_t place = 0;
  std::string key;

  bool operator==(const Buffer &other) const = default;
  // Whether the two share bytes, where their sizes are known.
  bool overlaps(const Buffer &other) const;
  bool writable() const { return kind == Memory::arena || kind == Memory::output; }
};

// A kernel (`numbers` are its arguments, inputs and then outputs), a copy (source, target), a row
// of a loop's results (source, target), a branch (condition) or a loop (trips, condition, again).
struct Step {
  enum class Kind : uint8_t { kernel, copy, row, branch, loop };
  Kind kind = Kind::copy;
  int64_t kernel = -1;
  std::vector<int64_t> numbers; // Of buffers.
  std::string node;
  int64_t flops = 0;
  std::optional<Formula> work;       // The same in a plan for any sizes.
  int64_t most = 0;                  // Trips of a loop that states no number.
  std::vector<Step> then, otherwise; // Of a branch; `then` is a loop's body.

  bool control() const { return kind == Kind::branch || kind == Kind::loop; }
  // The step in words, for messages.
  std::string called() const;
};

struct Dimension {
  std::string name;
  int64_t low = 0;
  std::optional<int64_t> high;
  std::vector<int64_t> optimals;
};

struct SizedPlan;

struct Plan {
  std::vector<TensorSpec> inputs, outputs;
  int64_t arena_bytes = 0;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Dimension> dims;
  std::vector<Formula> formulas;
  std::vector<SizedPlan> programs;
  std::vector<std::pair<int64_t, int64_t>> in_place, limits;

  // Throws an error of the artifact where anything is out of range.
  static Plan read(const Json &value);
  // Throws an error of the artifact where a buffer or a step points out of range.
  void check() const;
  // In canonical form; without `counts` with the fields alone that the content hash covers.
  std::string json(bool counts = false) const;
  // This plan, and those for some sizes.
  std::vector<const Plan *> plans() const;
  // A tensor for people: "float32[batch, 16]".
  std::string text_of(const TensorSpec &spec) const;
};

struct SizedPlan {
  Known sizes;
  Plan plan;
};

// Calls `visit` with every step, those in branches and loops too, each before the steps in it.
template <class Visit> void walk(const std::vector<Step> &steps, const Visit &visit) {
  for (const Step &step : steps) {
    visit(step);
    walk(step.then, visit);
    walk(step.otherwise, visit);
  }
}

using Shapes = std::span<const std::vector<int64_t>>;

// The size of each dimension, from the shapes of the inputs. A usage error names the input that
// does not fit.
Known sizes_of(const Plan &plan, Shapes shapes);

// The plan for dimensions of these sizes. An error of the artifact where it does not fit together.
Plan bind_plan(const Plan &plan, const Known &known);

} // namespace mgx
