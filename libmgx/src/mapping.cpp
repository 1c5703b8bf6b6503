//===- mapping.cpp - the bytes of a file, mapped ------------------------------------===//
#include "mapping.h"
#include "error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mgx {

std::shared_ptr<const Bytes> Bytes::map(const std::string &path) {
  auto wrong = [&](int error) { bad_artifact(path, " cannot be opened: ", system_text(error)); };
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // A pipe is not waited for.
  if (file < 0)
    wrong(errno);
  struct stat status;
  if (fstat(file, &status) != 0) {
    int error = errno;
    close(file);
    wrong(error);
  }
  if (S_ISDIR(status.st_mode)) {
    close(file);
    wrong(EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    close(file);
    bad_artifact(path, " is no regular file, which artifacts are mapped from; copy it");
  }
  std::shared_ptr<Bytes> bytes(new Bytes);
  bytes->count = static_cast<size_t>(status.st_size);
  if (bytes->count) {
    void *data = mmap(nullptr, bytes->count, PROT_READ, MAP_SHARED, file, 0);
    int error = errno;
    close(file);
    if (data == MAP_FAILED)
      wrong(error);
    bytes->data = static_cast<const char *>(data);
    bytes->is_mapped = true;
  } else {
    close(file);
  }
  bytes->folder = std::filesystem::absolute(path).parent_path().string();
  return bytes;
}

std::shared_ptr<const Bytes> Bytes::copy(const void *data, size_t count,
                                         const std::string &folder) {
  std::shared_ptr<Bytes> bytes(new Bytes);
  bytes->folder = folder;
  auto *own = static_cast<char *>(::operator new(count + 1, std::align_val_t(4096)));
  if (count)
    std::memcpy(own, data, count);
  bytes->data = own;
  bytes->count = count;
  bytes->owned = true;
  return bytes;
}

std::shared_ptr<const Bytes> Bytes::borrow(const void *data, size_t count,
                                           const std::string &folder) {
  std::shared_ptr<Bytes> bytes(new Bytes);
  bytes->folder = folder;
  bytes->data = static_cast<const char *>(data);
  bytes->count = count;
  return bytes;
}

std::string read_file(const std::string &path, size_t most, int &error) {
  std::string text;
  error = 0;
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    error = errno;
    return text;
  }
  char chunk[4096];
  while (text.size() < most) {
    ssize_t count = ::read(file, chunk, std::min(sizeof chunk, most - text.size()));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      error = errno;
    if (count <= 0)
      break;
    text.append(chunk, static_cast<size_t>(count));
  }
  close(file);
  return text;
}

Bytes::~Bytes() {
  if (is_mapped)
    munmap(const_cast<char *>(data), count);
  else if (owned)
    ::operator delete(const_cast<char *>(data), std::align_val_t(4096));
}

} // namespace mgx
