//===- sizes.cpp - formulas, parsed and evaluated ---------------------------------===//
#include "sizes.h"

#include <algorithm>

namespace mgx {

namespace {
// A formula of a file is no longer than this, and no deeper; no number of a program is larger.
constexpr size_t most_text = 4096;
constexpr int most_brackets = 32;
constexpr int64_t most_value = int64_t(1) << 46;
constexpr size_t most_stack = 160;
} // namespace

void Known::set(std::string name, int64_t size) { sizes.emplace_back(std::move(name), size); }

const int64_t *Known::find(std::string_view name) const {
  for (const auto &[known, size] : sizes)
    if (known == name)
      return &size;
  return nullptr;
}

std::string Known::text() const {
  std::string result;
  for (const auto &[name, size] : sizes)
    result += cat(result.empty() ? "" : ", ", name, " = ", size);
  return result;
}

class FormulaParser {
public:
  FormulaParser(Formula &formula, std::string_view text) : formula(formula), text(text) {}

  void whole() {
    total();
    if (skip() != text.size())
      wrong();
  }

private:
  using Op = Formula::Op;

  [[noreturn]] void wrong() const { bad_artifact("'", clip(text), "' is not a size"); }

  size_t skip() {
    while (place < text.size() &&
           (text[place] == ' ' || (text[place] >= '\t' && text[place] <= '\r')))
      ++place;
    return place;
  }

  bool sign(std::string_view wanted) {
    skip();
    if (text.substr(place, wanted.size()) != wanted)
      return false;
    place += wanted.size();
    return true;
  }

  void push(Op op, int64_t number = 0) {
    bool leaf = op == Op::number || op == Op::name;
    stack += leaf ? 1 : op == Op::negate ? 0 : -1;
    formula.depth = std::max(formula.depth, static_cast<size_t>(stack));
    if (formula.depth > most_stack)
      wrong();
    formula.items.push_back({op, number});
  }

  void total() {
    bool negative = sign("-");
    product();
    if (negative)
      push(Op::negate);
    for (;;) {
      if (sign("+")) {
        product();
        push(Op::add);
      } else if (sign("-")) {
        product();
        push(Op::subtract);
      } else {
        return;
      }
    }
  }

  void product() {
    factor();
    for (;;) {
      if (sign("//")) {
        size_t first = formula.items.size();
        factor();
        const auto &last = formula.items.back();
        if (formula.items.size() == first + 1 && last.op == Op::number && last.number < 1)
          wrong();
        push(Op::floor_divide);
      } else if (sign("*")) {
        factor();
        push(Op::multiply);
      } else {
        return;
      }
    }
  }

  void inner(const char *end) {
    if (++brackets > most_brackets)
      wrong();
    total();
    --brackets;
    if (!sign(end))
      wrong();
  }

  static bool digit(char c) { return c >= '0' && c <= '9'; }
  static bool letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  }

  void factor() {
    if (sign("("))
      return inner(")");
    if (skip() == text.size())
      wrong();
    if (digit(text[place]))
      return number();
    std::string name;
    if (text[place] == '`') {
      size_t end = text.find('`', place + 1);
      if (end == text.npos || end == place + 1)
        wrong();
      name = text.substr(place + 1, end - place - 1);
      place = end + 1;
    } else {
      size_t first = place;
      if (!letter(text[place]))
        wrong();
      while (place < text.size() &&
             (letter(text[place]) || digit(text[place]) || text[place] == '.'))
        ++place;
      name = text.substr(first, place - first);
    }
    if (name == "max" && sign("(")) {
      inner(",");
      inner(")");
      return push(Op::maximum);
    }
    auto known = std::find(formula.names.begin(), formula.names.end(), name);
    push(Op::name, known - formula.names.begin());
    if (known == formula.names.end())
      formula.names.push_back(name);
  }

  void number() {
    int64_t value = 0;
    for (; place < text.size() && digit(text[place]); ++place)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text[place] - '0', &value))
        wrong();
    push(Op::number, value);
  }

  Formula &formula;
  std::string_view text;
  size_t place = 0;
  int brackets = 0, stack = 0;
};

Formula Formula::parse(const std::string &text) {
  if (text.size() > most_text)
    bad_artifact("a size of ", text.size(), " characters; at most ", most_text, " are read");
  Formula result;
  result.text = text;
  FormulaParser(result, result.text).whole();
  return result;
}

std::string Formula::plain() const {
  return items.size() == 1 && items[0].op == Op::name ? names[0] : std::string();
}

Formula::Wide Formula::wide(const Known &known) const {
  auto wrong = [&]() {
    bad_artifact("'", clip(text), "' is not a formula of the program's sizes");
  };
  Wide stack[most_stack + 1];
  size_t top = 0;
  for (const Item &item : items) {
    if (item.op == Op::number) {
      stack[top++] = item.number;
      continue;
    }
    if (item.op == Op::name) {
      const int64_t *size = known.find(names[static_cast<size_t>(item.number)]);
      if (!size)
        wrong();
      stack[top++] = *size;
      continue;
    }
    if (item.op == Op::negate) {
      stack[top - 1] = -stack[top - 1];
      continue;
    }
    Wide b = stack[--top], &a = stack[top - 1];
    bool over = false;
    switch (item.op) {
    case Op::add:
      over = __builtin_add_overflow(a, b, &a);
      break;
    case Op::subtract:
      over = __builtin_sub_overflow(a, b, &a);
      break;
    case Op::multiply:
      over = __builtin_mul_overflow(a, b, &a);
      break;
    case Op::maximum:
      a = std::max(a, b);
      break;
    default:
      if (b < 1)
        wrong();
      a = a / b - (a % b < 0 ? 1 : 0);
    }
    if (over)
      bad_artifact("'", clip(text), "' is out of range");
  }
  return stack[0];
}

int64_t Formula::value(const Known &known) const {
  Wide found = wide(known);
  if (found < 0 || found > most_value)
    bad_artifact("'", clip(text), "' is ", static_cast<int64_t>(found), ", which is out of range");
  return static_cast<int64_t>(found);
}

int64_t Formula::count(const Known &known) const {
  try {
    Wide found = wide(known);
    return found < 0 || found >> 62 ? 0 : static_cast<int64_t>(found);
  } catch (const Error &) {
    return 0;
  }
}

std::vector<Formula> parse_formulas(const std::vector<std::string> &texts) {
  std::vector<Formula> result;
  result.reserve(texts.size());
  for (const std::string &text : texts)
    result.push_back(Formula::parse(text));
  return result;
}

std::vector<int64_t> values(std::span<const Formula> formulas, const Known &known) {
  std::vector<int64_t> result;
  result.reserve(formulas.size());
  for (const Formula &formula : formulas)
    result.push_back(formula.value(known));
  return result;
}

} // namespace mgx
