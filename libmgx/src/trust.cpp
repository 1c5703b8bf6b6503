//===- trust.cpp - consent: whose machine code may run here ---------------------------===//
#include "trust.h"
#include "ed25519.h"
#include "hash.h"
#include "json_writer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mgx {

namespace {

constexpr size_t largest_key = 1 << 20;
// The DER form of an Ed25519 public key, up to its 32 bytes (RFC 8410).
constexpr std::string_view key_prefix("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12);

// The bytes of base64, line ends in it; nothing for another text.
std::string base64(std::string_view text) {
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '\n' || c == '\r' || c == '=')
      continue;
    static constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t digit = digits.find(c);
    if (digit == digits.npos)
      return "";
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if ((count += 6) >= 8)
      result += static_cast<char>(bits >> (count -= 8));
  }
  return result;
}

// The 32 bytes of the public key in a PEM file, in hexadecimal.
std::string public_key(const std::string &file) {
  int error;
  std::string text = read_file(file, largest_key + 1, error);
  if (error)
    fail(MGX_ERROR_USAGE, file, " cannot be read: ", system_text(error));
  if (text.size() > largest_key)
    fail(MGX_ERROR_USAGE, file, " is no key: it has more than ", largest_key, " bytes");
  static constexpr std::string_view begin = "-----BEGIN PUBLIC KEY-----",
                                    end = "-----END PUBLIC KEY-----";
  size_t first = text.find(begin), last = text.find(end);
  if (first == text.npos || last == text.npos || last < first)
    fail(MGX_ERROR_USAGE, file, " holds no public key in PEM form");
  first += begin.size();
  std::string der = base64(std::string_view(text).substr(first, last - first));
  if (der.size() != key_prefix.size() + 32 || !der.starts_with(key_prefix))
    fail(MGX_ERROR_USAGE, file, " holds a key of another kind than Ed25519");
  return hex_text(reinterpret_cast<const unsigned char *>(der.data()) + key_prefix.size(), 32);
}

std::vector<std::string> trusted_keys(const Trust &trust) {
  namespace fs = std::filesystem;
  std::vector<std::string> files, keys;
  for (const std::string &path : trust.keys) {
    std::error_code error;
    if (!fs::is_directory(path, error)) { // A fault is that of reading the file.
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    fs::directory_iterator folder(path, error);
    if (error)
      fail(MGX_ERROR_USAGE, path, " cannot be read: ", error.message());
    for (const auto &entry : folder)
      if (entry.path().extension() == ".pem")
        inside.push_back(entry.path().string());
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  for (const std::string &file : files)
    keys.push_back(public_key(file));
  return keys;
}

template <size_t Count> void from_hex(std::string_view text, unsigned char (&bytes)[Count]) {
  auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  for (size_t i = 0; i < Count; ++i)
    bytes[i] = static_cast<unsigned char>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
}

// The bytes that a signature signs.
std::string statement(const Artifact &artifact, const Signature &signature) {
  std::map<std::string, std::string> code;
  for (const auto &[arch, hash] : signature.code)
    code[arch] = text_json(hash);
  return std::string("mgx-mlir artifact 1\0", 20) +
         object_json(
             {{"code", object_json(code)}, {"content_hash", text_json(artifact.content_hash)}});
}

bool is_signed(const Artifact &artifact, const std::string &identity, const Trust &trust) {
  if (trust.keys.empty())
    return false;
  std::vector<std::string> keys = trusted_keys(trust);
  const std::string &hash = artifact.code_hashes.at(identity);
  for (const Signature &signature : artifact.signatures) {
    auto found = signature.code.find(identity);
    if (found == signature.code.end() || found->second != hash ||
        !std::count(keys.begin(), keys.end(), signature.key))
      continue;
    unsigned char key[32], value[64];
    from_hex(signature.key, key);
    from_hex(signature.value, value);
    if (is_signature(key, value, statement(artifact, signature)))
      return true;
  }
  return false;
}

// Throws a user error for a folder of code that another user can change. It may be missing.
void check_own_folder(const std::string &folder) {
  struct stat status;
  if (stat(folder.c_str(), &status) != 0)
    return;
  std::string fault;
  if (status.st_uid != geteuid())
    fault = cat(folder, " belongs to user ", status.st_uid);
  else if (status.st_mode & (S_IWGRP | S_IWOTH))
    fault = cat("others may write to ", folder);
  if (!fault.empty())
    fail(MGX_ERROR_USER, "the kernel cache is refused: ", fault,
         ", and its entries are code that runs as user ", geteuid(),
         "; name another folder in MGX_CACHE_DIR, or make this one yours alone (chown, chmod "
         "go-w)");
}

// Whether this machine made the code, as the kernel cache remembers, and the code says what it
// touches: the cache vouches for code, not for the plan beside it.
bool made_here(const Artifact &artifact, const std::string &identity, const Trust &trust) {
  for (const CodeObject &code : artifact.code.at(identity))
    if (!code.interface)
      return false;
  if (trust.cache.empty())
    return false;
  check_own_folder(trust.cache);
  std::string note = cat(trust.cache, "/made/", artifact.code_hashes.at(identity));
  return utimensat(AT_FDCWD, note.c_str(), nullptr, 0) == 0;
}

} // namespace

bool admitted(const Artifact &artifact, const std::string &identity, bool gpu, const Trust &trust) {
  return trust.everybody || (gpu && !trust.vouched_gpu_code) ||
         made_here(artifact, identity, trust) || is_signed(artifact, identity, trust);
}

} // namespace mgx
