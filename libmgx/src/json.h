//===- json.h - canonical JSON: read, checked, written --------------------------===//
//
// The one form of a value: keys sorted, no spaces, ASCII, as Python's json.dumps(value,
// sort_keys=True, separators=(",", ":"), allow_nan=False) writes it. A text of another form is
// refused, so a part of a text is the canonical text of that part.
//
//===----------------------------------------------------------------------------===//
#pragma once

#include "error.h"

#include <cstdint>
#include <vector>

namespace mgx {

class Json {
public:
  enum class Kind : uint8_t { null, boolean, integer, real, text, list, object };

  // The value of a text that lives as long as the value. Throws std::invalid_argument for a text
  // that is no JSON, or not in canonical form.
  static Json parse(std::string_view text);

  Kind kind = Kind::null;
  bool truth = false;
  bool huge = false; // An integer of more than 64 bits.
  int64_t number = 0;
  std::string text;
  std::vector<Json> items;       // Of a list, or of an object in the order of its keys.
  std::vector<std::string> keys; // Sorted.
  std::string_view source;       // The value's own text.

  // The field of an object; nullptr where there is none, or this is no object.
  const Json *find(std::string_view key) const;
};

// A text in canonical form, with its quotes.
std::string text_json(std::string_view text);

// Typed access to values of a file: an error of the artifact for anything unexpected. `what` begins
// the messages.
class Fields {
public:
  explicit Fields(std::string_view what) : what(what) {}

  const Json &field(const Json &value, const char *name, Json::Kind kind) const;
  const std::vector<Json> &list(const Json &value, const char *name) const {
    return field(value, name, Json::Kind::list).items;
  }
  const std::string &text(const Json &value, const char *name) const {
    return field(value, name, Json::Kind::text).text;
  }
  int64_t integer(const Json &value, const char *name, int64_t low = 0,
                  int64_t high = most_bytes) const {
    return bounded(field(value, name, Json::Kind::integer), name, low, high);
  }
  std::vector<int64_t> integers(const Json &value, const char *name, int64_t low = 0) const;
  int64_t bounded(const Json &number, const char *name, int64_t low = 0,
                  int64_t high = most_bytes) const;
  std::vector<std::string> texts(const Json &value, const char *name) const;

  static constexpr int64_t most_bytes = int64_t(1) << 46;

private:
  std::string_view what;
};

} // namespace mgx
