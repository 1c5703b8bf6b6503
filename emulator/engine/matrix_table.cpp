// Mnemonic to MatrixOp. The name says everything but the fp8 dialect, so nothing is listed twice:
// whether a chip has an instruction is decided by LLVM's decoder before this is asked.
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "matrix_layout.h"

namespace mgx::emu {
namespace {

bool take(std::string_view &text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

int take_number(std::string_view &text) {
  int value = 0;
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front()))) {
    value = value * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  return value;
}

std::optional<MatrixFormat> take_format(std::string_view &text, bool fnuz) {
  using F = MatrixFormat;
  static constexpr std::pair<std::string_view, F> names[] = {
      {"f8f6f4", F::kF8f6f4}, {"bf16", F::kBf16}, {"bf8", F::kBf8}, {"f16", F::kF16},
      {"f32", F::kF32},       {"f64", F::kF64},   {"fp8", F::kFp8}, {"i32", F::kI32},
      {"i8", F::kI8},         {"iu4", F::kIu4},   {"iu8", F::kIu8}, {"xf32", F::kXf32}};
  for (const auto &[name, format] : names) {
    if (!take(text, name)) continue;
    if (fnuz && format == F::kFp8) return F::kFp8Fnuz;
    if (fnuz && format == F::kBf8) return F::kBf8Fnuz;
    return format;
  }
  return std::nullopt;
}

// Items of A in one lane, for names of gfx90a that do not say how many blocks there are
// ("v_mfma_f32_32x32x4f16" is two blocks, "v_mfma_f32_32x32x8f16" one).
int items_in_lane(MatrixFormat format, bool one_k) {
  switch (format) {
  case MatrixFormat::kF16:
  case MatrixFormat::kI8: return 4;
  case MatrixFormat::kBf16: return one_k ? 4 : 2;
  default: return 1;
  }
}

std::unique_ptr<MatrixPlan> parse(std::string_view text, uint32_t gfx, uint32_t wave_size) {
  const uint32_t major = gfx >> 8;
  const bool cdna = major == 9;
  auto plan = std::make_unique<MatrixPlan>();
  plan->wave_size = uint8_t(wave_size);
  if (take(text, "v_mfma_scale_")) plan->kind = MatrixKind::kMfma, plan->scaled = true;
  else if (take(text, "v_mfma_")) plan->kind = MatrixKind::kMfma;
  else if (take(text, "v_smfmac_")) plan->kind = MatrixKind::kSmfmac;
  else if (take(text, "v_wmma_")) plan->kind = MatrixKind::kWmma;
  else if (take(text, "v_swmmac_")) plan->kind = MatrixKind::kSwmmac;
  else return nullptr;
  const bool mfma = plan->kind == MatrixKind::kMfma || plan->kind == MatrixKind::kSmfmac;
  if (mfma != cdna || (mfma && wave_size != 64) || (!mfma && major != 11 && major != 12))
    return nullptr;
  plan->layout = mfma          ? MatrixLayout::kCdna
                 : major == 11 ? MatrixLayout::kGfx11
                               : MatrixLayout::kGfx12;

  const bool fnuz = gfx == 0x942;
  const auto acc = take_format(text, fnuz);
  if (!acc || !take(text, "_")) return nullptr;
  plan->acc = *acc;
  plan->m = uint8_t(take_number(text));
  if (!take(text, "x")) return nullptr;
  plan->n = uint8_t(take_number(text));
  if (!take(text, "x")) return nullptr;
  plan->k = uint16_t(take_number(text));
  if (!plan->m || !plan->n || !plan->k) return nullptr;

  int blocks = 0;
  if (take(text, "_")) {
    blocks = 1;
    std::string_view rest = text;
    const int number = take_number(rest);
    if (number && take(rest, "b_")) blocks = number, text = rest;
  }
  const auto a = take_format(text, fnuz);
  if (!a) return nullptr;
  plan->a = plan->b = *a;
  if (take(text, "_1k")) {
    if (!blocks) blocks = 64 * items_in_lane(*a, true) / (plan->m * plan->k);
  } else if (take(text, "_")) {
    const auto b = take_format(text, fnuz);
    if (!b) return nullptr;
    plan->b = *b;
  }
  if (!text.empty()) return nullptr;
  if (!blocks) blocks = 64 * items_in_lane(*a, false) / (plan->m * plan->k);
  plan->blocks = uint8_t(blocks < 1 ? 1 : blocks);
  // "On MI200 the F16 and BF16 V_DOT2 and MFMA instructions flush input and output denormals to
  // zero" (ROCm documentation, PyTorch "Numerical accuracy": MI200; not on MI300).
  plan->flush_denormals = gfx == 0x90a && (*a == MatrixFormat::kF16 || *a == MatrixFormat::kBf16);
  lay_out(*plan);
  return plan;
}

}  // namespace

const MatrixOp *find_matrix_op(std::string_view mnemonic, uint32_t gfx, uint32_t wave_size) {
  if (mnemonic.size() > 4 && mnemonic.substr(mnemonic.size() - 4) == "_e64")
    mnemonic.remove_suffix(4);
  static std::mutex mutex;
  static std::map<std::tuple<std::string, uint32_t, uint32_t>, std::unique_ptr<MatrixPlan>> plans;
  const std::lock_guard lock(mutex);
  auto [entry, added] = plans.try_emplace({std::string(mnemonic), gfx, wave_size});
  if (added) entry->second = parse(mnemonic, gfx, wave_size);
  return entry->second.get();
}

}  // namespace mgx::emu
