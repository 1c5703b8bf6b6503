// Calls into onnxruntime by the places of abi.h; errors are exceptions inside and statuses outside.
#ifndef MGX_EP_API_H
#define MGX_EP_API_H

#include "abi.h"
#include "mgx.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mgx_ep {

inline constexpr const char *EP_NAME = "MGXExecutionProvider";

class Error : public std::runtime_error {
public:
  explicit Error(const std::string &text, OrtErrorCode code = ORT_FAIL)
      : std::runtime_error(text), code(code) {}
  OrtErrorCode code;
};

// The tables of the onnxruntime that loaded this library, chosen once.
class Api {
public:
  // Takes the newest version of the interface that both sides know. Throws Error.
  void negotiate(const OrtApiBase *base);

  uint32_t version() const { return version_; }
  const void *ep() const { return ep_; }
  const void *editor() const;

  template <typename Result, typename... Parameters, typename... Arguments>
  Result operator()(Entry<Result(Parameters...)> entry, Arguments... arguments) const {
    return of(table_, entry, arguments...);
  }

  // A function of another table than OrtApi.
  template <typename Result, typename... Parameters, typename... Arguments>
  static Result of(const void *table, Entry<Result(Parameters...)> entry, Arguments... arguments) {
    using Function = Result (*)(Parameters...);
    return reinterpret_cast<Function>(static_cast<void *const *>(table)[entry.place])(
        static_cast<Parameters>(arguments)...);
  }

  // Calls a function that may fail. Throws Error with its words.
  template <typename... Parameters, typename... Arguments>
  void check(Checked<Parameters...> entry, Arguments... arguments) const {
    expect((*this)(entry, arguments...));
  }
  template <typename... Parameters, typename... Arguments>
  void check_ep(Checked<Parameters...> entry, Arguments... arguments) const {
    expect(of(ep_, entry, arguments...));
  }

  // The one value that a function writes.
  template <typename Value, typename Object>
  Value get(Checked<const Object *, Value *> entry, const Object *object) const {
    Value value{};
    check(entry, object, &value);
    return value;
  }

  // The array that a function writes, whose size another gives.
  template <typename Item, typename Object>
  std::vector<Item> list(Checked<const Object *, size_t *> count,
                         Checked<const Object *, Item *, size_t> items,
                         const Object *object) const {
    std::vector<Item> found(get(count, object));
    if (!found.empty())
      check(items, object, found.data(), found.size());
    return found;
  }

  void expect(OrtStatus *status) const;
  OrtStatus *status(const std::exception &error) const;

private:
  const void *table_ = nullptr;
  const void *ep_ = nullptr;
  uint32_t version_ = 0;
};

extern Api api;

// Runs `work`; what it throws becomes a status.
template <typename Work> OrtStatus *guarded(Work &&work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception &error) {
    return api.status(error);
  }
}

// Writes to onnxruntime's log.
void log(const OrtLogger *logger, OrtLoggingLevel level, const std::string &text);

// While one of these is there, libmgx's words of its thread go to this log.
class Listening {
public:
  explicit Listening(const OrtLogger *logger);
  ~Listening();

private:
  const OrtLogger *before_;
};

// While it is there, libmgx's other words go to this log, as well as to other listeners of the
// process.
class DefaultLog {
public:
  explicit DefaultLog(const OrtLogger *logger);
  ~DefaultLog();
  DefaultLog(const DefaultLog &) = delete;
  DefaultLog &operator=(const DefaultLog &) = delete;
  const OrtLogger *get() const { return logger_; }

private:
  const OrtLogger *logger_;
};

// The keys and values of a list of onnxruntime's.
using Texts = std::vector<std::pair<std::string, std::string>>;
Texts pairs_of(const OrtKeyValuePairs *pairs);

// A list of onnxruntime's with these pairs.
class Pairs {
public:
  explicit Pairs(const Texts &pairs);
  ~Pairs() { api(ort::ReleaseKeyValuePairs, pairs_); }
  Pairs(const Pairs &) = delete;
  Pairs &operator=(const Pairs &) = delete;
  const OrtKeyValuePairs *get() const { return pairs_; }

private:
  OrtKeyValuePairs *pairs_ = nullptr;
};

// Element type and sizes of a tensor. `names` are those of dimensions without a size, "" for none.
struct TensorType {
  int element = 0;
  std::vector<int64_t> sizes;
  std::vector<std::string> names;
};
TensorType tensor_type(const OrtTensorTypeAndShapeInfo *info, bool with_names);
TensorType tensor_type(const OrtValue *value);

// libmgx's errors as exceptions.
void expect(mgx_error *error, const char *advice = "");

// The target that the provider compiles for on a device: "gfx942", "cpu".
std::string target_of(const mgx_device *device);

template <typename Object, void (*release)(Object *)> struct Releaser {
  void operator()(Object *object) const { release(object); }
};
using Artifact = std::unique_ptr<mgx_artifact, Releaser<mgx_artifact, mgx_artifact_release>>;
using Device = std::unique_ptr<mgx_device, Releaser<mgx_device, mgx_device_release>>;
using Program = std::unique_ptr<mgx_program, Releaser<mgx_program, mgx_program_release>>;

} // namespace mgx_ep

#endif
