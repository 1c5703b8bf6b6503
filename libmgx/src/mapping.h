//===- mapping.h - the bytes of a file, mapped --------------------------------------===//
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace mgx {

// Bytes that something keeps: a mapped file, a copy, or the caller's memory.
class Bytes {
public:
  // Maps a regular file. Errors name the path.
  static std::shared_ptr<const Bytes> map(const std::string &path);
  static std::shared_ptr<const Bytes> copy(const void *data, size_t count,
                                           const std::string &folder);
  static std::shared_ptr<const Bytes> borrow(const void *data, size_t count,
                                             const std::string &folder);

  Bytes(const Bytes &) = delete;
  Bytes &operator=(const Bytes &) = delete;
  ~Bytes();

  std::string_view view() const { return {data, count}; }
  bool mapped() const { return is_mapped; }

  std::string folder; // The file's folder, absolute; empty without a file.

private:
  Bytes() = default;
  const char *data = nullptr;
  size_t count = 0;
  bool is_mapped = false, owned = false;
};

// The bytes of a file, which may be a pipe or one of /proc; at most `most` of them. `error` gets
// errno where it cannot be read.
std::string read_file(const std::string &path, size_t most, int &error);

} // namespace mgx
