#include "options.h"

#include "folders.h"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

namespace mgx_ep {

namespace {

[[noreturn]] void refuse(const std::string &name, const std::string &value, const char *allowed) {
  throw Error("option " + name + " is '" + value + "'; use " + allowed, ORT_INVALID_ARGUMENT);
}

bool flag(const std::string &name, const std::string &value) {
  if (value == "1" || value == "true" || value == "True")
    return true;
  if (value == "0" || value == "false" || value == "False")
    return false;
  refuse(name, value, "0 or 1");
}

int whole(const std::string &name, const std::string &value) {
  bool digits =
      !value.empty() && value.size() < 7 &&
      std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits)
    refuse(name, value, "a whole number");
  return std::stoi(value);
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    if (!part.empty())
      parts.push_back(part);
  return parts;
}

using Setter = std::function<void(Options &, const std::string &name, const std::string &value)>;

const std::map<std::string, Setter> &setters() {
  static const std::map<std::string, Setter> table{
      {"arch", [](Options &o, auto &, auto &v) { o.arch = v; }},
      {"bf16", [](Options &o, auto &n, auto &v) { o.bf16 = flag(n, v); }},
      {"cache_dir",
       [](Options &o, auto &n, auto &v) {
         if (v.empty())
           refuse(n, v, "a folder");
         o.cache_dir = v;
         o.own_cache = true;
       }},
      {"compiler", [](Options &o, auto &, auto &v) { o.compiler = v; }},
      {"exact", [](Options &o, auto &n, auto &v) { o.exact = flag(n, v); }},
      {"fp16", [](Options &o, auto &n, auto &v) { o.fp16 = flag(n, v); }},
      {"graph", [](Options &o, auto &n, auto &v) { o.graph = flag(n, v); }},
      {"mode", [](Options &o, auto &, auto &v) { o.mode = v; }},
      {"threads", [](Options &o, auto &n, auto &v) { o.threads = whole(n, v); }},
      {"trust",
       [](Options &o, auto &n, auto &v) {
         o.own_trust = true;
         o.trust = v == "all";
         o.keys = v == "all" || v == "none" ? std::vector<std::string>{} : split(v, ':');
         for (const std::string &key : o.keys)
           if (!std::filesystem::exists(key))
             refuse(n, v, "none, all, or files of public keys that are there");
       }},
  };
  return table;
}

} // namespace

Options Options::of(const OrtSessionOptions *session) {
  Options options;
  options.cache_dir = mgx::user_cache();
  OrtKeyValuePairs *entries = nullptr;
  api.check(ort::SessionOptions, session, &entries);
  auto pairs = pairs_of(entries);
  api(ort::ReleaseKeyValuePairs, entries);
  for (const auto &[key, value] : pairs) {
    if (key == "ep.context_enable")
      options.write_context = value == "1";
    else if (key == "ep.context_embed_mode")
      options.embed = value == "1";
    else if (key == "ep.context_file_path")
      options.context_path = value;
    else if (key == "session.compile_only")
      options.only_compiles = value == "1";
    for (std::string_view prefix : {"ep.mgx.", "ep.mgxexecutionprovider."}) {
      if (key.compare(0, prefix.size(), prefix) != 0)
        continue;
      std::string name = key.substr(prefix.size());
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      auto found = setters().find(name);
      if (found != setters().end()) {
        found->second(options, name, value);
        continue;
      }
      std::string there;
      for (const auto &entry : setters())
        there += (there.empty() ? "" : ", ") + entry.first;
      throw Error("there is no option '" + name + "'; there are: " + there, ORT_INVALID_ARGUMENT);
    }
  }
  if (options.fp16 && options.bf16)
    throw Error("options fp16 and bf16 are both set; set one", ORT_INVALID_ARGUMENT);
  return options;
}

std::vector<std::string> Options::words(const std::string &device_target) const {
  std::vector<std::string> words{"--arch", arch.empty() ? device_target : arch};
  if (!mode.empty())
    words.insert(words.end(), {"--mode", mode});
  if (fp16 || bf16)
    words.push_back(fp16 ? "--fp16" : "--bf16");
  if (exact)
    words.push_back("--exact");
  if (write_context)
    words.push_back("--contexts");
  return words;
}

} // namespace mgx_ep
