//===- folders.cpp - the user's folders -----------------------------------------------===//
#include "folders.h"

#include <cstdlib>

#include <pwd.h>
#include <unistd.h>

namespace mgx {

std::string home_folder() {
  if (const char *named = std::getenv("HOME"))
    return named;
  passwd entry, *found = nullptr;
  char texts[4096];
  getpwuid_r(getuid(), &entry, texts, sizeof texts, &found);
  return found ? found->pw_dir : "";
}

std::string user_cache() {
  const char *base = std::getenv("XDG_CACHE_HOME");
  return (base && *base ? std::string(base) : home_folder() + "/.cache") + "/mgx-mlir";
}

} // namespace mgx
