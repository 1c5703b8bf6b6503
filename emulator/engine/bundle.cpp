// Finds the code object of a chip in what a HIP program passes as a module: an
// ELF image, a clang offload bundle, or a compressed bundle. Formats:
// clang/docs/ClangOffloadBundler.rst.
#include "engine.h"

#include <algorithm>
#include <cstring>
#include <zlib.h>
#include <zstd.h>

namespace mgx::emu {

namespace {

constexpr char kBundleMagic[] = "__CLANG_OFFLOAD_BUNDLE__"; // 24 bytes
constexpr uint64_t kMaxUncompressed = uint64_t(1) << 31;

template <class T> bool read(const uint8_t *bytes, size_t size, uint64_t at, T &out) {
  if (at > size || size - at < sizeof(T)) return false;
  std::memcpy(&out, bytes + at, sizeof(T));
  return true;
}

bool is_elf(const uint8_t *b, size_t n) {
  return n >= 4 && !std::memcmp(b,
                                "\x7f"
                                "ELF",
                                4);
}
bool is_bundle(const uint8_t *b, size_t n) { return n >= 32 && !std::memcmp(b, kBundleMagic, 24); }
bool is_compressed(const uint8_t *b, size_t n) { return n >= 20 && !std::memcmp(b, "CCOB", 4); }

FoundCodeObject invalid(std::string text) {
  FoundCodeObject f;
  f.error = std::move(text);
  return f;
}

struct CompressedHeader {
  uint64_t header = 0, file = 0, uncompressed = 0;
  uint16_t method = 0;
};

bool read_compressed_header(const uint8_t *b, size_t n, CompressedHeader &h) {
  uint16_t version;
  if (!read(b, n, 4, version) || !read(b, n, 6, h.method)) return false;
  uint32_t file32 = 0, size32 = 0;
  switch (version) {
  case 1:
    h.header = 20;
    if (!read(b, n, 8, size32)) return false;
    h.uncompressed = size32;
    return true;
  case 2:
    h.header = 24;
    if (!read(b, n, 8, file32) || !read(b, n, 12, size32)) return false;
    h.file = file32;
    h.uncompressed = size32;
    return true;
  case 3: h.header = 32; return read(b, n, 8, h.file) && read(b, n, 16, h.uncompressed);
  }
  return false;
}

FoundCodeObject decompress(const uint8_t *b, size_t n, const Chip &chip) {
  CompressedHeader h;
  if (!read_compressed_header(b, n, h) || n < h.header)
    return invalid("compressed offload bundle: unknown header");
  uint64_t end = h.file ? std::min<uint64_t>(h.file, n) : n;
  // No code compresses a thousandfold; a header that says so would only cost memory.
  if (end < h.header || h.uncompressed > kMaxUncompressed ||
      h.uncompressed > 4096 + 1024 * (end - h.header))
    return invalid("compressed offload bundle: impossible sizes");
  std::vector<uint8_t> out(h.uncompressed);
  if (h.method == 1) {
    size_t got = ZSTD_decompress(out.data(), out.size(), b + h.header, end - h.header);
    if (ZSTD_isError(got) || got != out.size())
      return invalid("compressed offload bundle: zstd data is damaged");
  } else if (h.method == 0) {
    uLongf got = out.size();
    if (uncompress(out.data(), &got, b + h.header, end - h.header) != Z_OK || got != out.size())
      return invalid("compressed offload bundle: zlib data is damaged");
  } else {
    return invalid("compressed offload bundle: unknown method " + std::to_string(h.method));
  }
  if (is_compressed(out.data(), out.size()))
    return invalid("compressed offload bundle: holds another compressed bundle");
  return find_code_object(out.data(), out.size(), chip);
}

// Generic processors and the chips that run their code (AMDGPUUsage, EF_AMDGPU_MACH).
struct Generic {
  std::string_view family, name;
  uint32_t elf_mach;
};
const Generic *generic_of(const Chip &chip) {
  static constexpr Generic all[] = {{"gfx103", "gfx10-3-generic", 0x53},
                                    {"gfx11", "gfx11-generic", 0x54},
                                    {"gfx12", "gfx12-generic", 0x59},
                                    {"gfx94", "gfx9-4-generic", 0x5f},
                                    {"gfx95", "gfx9-4-generic", 0x5f}};
  for (const Generic &g : all)
    if (std::string_view(chip.name).substr(0, g.family.size()) == g.family) return &g;
  return nullptr;
}

// "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-" for chip gfx942. A feature
// that the entry names must be the chip's setting; one it leaves out is any.
bool entry_fits(std::string_view id, std::string_view processor, const Chip &chip) {
  size_t gfx = id.rfind("gfx");
  if (gfx == std::string_view::npos) return false;
  std::string_view target = id.substr(gfx), own = chip.target_id;
  if (target.substr(0, target.find(':')) != processor) return false;
  for (size_t at = target.find(':'); at != std::string_view::npos;) {
    size_t next = target.find(':', at + 1);
    std::string_view feature = target.substr(at, next == std::string_view::npos ? next : next - at);
    std::string_view name = feature.substr(0, feature.size() - 1);
    if (own.find(name) != std::string_view::npos && own.find(feature) == std::string_view::npos)
      return false;
    at = next;
  }
  return true;
}

FoundCodeObject from_bundle(const uint8_t *b, size_t n, const Chip &chip) {
  uint64_t count;
  if (!read(b, n, 24, count) || count > n / 24)
    return invalid("offload bundle: impossible entry count");
  uint64_t at = 32;
  std::string seen;
  const Generic *generic = generic_of(chip);
  FoundCodeObject second_best;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t offset, size, id_size;
    if (!read(b, n, at, offset) || !read(b, n, at + 8, size) || !read(b, n, at + 16, id_size))
      return invalid("offload bundle: truncated");
    at += 24;
    if (id_size > n - at || offset > n || size > n - offset)
      return invalid("offload bundle: entry beyond the end");
    std::string_view id(reinterpret_cast<const char *>(b + at), id_size);
    at += id_size;
    bool exact = entry_fits(id, chip.name, chip);
    if (size && is_elf(b + offset, size) &&
        (exact || (generic && entry_fits(id, generic->name, chip)))) {
      FoundCodeObject f;
      f.status = FoundCodeObject::ok;
      f.bytes.assign(b + offset, b + offset + size);
      if (exact) return f;
      second_best = std::move(f);
    }
    seen += (seen.empty() ? "" : ", ") + std::string(id);
  }
  if (second_best.status == FoundCodeObject::ok) return second_best;
  FoundCodeObject f;
  f.status = FoundCodeObject::wrong_chip;
  f.error =
      "no code object for " + std::string(chip.target_id) + " in the bundle, which holds: " + seen;
  return f;
}

} // namespace

uint32_t elf_mach_of(const void *bytes, size_t size) {
  auto *b = static_cast<const uint8_t *>(bytes);
  uint32_t flags;
  if (!is_elf(b, size) || !read(b, size, 48, flags)) return 0;
  return flags & 0xff;
}

bool runs_on(uint32_t mach, const Chip &chip) {
  const Generic *generic = generic_of(chip);
  return mach == chip.elf_mach || (generic && mach == generic->elf_mach);
}

FoundCodeObject find_code_object(const void *bytes, size_t size, const Chip &chip) {
  auto *b = static_cast<const uint8_t *>(bytes);
  if (is_compressed(b, size)) return decompress(b, size, chip);
  if (is_bundle(b, size)) return from_bundle(b, size, chip);
  if (!is_elf(b, size)) return invalid("neither an ELF image nor an offload bundle");
  FoundCodeObject f;
  if (uint32_t mach = elf_mach_of(b, size); !runs_on(mach, chip)) {
    f.status = FoundCodeObject::wrong_chip;
    f.error = "the code object is for another chip than " + std::string(chip.name);
    for (const Chip &c : all_chips())
      if (c.elf_mach == mach)
        f.error =
            std::string("the code object is for ") + c.name + ", the device is a " + chip.name;
    return f;
  }
  f.status = FoundCodeObject::ok;
  f.bytes.assign(b, b + size);
  return f;
}

size_t image_size(const void *bytes) {
  auto *b = static_cast<const uint8_t *>(bytes);
  // The caller promises a whole header at `bytes`; nothing beyond it is known yet.
  if (is_elf(b, 64)) {
    uint64_t shoff;
    uint16_t entry, count;
    std::memcpy(&shoff, b + 40, 8);
    std::memcpy(&entry, b + 58, 2);
    std::memcpy(&count, b + 60, 2);
    if (shoff > kMaxUncompressed) return 0;
    uint64_t end = shoff + uint64_t(entry) * count;
    // Without section headers the segments say where the image ends.
    uint64_t phoff;
    uint16_t size, segments;
    std::memcpy(&phoff, b + 32, 8);
    std::memcpy(&size, b + 54, 2);
    std::memcpy(&segments, b + 56, 2);
    for (uint32_t i = 0; shoff == 0 && phoff <= 4096 && size >= 56 && i < segments; ++i) {
      uint64_t offset, bytes;
      std::memcpy(&offset, b + phoff + uint64_t(i) * size + 8, 8);
      std::memcpy(&bytes, b + phoff + uint64_t(i) * size + 32, 8);
      if (offset > kMaxUncompressed || bytes > kMaxUncompressed) return 0;
      end = std::max(end, offset + bytes);
    }
    return end;
  }
  if (is_compressed(b, 32)) {
    CompressedHeader h;
    return read_compressed_header(b, 32, h) ? h.file : 0;
  }
  if (is_bundle(b, 32)) {
    uint64_t count, end = 32, at = 32;
    std::memcpy(&count, b + 24, 8);
    if (count > 4096) return 0;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t entry[3];
      std::memcpy(entry, b + at, 24);
      if (entry[2] > 4096 || entry[0] > kMaxUncompressed || entry[1] > kMaxUncompressed) return 0;
      end = std::max(end, entry[0] + entry[1]);
      at += 24 + entry[2];
    }
    return std::max(end, at);
  }
  return 0;
}

} // namespace mgx::emu
