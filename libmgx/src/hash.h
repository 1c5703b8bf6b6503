//===- hash.h - SHA-256 -------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace mgx {

class Sha256 {
public:
  void add(std::string_view bytes);
  // The hash in hexadecimal; nothing is added afterwards.
  std::string hex();

private:
  void blocks(const unsigned char *data, size_t count);

  std::array<uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> rest{};
  size_t held = 0;
  uint64_t total = 0;
};

// The SHA-256 of some bytes, in hexadecimal.
std::string sha256(std::string_view bytes);

// Whether some bytes have the hash that a file says. A fuzzer, which cannot guess hashes, is built
// with MGX_FUZZ.
inline bool has_hash(std::string_view bytes, const std::string &wanted) {
#ifdef MGX_FUZZ
  (void)bytes, (void)wanted;
  return true;
#else
  return sha256(bytes) == wanted;
#endif
}

std::string hex_text(const unsigned char *bytes, size_t count);

} // namespace mgx
