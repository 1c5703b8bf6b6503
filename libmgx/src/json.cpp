//===- json.cpp - canonical JSON --------------------------------------------------===//
#include "json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace mgx {

namespace {

constexpr int most_depth = 800; // Python reads some 900 levels.

void append_utf8(std::string &text, uint32_t code) {
  auto byte = [&](uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80)
    return byte(code);
  if (code < 0x800) {
    byte(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    byte(0xe0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3f));
  } else {
    byte(0xf0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3f));
    byte(0x80 | (code >> 6 & 0x3f));
  }
  byte(0x80 | (code & 0x3f));
}

// The text of a number as Python's repr has it.
std::string real_text(double value) {
  char digits[40];
  auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific).ptr;
  std::string all(digits, end), sign;
  if (all[0] == '-') {
    sign = "-";
    all.erase(0, 1);
  }
  size_t e = all.find('e');
  int exponent = std::stoi(all.substr(e + 1));
  std::string mantissa = all.substr(0, e);
  if (exponent < -4 || exponent >= 16) {
    char tail[16];
    std::snprintf(tail, sizeof tail, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return sign + mantissa + tail;
  }
  std::erase(mantissa, '.');
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + mantissa;
  auto whole = static_cast<size_t>(exponent) + 1;
  if (mantissa.size() <= whole)
    return sign + mantissa + std::string(whole - mantissa.size(), '0') + ".0";
  return sign + mantissa.substr(0, whole) + "." + mantissa.substr(whole);
}

class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  Json whole() {
    Json result = value(0);
    if (place != text.size())
      wrong();
    return result;
  }

private:
  [[noreturn]] void wrong() const {
    throw std::invalid_argument(cat("no canonical JSON at byte ", place));
  }

  char next() {
    if (place == text.size())
      wrong();
    return text[place++];
  }

  void expect(std::string_view word) {
    if (text.substr(place, word.size()) != word)
      wrong();
    place += word.size();
  }

  bool take(char sign) {
    if (place == text.size() || text[place] != sign)
      return false;
    ++place;
    return true;
  }

  Json value(int depth) {
    if (depth > most_depth || place == text.size())
      wrong();
    size_t first = place;
    Json result;
    switch (text[place]) {
    case '{':
      object(result, depth);
      break;
    case '[':
      list(result, depth);
      break;
    case '"':
      result.kind = Json::Kind::text;
      result.text = string();
      break;
    case 't':
    case 'f':
      result.kind = Json::Kind::boolean;
      result.truth = text[place] == 't';
      expect(result.truth ? "true" : "false");
      break;
    case 'n':
      expect("null");
      break;
    default:
      number(result);
    }
    result.source = text.substr(first, place - first);
    return result;
  }

  void list(Json &result, int depth) {
    result.kind = Json::Kind::list;
    ++place;
    if (take(']'))
      return;
    do
      result.items.push_back(value(depth + 1));
    while (take(','));
    if (next() != ']')
      wrong();
  }

  void object(Json &result, int depth) {
    result.kind = Json::Kind::object;
    ++place;
    if (take('}'))
      return;
    do {
      if (place == text.size() || text[place] != '"')
        wrong();
      std::string key = string();
      if (!result.keys.empty() && key <= result.keys.back())
        wrong(); // Not sorted, or there twice.
      result.keys.push_back(std::move(key));
      if (next() != ':')
        wrong();
      result.items.push_back(value(depth + 1));
    } while (take(','));
    if (next() != '}')
      wrong();
  }

  uint32_t hex() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      char sign = next();
      if (sign >= '0' && sign <= '9')
        code = code << 4 | static_cast<uint32_t>(sign - '0');
      else if (sign >= 'a' && sign <= 'f') // Upper case is another form.
        code = code << 4 | static_cast<uint32_t>(sign - 'a' + 10);
      else
        wrong();
    }
    return code;
  }

  std::string string() {
    std::string result;
    ++place;
    for (;;) {
      char sign = next();
      if (sign == '"')
        return result;
      if (sign != '\\') {
        if (sign < ' ' || sign > '~') // Also bytes above 0x7f, where char is signed or not.
          wrong();
        result += sign;
        continue;
      }
      static constexpr std::string_view names = "\"\\bfnrt", values = "\"\\\b\f\n\r\t";
      sign = next();
      if (size_t found = names.find(sign); found != names.npos) {
        result += values[found];
        continue;
      }
      if (sign != 'u')
        wrong();
      uint32_t code = hex();
      if ((code >= ' ' && code <= '~') ||
          (code < ' ' && values.find(static_cast<char>(code)) != values.npos))
        wrong(); // It has a shorter form.
      if (code >= 0xd800 && code < 0xdc00 && text.substr(place, 2) == "\\u") {
        size_t before = place;
        place += 2;
        uint32_t low = hex();
        if (low >= 0xdc00 && low < 0xe000)
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        else
          place = before;
      }
      append_utf8(result, code);
    }
  }

  void number(Json &result) {
    size_t first = place;
    auto digits = [&] {
      size_t begin = place;
      while (place < text.size() && text[place] >= '0' && text[place] <= '9')
        ++place;
      if (place == begin)
        wrong();
      return place - begin;
    };
    bool negative = take('-');
    size_t leading = place;
    size_t count = digits();
    if (text[leading] == '0' && count > 1)
      wrong();
    bool real = false;
    if (take('.')) {
      real = true;
      digits();
    }
    if (take('e')) {
      real = true;
      if (!take('+') && !take('-'))
        wrong();
      digits();
    }
    std::string_view found = text.substr(first, place - first);
    const char *end = found.data() + found.size();
    if (real) {
      result.kind = Json::Kind::real;
      double value = 0;
      auto status = std::from_chars(found.data(), end, value);
      if (status.ec != std::errc() || !std::isfinite(value) || real_text(value) != found)
        wrong();
      return;
    }
    if (found == "-0" || count > 4300) // Python reads no more digits.
      wrong();
    result.kind = Json::Kind::integer;
    result.huge = std::from_chars(found.data(), end, result.number).ec != std::errc();
    (void)negative;
  }

  std::string_view text;
  size_t place = 0;
};

const char *name_of(Json::Kind kind) {
  static constexpr const char *names[] = {"null", "bool", "int", "float", "str", "list", "dict"};
  return names[static_cast<int>(kind)];
}

} // namespace

Json Json::parse(std::string_view text) { return Parser(text).whole(); }

const Json *Json::find(std::string_view key) const {
  auto found = std::lower_bound(keys.begin(), keys.end(), key);
  if (found == keys.end() || *found != key)
    return nullptr;
  return &items[static_cast<size_t>(found - keys.begin())];
}

std::string text_json(std::string_view text) {
  std::string result = "\"";
  char escape[16];
  auto unit = [&](uint32_t code) {
    std::snprintf(escape, sizeof escape, "\\u%04x", code);
    result += escape;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    auto first = static_cast<unsigned char>(text[i]);
    static constexpr std::string_view values = "\"\\\b\f\n\r\t", names = "\"\\bfnrt";
    if (size_t found = values.find(text[i]); found != values.npos) {
      result += '\\';
      result += names[found];
    } else if (first >= ' ' && first <= '~') {
      result += text[i];
    } else if (first < 0x80) {
      unit(first);
    } else {
      int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
      uint32_t code = first & (0x3fu >> more);
      for (; more > 0 && i + 1 < text.size(); --more)
        code = code << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f);
      if (code >= 0x10000) {
        unit(0xd800 + ((code - 0x10000) >> 10));
        code = 0xdc00 + ((code - 0x10000) & 0x3ff);
      }
      unit(code);
    }
  }
  return result + '"';
}

const Json &Fields::field(const Json &value, const char *name, Json::Kind kind) const {
  const Json *found = value.find(name);
  if (!found || found->kind != kind)
    bad_artifact(what, ": '", clip(name), "' is missing or no ", name_of(kind));
  return *found;
}

int64_t Fields::bounded(const Json &number, const char *name, int64_t low, int64_t high) const {
  if (number.kind != Json::Kind::integer || number.huge || number.number < low ||
      number.number > high)
    bad_artifact(what, ": '", name, "' holds ", clip(number.source), ", which is out of range");
  return number.number;
}

std::vector<int64_t> Fields::integers(const Json &value, const char *name, int64_t low) const {
  std::vector<int64_t> result;
  for (const Json &item : list(value, name))
    result.push_back(bounded(item, name, low));
  return result;
}

std::vector<std::string> Fields::texts(const Json &value, const char *name) const {
  std::vector<std::string> result;
  for (const Json &item : list(value, name)) {
    if (item.kind != Json::Kind::text)
      bad_artifact(what, ": '", name, "' holds more than text");
    result.push_back(item.text);
  }
  return result;
}

} // namespace mgx
