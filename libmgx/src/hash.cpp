//===- hash.cpp - SHA-256, by FIPS 180-4; with x86's instructions where there are --===//
#include "hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace mgx {

namespace {

alignas(16) constexpr uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void plain_blocks(std::array<uint32_t, 8> &state, const unsigned char *data, size_t count) {
  for (; count; --count, data += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i)
      w[i] = uint32_t(data[4 * i]) << 24 | uint32_t(data[4 * i + 1]) << 16 |
             uint32_t(data[4 * i + 2]) << 8 | data[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < 64; ++i) {
      uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                     ((e & f) ^ (~e & g)) + constants[i] + w[i];
      uint32_t two =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    const uint32_t more[8] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i)
      state[i] += more[i];
  }
}

#if defined(__x86_64__)

bool has_instructions() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b >> 29 & 1))
    return false;
  return __get_cpuid(1, &a, &b, &c, &d) && (c >> 19 & 1) && (c >> 9 & 1); // SSE4.1, SSSE3
}

// The instructions hold the state as (f, e, b, a) and (h, g, d, c), and do two rounds each.
__attribute__((target("sha,sse4.1,ssse3"))) void
fast_blocks(std::array<uint32_t, 8> &state, const unsigned char *data, size_t count) {
  const __m128i order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  auto *words = reinterpret_cast<__m128i *>(state.data());
  __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
  __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count; --count, data += 64) {
    __m128i first = abef, second = cdgh, m[4];
    for (int i = 0; i < 4; ++i)
      m[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(data) + i), order);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const auto *k = reinterpret_cast<const __m128i *>(constants) + i;
      __m128i sum = _mm_add_epi32(m[i % 4], _mm_load_si128(k));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (i < 12) {
        __m128i sevens = _mm_alignr_epi8(m[(i + 3) % 4], m[(i + 2) % 4], 4);
        __m128i part = _mm_add_epi32(_mm_sha256msg1_epu32(m[i % 4], m[(i + 1) % 4]), sevens);
        m[i % 4] = _mm_sha256msg2_epu32(part, m[(i + 3) % 4]);
      }
    }
    abef = _mm_add_epi32(abef, first);
    cdgh = _mm_add_epi32(cdgh, second);
  }
  __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#endif

} // namespace

void Sha256::blocks(const unsigned char *data, size_t count) {
#if defined(__x86_64__)
  static const bool fast = has_instructions();
  if (fast)
    return fast_blocks(state, data, count);
#endif
  plain_blocks(state, data, count);
}

void Sha256::add(std::string_view bytes) {
  const auto *data = reinterpret_cast<const unsigned char *>(bytes.data());
  size_t count = bytes.size();
  total += count;
  if (held) {
    size_t part = std::min(count, rest.size() - held);
    if (part)
      std::memcpy(rest.data() + held, data, part);
    held += part, data += part, count -= part;
    if (held < rest.size())
      return;
    blocks(rest.data(), 1);
    held = 0;
  }
  blocks(data, count / 64);
  held = count % 64;
  if (held)
    std::memcpy(rest.data(), data + count - held, held);
}

std::string Sha256::hex() {
  uint64_t bits = total * 8;
  rest[held++] = 0x80;
  if (held > 56) {
    std::memset(rest.data() + held, 0, 64 - held);
    blocks(rest.data(), 1);
    held = 0;
  }
  std::memset(rest.data() + held, 0, 56 - held);
  for (size_t i = 0; i < 8; ++i)
    rest[56 + i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  blocks(rest.data(), 1);
  unsigned char bytes[32];
  for (size_t i = 0; i < 32; ++i)
    bytes[i] = static_cast<unsigned char>(state[i / 4] >> (24 - 8 * (i % 4)));
  return hex_text(bytes, 32);
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string hex_text(const unsigned char *bytes, size_t count) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

} // namespace mgx
