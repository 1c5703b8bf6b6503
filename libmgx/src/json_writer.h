//===- json_writer.h - lists and objects in canonical form -------------------------===//
#pragma once

#include "json.h"

#include <map>

namespace mgx {

template <class List, class Text> std::string list_json(const List &list, const Text &text) {
  std::string result = "[";
  for (const auto &one : list) {
    if (result.size() > 1)
      result += ',';
    result += text(one);
  }
  return result + "]";
}

template <class List> std::string numbers_json(const List &list) {
  return list_json(list, [](int64_t number) { return std::to_string(number); });
}

// The values are texts in canonical form.
inline std::string object_json(const std::map<std::string, std::string> &fields) {
  std::string result = "{";
  for (const auto &[key, value] : fields) {
    if (result.size() > 1)
      result += ',';
    result += text_json(key);
    result += ':';
    result += value;
  }
  return result + "}";
}

} // namespace mgx
