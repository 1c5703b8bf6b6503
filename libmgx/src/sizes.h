//===- sizes.h - sizes that a run gives: formulas of named dimensions ------------===//
//
// A text such as "4*batch*seq", "(seq+1)//2", "max(seq-8, 0)". The compiler writes them in
// canonical form; here they are only evaluated.
//
//===----------------------------------------------------------------------------===//
#pragma once

#include "error.h"

#include <optional>
#include <span>
#include <vector>

namespace mgx {

// The sizes of named dimensions.
class Known {
public:
  void set(std::string name, int64_t size);
  const int64_t *find(std::string_view name) const;
  // "batch = 2, seq = 5"
  std::string text() const;
  bool operator==(const Known &other) const = default;

  std::vector<std::pair<std::string, int64_t>> sizes; // In the order in which they were set.
};

// A formula, read once.
class Formula {
public:
  // Throws an error of the artifact for a text that is no formula.
  static Formula parse(const std::string &text);

  // Throws an error of the artifact for a value that is no number of a program, or a name that
  // has no size.
  int64_t value(const Known &known) const;
  // A value of any size; 0 where 62 bits do not hold it.
  int64_t count(const Known &known) const;

  // The dimension that the formula is, if it is nothing else; else "".
  std::string plain() const;

  std::string text;
  std::vector<std::string> names;

private:
  __extension__ typedef __int128 Wide;
  Wide wide(const Known &known) const;
  friend class FormulaParser;
  enum class Op : uint8_t { number, name, add, subtract, multiply, floor_divide, maximum, negate };
  struct Item {
    Op op;
    int64_t number;
  };
  std::vector<Item> items; // In postfix order.
  size_t depth = 0;        // Of the stack.
};

std::vector<Formula> parse_formulas(const std::vector<std::string> &texts);
std::vector<int64_t> values(std::span<const Formula> formulas, const Known &known);

// In a program of any sizes a number from 0 is itself, and -1 - n refers to formula n.
inline int64_t bound(int64_t number, std::span<const int64_t> found) {
  return number >= 0 ? number : found[static_cast<size_t>(-1 - number)];
}

inline int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

} // namespace mgx
