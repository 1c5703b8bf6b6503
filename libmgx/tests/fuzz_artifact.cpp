// A libFuzzer target: any bytes are an artifact that is refused, or one that tells all about
// itself.
//
// The library is built with MGX_FUZZ, which takes every hash for the right one; and the sizes in
// the header are made right here, so that the fuzzer's changes reach what lies behind them.
#include "mgx.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t header_bytes = 64;

void put(std::vector<unsigned char> &data, std::size_t offset, std::uint64_t value) {
  for (int i = 0; i < 8; ++i)
    data[offset + static_cast<std::size_t>(i)] = static_cast<unsigned char>(value >> (8 * i));
}

void ask(const mgx_artifact *artifact) {
  mgx_artifact_info info{};
  info.struct_bytes = sizeof info;
  if (mgx_artifact_get_info(artifact, &info))
    std::abort();
  for (mgx_direction way : {MGX_INPUT, MGX_OUTPUT})
    for (std::size_t i = 0; i < (way == MGX_INPUT ? info.input_count : info.output_count); ++i) {
      mgx_tensor_info tensor{};
      tensor.struct_bytes = sizeof tensor;
      if (mgx_artifact_tensor(artifact, way, i, &tensor))
        std::abort();
      for (std::uint32_t axis = 0; axis < tensor.rank; ++axis)
        if (!std::strlen(tensor.size_texts[axis]))
          std::abort();
    }
  for (std::size_t i = 0; i < info.dimension_count; ++i) {
    mgx_dimension_info dim{};
    dim.struct_bytes = sizeof dim;
    if (mgx_artifact_dimension(artifact, i, &dim))
      std::abort();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t count) {
  if (!count)
    return 0; // NULL is a wrong call.
  std::vector<unsigned char> data(bytes, bytes + count);
  if (count > header_bytes) {
    std::size_t end = header_bytes; // The manifest has no other bytes than these.
    while (end < count && data[end] >= ' ' && data[end] <= '~')
      ++end;
    put(data, 16, end - header_bytes);
    put(data, 24, count);
  }
  mgx_artifact *artifact = nullptr;
  if (mgx_error *error = mgx_artifact_open_memory(data.data(), data.size(), nullptr, &artifact)) {
    if (mgx_error_kind_of(error) != MGX_ERROR_ARTIFACT || !std::strlen(mgx_error_text(error)))
      std::abort();
    mgx_error_release(error);
    return 0;
  }
  ask(artifact);
  mgx_artifact_release(artifact);
  return 0;
}
