//===- folders.h - the user's folders -------------------------------------------------===//
#pragma once

#include <string>

namespace mgx {

// The home folder, as Python finds it: of HOME, else of the system's list of users; "" for none.
std::string home_folder();

// The project's folder among the user's caches (mgx_mlir.settings.cache_folder).
std::string user_cache();

} // namespace mgx
