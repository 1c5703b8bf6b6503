#include "msgpack.h"

namespace mgx::emu {

namespace {

// The note nests four levels; the limit keeps hostile input off the stack.
constexpr int kMaxDepth = 32;

class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool value(MsgPack &out, int depth) {
    uint64_t tag;
    if (depth > kMaxDepth || !integer(1, tag)) return false;
    if (tag <= 0x7f) return number(out, tag);
    if (tag <= 0x8f) return map(out, tag & 15, depth);
    if (tag <= 0x9f) return array(out, tag & 15, depth);
    if (tag <= 0xbf) return string(out, tag & 31);
    if (tag >= 0xe0) return number(out, uint64_t(int64_t(int8_t(tag))));
    uint64_t n = 0;
    switch (tag) {
    case 0xc0: return true;
    case 0xc2:
    case 0xc3:
      out.type = MsgPack::boolean;
      out.value = tag & 1;
      return true;
    case 0xc4:
    case 0xd9: return integer(1, n) && string(out, n);
    case 0xc5:
    case 0xda: return integer(2, n) && string(out, n);
    case 0xc6:
    case 0xdb: return integer(4, n) && string(out, n);
    case 0xc7: return integer(1, n) && string(out, n + 1);
    case 0xc8: return integer(2, n) && string(out, n + 1);
    case 0xc9: return integer(4, n) && string(out, n + 1);
    case 0xca:
    case 0xcb: out.type = MsgPack::number; return integer(tag == 0xca ? 4 : 8, out.value);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: return integer(1u << (tag & 3), n) && number(out, n);
    case 0xd0: return integer(1, n) && number(out, uint64_t(int64_t(int8_t(n))));
    case 0xd1: return integer(2, n) && number(out, uint64_t(int64_t(int16_t(n))));
    case 0xd2: return integer(4, n) && number(out, uint64_t(int64_t(int32_t(n))));
    case 0xd3: return integer(8, n) && number(out, n);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8: return string(out, (1u << (tag - 0xd4)) + 1);
    case 0xdc: return integer(2, n) && array(out, n, depth);
    case 0xdd: return integer(4, n) && array(out, n, depth);
    case 0xde: return integer(2, n) && map(out, n, depth);
    case 0xdf: return integer(4, n) && map(out, n, depth);
    }
    return false;
  }

private:
  bool integer(unsigned bytes, uint64_t &out) {
    if (bytes_.size() - at_ < bytes) return false;
    out = 0;
    for (unsigned i = 0; i < bytes; ++i) out = out << 8 | uint8_t(bytes_[at_++]);
    return true;
  }
  bool number(MsgPack &out, uint64_t n) {
    out.type = MsgPack::integer;
    out.value = n;
    return true;
  }
  bool string(MsgPack &out, uint64_t n) {
    if (bytes_.size() - at_ < n) return false;
    out.type = MsgPack::string;
    out.text = bytes_.substr(at_, n);
    at_ += n;
    return true;
  }
  // Every element takes a byte or more, so a count beyond the rest is malformed.
  bool array(MsgPack &out, uint64_t n, int depth) {
    if (bytes_.size() - at_ < n) return false;
    out.type = MsgPack::array;
    for (uint64_t i = 0; i < n; ++i) {
      out.items.emplace_back();
      if (!value(out.items.back(), depth + 1)) return false;
    }
    return true;
  }
  bool map(MsgPack &out, uint64_t n, int depth) {
    if ((bytes_.size() - at_) / 2 < n) return false;
    out.type = MsgPack::map;
    for (uint64_t i = 0; i < n; ++i) {
      out.entries.emplace_back();
      if (!value(out.entries.back().first, depth + 1)) return false;
      if (!value(out.entries.back().second, depth + 1)) return false;
    }
    return true;
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

} // namespace

std::optional<MsgPack> MsgPack::parse(std::string_view bytes) {
  MsgPack out;
  if (!Reader(bytes).value(out, 0)) return std::nullopt;
  return out;
}

const MsgPack *MsgPack::get(std::string_view key) const {
  for (const auto &[k, v] : entries)
    if (k.type == string && k.text == key) return &v;
  return nullptr;
}

uint64_t MsgPack::integer_or(std::string_view key, uint64_t otherwise) const {
  const MsgPack *m = get(key);
  return m && (m->type == integer || m->type == boolean) ? m->value : otherwise;
}

std::string_view MsgPack::string_or(std::string_view key, std::string_view otherwise) const {
  const MsgPack *m = get(key);
  return m && m->type == string ? m->text : otherwise;
}

} // namespace mgx::emu
