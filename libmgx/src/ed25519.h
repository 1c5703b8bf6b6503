//===- ed25519.h - signatures checked -------------------------------------------------===//
#pragma once

#include <string>
#include <string_view>

namespace mgx {

// Whether `value` is the Ed25519 signature of a message by a public key.
bool is_signature(const unsigned char (&key)[32], const unsigned char (&value)[64],
                  std::string_view message);

} // namespace mgx
