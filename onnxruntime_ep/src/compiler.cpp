#include "compiler.h"

#include "hash.h"
#include "interrupts.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace mgx_ep {

namespace fs = std::filesystem;

namespace {

constexpr const char *LIST = "islands.txt", *HEADING = "mgx-islands 1", *MADE_BY = "made-by.txt";
constexpr const char *WORDS = "log.txt"; // the compiler's
constexpr const char *ELSEWHERE = "; option cache_dir names another folder";
constexpr size_t MOST_SHOWN = 4000; // of the compiler's words

std::string key_of(const Model &model, const std::vector<std::string> &words) {
  mgx::Sha256 hash;
  auto add = [&hash](const void *data, size_t bytes) {
    uint64_t size = bytes;
    hash.add({reinterpret_cast<const char *>(&size), sizeof size});
    hash.add({static_cast<const char *>(data), bytes});
  };
  add(model.bytes.data(), model.bytes.size());
  for (const Payload &payload : model.payloads)
    add(payload.data, payload.bytes);
  for (const std::string &word : words)
    add(word.data(), word.size());
  add(mgx_version(), std::strlen(mgx_version()));
  return hash.hex();
}

void write_file(const fs::path &path, const std::vector<Payload> &parts) {
  std::ofstream file(path, std::ios::binary);
  for (const Payload &part : parts)
    file.write(static_cast<const char *>(part.data), static_cast<std::streamsize>(part.bytes));
  file.close();
  if (!file)
    throw Error("cannot write " + path.string() + ELSEWHERE);
}

std::string read_file(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A folder beside the entry, which becomes it when it is whole, and goes away when it is not.
class Draft {
public:
  explicit Draft(const fs::path &entry) : entry_(entry) {
    std::string pattern = entry.string() + ".XXXXXX";
    std::error_code failed;
    fs::create_directories(entry.parent_path(), failed);
    if (failed || mkdtemp(pattern.data()) == nullptr)
      throw Error("cannot make a folder in " + entry.parent_path().string() + ": " +
                  (failed ? failed.message() : std::strerror(errno)) + ELSEWHERE);
    folder = pattern;
    remove_abandoned();
  }
  ~Draft() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  // Another process may have made the same entry meanwhile.
  void keep() const {
    std::error_code error;
    fs::rename(folder, entry_, error);
    if (error && !fs::exists(entry_ / LIST))
      throw Error("cannot write " + entry_.string() + ": " + error.message());
  }
  fs::path folder;

private:
  // Drafts of the same entry whose processes were killed, so that they stayed.
  void remove_abandoned() const {
    std::error_code ignored;
    for (const auto &other : fs::directory_iterator(entry_.parent_path(), ignored)) {
      auto age = fs::file_time_type::clock::now() - other.last_write_time(ignored);
      if (other.path().stem() == entry_.filename() && other.path() != entry_ &&
          age > std::chrono::hours(24))
        fs::remove_all(other.path(), ignored);
    }
  }

  fs::path entry_;
};

std::vector<std::string> environment(const Options &options) {
  std::vector<std::string> variables;
  for (char **entry = environ; *entry != nullptr; ++entry)
    if (!options.own_cache || std::strncmp(*entry, "MGX_CACHE_DIR=", 14) != 0)
      variables.emplace_back(*entry);
  if (options.own_cache)
    variables.push_back("MGX_CACHE_DIR=" + (options.cache_dir / "kernels").string());
  return variables;
}

std::vector<char *> pointers(std::vector<std::string> &texts) {
  std::vector<char *> found;
  for (std::string &text : texts)
    found.push_back(text.data());
  found.push_back(nullptr);
  return found;
}

// Runs a command; its output goes to `log`. Throws Error with its words where it fails.
void run(std::vector<std::string> words, const Options &options, const fs::path &log) {
  std::vector<std::string> variables = environment(options);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process = 0;
  int failed = posix_spawnp(&process, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                            pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    throw Error("the compiler '" + words[0] + "' cannot be run: " + std::strerror(failed) +
                "; install mgx-mlir (its command mgx on the PATH, or option compiler names it), or "
                "compile the model before: mgx ep-context MODEL -o MODEL_CTX");
  {
    Interrupts to_child(process);
    siginfo_t info;
    while (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) < 0)
      if (errno != EINTR)
        throw Error(std::string("waiting for the compiler failed: ") + std::strerror(errno));
  }
  int status = 0;
  waitpid(process, &status, 0); // Nobody else has its number before.
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return;
  std::string said = read_file(log);
  if (said.size() > MOST_SHOWN)
    said = "..." + said.substr(said.size() - MOST_SHOWN);
  std::string end =
      WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status)) : "failed";
  throw Error("the compiler '" + words[0] + "' " + end + ": " + said);
}

// The version that the compiler says it has, asked once a process; "" where it cannot be run.
std::string version_of(const Options &options) {
  static std::mutex asking;
  static std::map<std::string, std::string> known;
  std::lock_guard<std::mutex> hold(asking);
  auto [found, is_new] = known.try_emplace(options.compiler);
  if (!is_new)
    return found->second;
  std::error_code failed;
  std::string said = (fs::temp_directory_path(failed) / "mgx-version.XXXXXX").string();
  int file = mkstemp(said.data());
  if (file < 0)
    return "";
  close(file);
  try {
    run({options.compiler, "--version"}, options, said);
    found->second = read_file(said);
  } catch (const Error &) { // What is compiled already runs without it.
  }
  fs::remove(said);
  return found->second;
}

// Reads the list of islands: a line each of the artifact's file and the numbers of its nodes.
std::vector<Compiled> read_list(const fs::path &folder, size_t node_count) {
  std::ifstream file(folder / LIST);
  std::string line;
  bool sound = std::getline(file, line) && line == HEADING;
  std::vector<Compiled> found;
  while (sound && std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    Compiled island{folder / name, {}, nullptr, nullptr};
    for (size_t node; words >> node;)
      island.nodes.push_back(node);
    sound = words.eof() && !island.nodes.empty() && name.find('/') == std::string::npos;
    for (size_t node : island.nodes)
      sound = sound && node < node_count;
    found.push_back(std::move(island));
  }
  if (!sound)
    throw Error(folder.string() + " has no list of compiled parts");
  return found;
}

// The parts of an entry of the cache, with their programs. `is_own`: this process had them made, so
// that nobody else has to vouch for their code.
std::vector<Compiled> loaded(const fs::path &entry, size_t node_count, const Options &options,
                             mgx_device *device, bool is_own) {
  std::vector<Compiled> found = read_list(entry, node_count);
  for (Compiled &island : found) {
    island.artifact = opened(island.path);
    island.program = program_of(island.artifact.get(), device, options, is_own);
  }
  return found;
}

// The entry of the cache that this version of the compiler made. An entry of another one, and one
// that is damaged or that nothing vouches for, goes away.
std::optional<std::vector<Compiled>> kept(const fs::path &entry, const std::string &version,
                                          size_t node_count, const Options &options,
                                          mgx_device *device, const OrtLogger *logger) {
  if (!fs::exists(entry))
    return std::nullopt;
  std::string reason = entry.string() + " is of another version of the compiler";
  if (version.empty() || read_file(entry / MADE_BY) == version)
    try {
      return loaded(entry, node_count, options, device, false);
    } catch (const Error &error) {
      reason = error.what();
    }
  log(logger, ORT_WARNING, "compiling again: " + reason);
  std::error_code failed;
  fs::remove_all(entry, failed);
  if (failed)
    throw Error("cannot remove " + entry.string() + ": " + failed.message() + ELSEWHERE);
  return std::nullopt;
}

// The parts that the compiler has just made in a folder of this process alone.
std::vector<Compiled> own(const fs::path &folder, size_t node_count, const Options &options,
                          mgx_device *device) {
  if (!fs::exists(folder / LIST))
    throw Error("the compiler '" + options.compiler + "' ended well, and made nothing");
  try {
    return loaded(folder, node_count, options, device, true);
  } catch (const Error &error) {
    if (options.arch.empty())
      throw;
    throw Error(std::string(error.what()) + "; option arch is '" + options.arch + "'");
  }
}

void log_words(const fs::path &entry, const OrtLogger *logger) {
  std::string said = read_file(entry / WORDS);
  if (!said.empty())
    log(logger, ORT_INFO, said.substr(0, MOST_SHOWN));
}

} // namespace

std::vector<Compiled> compile(const Model &model, const Options &options, mgx_device *device,
                              const OrtLogger *logger) {
  std::vector<std::string> words = options.words(target_of(device));
  fs::path entry = options.cache_dir / "onnxruntime" / key_of(model, words);
  std::string version = version_of(options);
  if (auto found = kept(entry, version, model.nodes.size(), options, device, logger)) {
    count(&Counters::found);
    log(logger, ORT_INFO, "compiled before: " + entry.string());
    log_words(entry, logger);
    return std::move(*found);
  }
  Draft draft(entry);
  fs::path file = draft.folder / "model.onnx";
  write_file(file, {{model.bytes.data(), model.bytes.size()}});
  write_file(draft.folder / WEIGHTS, model.payloads);
  std::vector<std::string> command{options.compiler, "ep-context", file.string(), "--islands",
                                   draft.folder.string()};
  command.insert(command.end(), words.begin(), words.end());
  log(logger, ORT_INFO, "compiling " + std::to_string(model.nodes.size()) + " nodes");
  count(&Counters::compiled);
  run(command, options, draft.folder / WORDS);
  log_words(draft.folder, logger);
  std::vector<Compiled> made = own(draft.folder, model.nodes.size(), options, device);
  fs::remove(file);
  fs::remove(draft.folder / WEIGHTS);
  write_file(draft.folder / MADE_BY, {{version.data(), version.size()}});
  draft.keep();
  for (Compiled &island : made) // they stay open
    island.path = entry / island.path.filename();
  return made;
}

} // namespace mgx_ep
