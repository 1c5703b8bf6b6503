// A reader for the MessagePack of the metadata note, safe on any input.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace mgx::emu {

struct MsgPack {
  enum Type : uint8_t { nil, boolean, integer, number, string, array, map } type = nil;
  uint64_t value = 0; // integer (two's complement) or boolean
  std::string_view text;
  std::vector<MsgPack> items;                            // array
  std::vector<std::pair<MsgPack, MsgPack>> entries;      // map

  // Null unless this is a map with that string key.
  const MsgPack *get(std::string_view key) const;
  uint64_t integer_or(std::string_view key, uint64_t otherwise) const;
  std::string_view string_or(std::string_view key, std::string_view otherwise) const;

  // The first value of `bytes`; none if it is malformed or nested too deeply.
  static std::optional<MsgPack> parse(std::string_view bytes);
};

} // namespace mgx::emu
