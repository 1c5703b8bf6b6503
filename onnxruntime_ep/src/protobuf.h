// The wire format of protobuf, as far as ONNX models need it: varints, fixed 32 bits, and bytes.
#ifndef MGX_EP_PROTOBUF_H
#define MGX_EP_PROTOBUF_H

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace mgx_ep {

class Message {
public:
  Message &integer(uint32_t field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message &number(uint32_t field, float value) {
    tag(field, 5);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    for (int shift = 0; shift < 32; shift += 8)
      bytes_.push_back(static_cast<char>(bits >> shift & 0xff));
    return *this;
  }
  Message &text(uint32_t field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message &message(uint32_t field, const Message &value) { return text(field, value.bytes_); }
  const std::string &bytes() const { return bytes_; }

private:
  void tag(uint32_t field, uint32_t kind) { varint(field << 3 | kind); }
  void varint(uint64_t value) {
    for (; value > 0x7f; value >>= 7)
      bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

} // namespace mgx_ep

#endif
