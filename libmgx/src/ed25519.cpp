//===- ed25519.cpp - signatures checked, by RFC 8032 ---------------------------------===//
//
// Verification alone: nothing here is secret, so nothing takes a constant time. It is done seldom,
// so that plain formulas suffice: points in extended coordinates, with the one addition that is
// complete for this curve (Hisil, Wong, Carter, Dawson: Twisted Edwards Curves Revisited).
//
//===------------------------------------------------------------------------------===//
#include "ed25519.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace mgx {

namespace {

using Digest = std::array<unsigned char, 64>;

constexpr uint64_t sha512_constants[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

// SHA-512, by FIPS 180-4.
void sha512_block(std::array<uint64_t, 8> &state, const unsigned char *data) {
  uint64_t w[80];
  for (int i = 0; i < 16; ++i) {
    w[i] = 0;
    for (int k = 0; k < 8; ++k)
      w[i] = w[i] << 8 | data[8 * i + k];
  }
  for (int i = 16; i < 80; ++i) {
    uint64_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 1) ^ std::rotr(a, 8) ^ a >> 7) +
           (std::rotr(b, 19) ^ std::rotr(b, 61) ^ b >> 6);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 80; ++i) {
    uint64_t one = h + (std::rotr(e, 14) ^ std::rotr(e, 18) ^ std::rotr(e, 41)) +
                   ((e & f) ^ (~e & g)) + sha512_constants[i] + w[i];
    uint64_t two =
        (std::rotr(a, 28) ^ std::rotr(a, 34) ^ std::rotr(a, 39)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const uint64_t more[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i)
    state[i] += more[i];
}

Digest sha512(std::string message) {
  std::array<uint64_t, 8> state{
      0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
      0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
  };
  uint64_t bits = message.size() * 8;
  message += '\x80';
  while (message.size() % 128 != 112)
    message += '\0';
  message.append(8, '\0'); // The upper half of the length.
  for (int shift = 56; shift >= 0; shift -= 8)
    message += static_cast<char>(bits >> shift);
  for (size_t i = 0; i < message.size(); i += 128)
    sha512_block(state, reinterpret_cast<const unsigned char *>(message.data()) + i);
  Digest digest;
  for (size_t i = 0; i < 64; ++i)
    digest[i] = static_cast<unsigned char>(state[i / 8] >> (56 - 8 * (i % 8)));
  return digest;
}

// A number modulo p = 2^255 - 19, in limbs of 51 bits.
struct Field {
  uint64_t limb[5] = {};
};

__extension__ typedef unsigned __int128 Wide;
constexpr uint64_t limb_mask = (uint64_t(1) << 51) - 1;

Field carried(const Wide (&sum)[5]) {
  Field result;
  Wide carry = 0;
  for (int i = 0; i < 5; ++i) {
    Wide value = sum[i] + carry;
    result.limb[i] = static_cast<uint64_t>(value) & limb_mask;
    carry = value >> 51;
  }
  Wide value = result.limb[0] + carry * 19;
  result.limb[0] = static_cast<uint64_t>(value) & limb_mask;
  result.limb[1] += static_cast<uint64_t>(value >> 51);
  return result;
}

Field operator+(const Field &a, const Field &b) {
  Wide sum[5];
  for (int i = 0; i < 5; ++i)
    sum[i] = Wide(a.limb[i]) + b.limb[i];
  return carried(sum);
}

Field operator-(const Field &a, const Field &b) {
  // 4 p, so that no limb is below 0.
  constexpr uint64_t first = 4 * ((uint64_t(1) << 51) - 19), other = 4 * limb_mask;
  Wide sum[5];
  for (int i = 0; i < 5; ++i)
    sum[i] = Wide(a.limb[i]) + (i ? other : first) - b.limb[i];
  return carried(sum);
}

Field operator*(const Field &a, const Field &b) {
  Wide sum[5] = {};
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j)
      sum[(i + j) % 5] += Wide(a.limb[i]) * b.limb[j] * (i + j < 5 ? 1 : 19);
  return carried(sum);
}

// The one form of a number, little-endian.
std::array<unsigned char, 32> bytes_of(Field a) {
  for (int round = 0; round < 3; ++round) {
    Wide sum[5];
    for (int i = 0; i < 5; ++i)
      sum[i] = a.limb[i];
    a = carried(sum);
  }
  // Now it is below 2^255; it is p or more where adding 19 carries out of bit 255.
  uint64_t carry = 19;
  for (uint64_t limb : a.limb)
    carry = (limb + carry) >> 51;
  carry *= 19;
  std::array<unsigned char, 32> bytes{};
  for (int i = 0; i < 5; ++i) {
    uint64_t limb = a.limb[i] + carry;
    carry = limb >> 51;
    limb &= limb_mask;
    for (int bit = 0; bit < 51; ++bit)
      if (limb >> bit & 1)
        bytes[static_cast<size_t>(51 * i + bit) / 8] |=
            static_cast<unsigned char>(1 << ((51 * i + bit) % 8));
  }
  return bytes;
}

Field field_of(const unsigned char *bytes) {
  Field a;
  for (int i = 0; i < 255; ++i)
    a.limb[i / 51] |= uint64_t(bytes[i / 8] >> (i % 8) & 1) << (i % 51);
  return a;
}

Field number(uint64_t value) { return {{value, 0, 0, 0, 0}}; }
bool equal(const Field &a, const Field &b) { return bytes_of(a) == bytes_of(b); }
bool odd(const Field &a) { return bytes_of(a)[0] & 1; }

// a to the power 2^bits - less, with `less` below 2^8: all such exponents end in a byte of their
// own and have ones above it.
Field power(const Field &a, int bits, unsigned less) {
  unsigned last = 256 - less;
  Field result = number(1);
  for (int bit = bits - 1; bit >= 0; --bit) {
    result = result * result;
    if (bit >= 8 || (last >> bit & 1))
      result = result * a;
  }
  return result;
}

Field inverse(const Field &a) { return power(a, 255, 21); } // p - 2

struct Curve {
  Field d = (number(0) - number(121665)) * inverse(number(121666));
  Field root = power(number(2), 253, 5); // of -1: 2 to the power (p - 1) / 4 = 2^253 - 5
};

const Curve &curve() {
  static const Curve found;
  return found;
}

// (X/Z, Y/Z), with T = XY/Z.
struct Point {
  Field x = number(0), y = number(1), z = number(1), t = number(0);
};

Point operator+(const Point &p, const Point &q) {
  Field a = (p.y - p.x) * (q.y - q.x), b = (p.y + p.x) * (q.y + q.x);
  Field c = p.t * curve().d * q.t, d = p.z * q.z;
  Field e = b - a, f = d + d - (c + c), g = d + d + (c + c), h = b + a;
  return {e * f, g * h, f * g, e * h};
}

// Whether the 32 bytes are a point.
bool decode(const unsigned char *bytes, Point &point) {
  Field y = field_of(bytes), square = y * y;
  Field u = square - number(1), v = curve().d * square + number(1);
  Field cube = v * v * v;
  // The root of u / v, by the exponent (p - 5) / 8 = 2^252 - 3.
  Field x = u * cube * power(u * cube * cube * v, 252, 3);
  if (Field found = v * x * x; !equal(found, u)) {
    if (!equal(found, number(0) - u))
      return false;
    x = x * curve().root;
  }
  if (odd(x) != (bytes[31] >> 7 != 0))
    x = number(0) - x;
  point = {x, y, number(1), x * y};
  return true;
}

using Scalar = std::array<uint64_t, 4>;

// The order of the base point: 2^252 + 27742317777372353535851937790883648493.
constexpr Scalar order{0x5812631a5cf5d3ed, 0x14def9dea2f79cd6, 0, 0x1000000000000000};

bool below_order(const Scalar &a) {
  for (size_t i = 4; i-- > 0;)
    if (a[i] != order[i])
      return a[i] < order[i];
  return false;
}

// A number of 64 bytes modulo the order, bit by bit.
Scalar reduced(const Digest &bytes) {
  Scalar result{};
  for (int bit = 511; bit >= 0; --bit) {
    uint64_t carry = bytes[static_cast<size_t>(bit / 8)] >> (bit % 8) & 1;
    for (uint64_t &limb : result) {
      uint64_t top = limb >> 63;
      limb = limb << 1 | carry;
      carry = top;
    }
    if (below_order(result))
      continue;
    uint64_t borrow = 0;
    for (size_t i = 0; i < 4; ++i) {
      Wide less = Wide(order[i]) + borrow;
      borrow = result[i] < less;
      result[i] -= static_cast<uint64_t>(less);
    }
  }
  return result;
}

// [a] p + [b] q
Point combined(const Scalar &a, const Point &p, const Scalar &b, const Point &q) {
  Point result, both = p + q;
  for (size_t bit = 256; bit-- > 0;) {
    result = result + result;
    bool first = a[bit / 64] >> (bit % 64) & 1, second = b[bit / 64] >> (bit % 64) & 1;
    if (first || second)
      result = result + (first && second ? both : first ? p : q);
  }
  return result;
}

} // namespace

bool is_signature(const unsigned char (&key)[32], const unsigned char (&value)[64],
                  std::string_view message) {
  Scalar s;
  std::memcpy(s.data(), value + 32, 32); // Little-endian, as all machines here.
  Point a, base;
  unsigned char base_bytes[32];
  std::memset(base_bytes, 0x66, 32);
  base_bytes[0] = 0x58;
  if (!below_order(s) || !decode(key, a) || !decode(base_bytes, base))
    return false;
  std::string hashed(reinterpret_cast<const char *>(value), 32);
  hashed.append(reinterpret_cast<const char *>(key), 32);
  hashed += message;
  a.x = number(0) - a.x;
  a.t = number(0) - a.t;
  Point r = combined(s, base, reduced(sha512(std::move(hashed))), a);
  Field z = inverse(r.z), x = r.x * z;
  auto bytes = bytes_of(r.y * z);
  bytes[31] |= static_cast<unsigned char>(odd(x) << 7);
  return std::memcmp(bytes.data(), value, 32) == 0;
}

} // namespace mgx
