#include "api.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace mgx_ep {

Api api;

namespace {

// The versions of onnxruntime's interface whose tables were tried.
constexpr uint32_t NEWEST = 32, OLDEST = 23;

// The version that a release of onnxruntime has, 23 of "1.23.2". Asking for a newer one makes it
// print.
uint32_t own_version(const char *release) {
  const char *dot = release != nullptr ? std::strchr(release, '.') : nullptr;
  return dot != nullptr ? static_cast<uint32_t>(std::strtoul(dot + 1, nullptr, 10)) : 0;
}

} // namespace

void Api::negotiate(const OrtApiBase *base) {
  if (table_ != nullptr)
    return;
  uint32_t own = own_version(base->GetVersionString());
  uint32_t first = own != 0 ? std::min(own, NEWEST) : NEWEST;
  for (uint32_t version = first; version >= OLDEST; --version) {
    const void *table = base->GetApi(version);
    if (table == nullptr)
      continue;
    table_ = table;
    version_ = version;
    ep_ = (*this)(ort::GetEpApi);
    return;
  }
  // Without a table there is no way to make a status.
  throw Error(std::string("onnxruntime ") + base->GetVersionString() +
              " is too old for this execution provider; use 1.23 or newer");
}

const void *Api::editor() const { return (*this)(ort::GetModelEditorApi); }

void Api::expect(OrtStatus *status) const {
  if (status == nullptr)
    return;
  std::string text = (*this)(ort::GetErrorMessage, status);
  (*this)(ort::ReleaseStatus, status);
  throw Error(text);
}

OrtStatus *Api::status(const std::exception &error) const {
  if (table_ == nullptr)
    return nullptr;
  const auto *own = dynamic_cast<const Error *>(&error);
  bool is_known = own != nullptr || dynamic_cast<const std::filesystem::filesystem_error *>(&error);
  std::string text = std::string(is_known ? "" : "a fault: ") + error.what();
  return (*this)(ort::CreateStatus, own != nullptr ? own->code : ORT_FAIL,
                 (std::string(EP_NAME) + ": " + text).c_str());
}

void log(const OrtLogger *logger, OrtLoggingLevel level, const std::string &text) {
  if (logger == nullptr)
    return;
  OrtStatus *status =
      api(ort::LogMessage, logger, level, text.c_str(), "onnxruntime_ep_mgx", 0, EP_NAME);
  if (status != nullptr)
    api(ort::ReleaseStatus, status);
}

namespace {

thread_local const OrtLogger *listening = nullptr;

void hear(void *user, mgx_level level, const char *text) {
  log(listening != nullptr ? listening : static_cast<const DefaultLog *>(user)->get(),
      level == MGX_LEVEL_WARNING ? ORT_WARNING : ORT_INFO, text);
}

} // namespace

Listening::Listening(const OrtLogger *logger) : before_(listening) { listening = logger; }
Listening::~Listening() { listening = before_; }

DefaultLog::DefaultLog(const OrtLogger *logger) : logger_(logger) { mgx_log_to(hear, this); }
DefaultLog::~DefaultLog() { mgx_log_end(hear, this); }

Texts pairs_of(const OrtKeyValuePairs *pairs) {
  const char *const *keys = nullptr;
  const char *const *values = nullptr;
  size_t count = 0;
  if (pairs != nullptr)
    api(ort::GetKeyValuePairs, pairs, &keys, &values, &count);
  Texts found;
  for (size_t i = 0; i < count; ++i)
    found.emplace_back(keys[i], values[i]);
  return found;
}

Pairs::Pairs(const Texts &pairs) {
  api(ort::CreateKeyValuePairs, &pairs_);
  for (const auto &[key, value] : pairs)
    api(ort::AddKeyValuePair, pairs_, key.c_str(), value.c_str());
}

namespace {

// ONNX's number of an element type. onnxruntime counts alike up to float4 (23), then uint2, int2
// and float8e8m0, of which ONNX has the last first (onnxruntime_c_api.h,
// ONNXTensorElementDataType).
int onnx_element(int element) {
  constexpr int FIRST = 24, NUMBERS[] = {MGX_UINT2, MGX_INT2, MGX_FLOAT8E8M0};
  return element < FIRST || element > FIRST + 2 ? element : NUMBERS[element - FIRST];
}

} // namespace

TensorType tensor_type(const OrtTensorTypeAndShapeInfo *info, bool with_names) {
  TensorType found;
  found.element = onnx_element(api.get(ort::GetTensorElementType, info));
  found.sizes = api.list(ort::GetDimensionsCount, ort::GetDimensions, info);
  if (with_names)
    for (const char *name : api.list(ort::GetDimensionsCount, ort::GetSymbolicDimensions, info))
      found.names.emplace_back(name != nullptr ? name : "");
  return found;
}

TensorType tensor_type(const OrtValue *value) {
  OrtTensorTypeAndShapeInfo *info = api.get(ort::GetTensorTypeAndShape, value);
  TensorType found;
  try {
    found = tensor_type(info, false);
  } catch (...) {
    api(ort::ReleaseTensorTypeAndShapeInfo, info);
    throw;
  }
  api(ort::ReleaseTensorTypeAndShapeInfo, info);
  return found;
}

void expect(mgx_error *error, const char *advice) {
  if (error == nullptr)
    return;
  std::string text = std::string(mgx_error_text(error)) + advice;
  mgx_error_kind kind = mgx_error_kind_of(error);
  mgx_error_release(error);
  throw Error(text, kind == MGX_ERROR_USAGE ? ORT_INVALID_ARGUMENT : ORT_FAIL);
}

std::string target_of(const mgx_device *device) {
  mgx_device_info info{};
  info.struct_bytes = sizeof info;
  expect(mgx_device_get_info(device, &info));
  return info.is_gpu != 0 ? info.target : "cpu";
}

} // namespace mgx_ep
