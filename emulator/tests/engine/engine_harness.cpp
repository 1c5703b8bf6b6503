// The engine behind plain C functions, for tests from Python through ctypes.
#include "engine/engine.h"

#include <chrono>
#include <cstdio>
#include <cstring>

using namespace mgx::emu;

#define EXPORT extern "C" __attribute__((visibility("default")))

static thread_local std::string g_text;
static Memory &memory() {
  static Memory m;
  return m;
}
static std::unique_ptr<ThreadPool> g_pool;

EXPORT const char *engine_text() { return g_text.c_str(); }
EXPORT void *engine_allocate(uint64_t size) { return memory().allocate(size); }
EXPORT bool engine_free(void *p) { return memory().free(p); }
EXPORT uint64_t engine_allocated() { return memory().allocated_bytes(); }
EXPORT void engine_threads(unsigned n) { g_pool = std::make_unique<ThreadPool>(n); }

// The loaded module, null with engine_text() set.
EXPORT CodeObject *engine_load(const void *bytes, size_t size, const char *chip_name) {
  const Chip *chip = find_chip(chip_name);
  g_text.clear();
  if (!chip) {
    g_text = "no such chip";
    return nullptr;
  }
  FoundCodeObject found = find_code_object(bytes, size, *chip);
  if (found.status != FoundCodeObject::ok) {
    g_text = found.error;
    return nullptr;
  }
  return CodeObject::load(found.bytes.data(), found.bytes.size(), *chip, memory(), g_text)
      .release();
}
EXPORT void engine_unload(CodeObject *o) { delete o; }
EXPORT uint64_t engine_global(CodeObject *o, const char *name, uint64_t *size) {
  auto r = o->global(name);
  if (!r) return 0;
  *size = r->size;
  return r->base;
}
// "name kernarg group private wave sgprs vgprs agprs max" a line.
EXPORT const char *engine_kernels(CodeObject *o) {
  g_text.clear();
  for (const Kernel &k : o->kernels()) {
    char line[512];
    std::snprintf(line, sizeof line, "%s %u %u %u %u %u %u %u %u\n", k.name.c_str(), k.kernarg_size,
                  k.group_bytes, k.private_bytes, k.wave_size, k.sgprs, k.vgprs, k.agprs,
                  k.max_workgroup);
    g_text += line;
  }
  return g_text.c_str();
}
// offset,size of the explicit arguments of a kernel.
EXPORT int engine_arguments(CodeObject *o, const char *kernel, uint32_t *out, int room) {
  const Kernel *k = o->kernel(kernel);
  int n = 0;
  if (!k) return -1;
  for (const KernelArg &a : k->args)
    if (!a.hidden() && n < room) {
      out[2 * n] = a.offset;
      out[2 * n + 1] = a.size;
      ++n;
    }
  return n;
}
// 0, or 1 + Fault::Kind with engine_text() set. flags: 1 strict, 2 profile (JSON
// in engine_text()), 4 cooperative, 8 reversed order, 16 random order with the seed above bit 8.
EXPORT int engine_run(CodeObject *o, const char *kernel, const uint32_t *grid,
                      const uint32_t *block, uint32_t dynamic_lds, const void *arguments,
                      size_t argument_bytes, unsigned flags, uint64_t budget, uint64_t *micros) {
  if (!g_pool) engine_threads(1);
  Dispatch d;
  d.kernel = o->kernel(kernel);
  if (!d.kernel) {
    g_text = "no such kernel";
    return -1;
  }
  std::memcpy(d.grid, grid, 12);
  std::memcpy(d.block, block, 12);
  d.dynamic_lds = dynamic_lds;
  d.cooperative = flags & 4;
  auto *a = static_cast<const uint8_t *>(arguments);
  d.kernarg.assign(a, a + argument_bytes);
  fill_hidden_arguments(d);
  Options options;
  options.strict = flags & 1;
  if (flags & 8) options.order.kind = Order::reversed;
  if (flags & 16) options.order = {Order::random, flags >> 8};
  options.profile = flags & 2;
  options.instruction_budget = budget;
  Profile profile;
  auto start = std::chrono::steady_clock::now();
  std::optional<Fault> fault = execute(d, memory(), *g_pool, options, &profile);
  auto end = std::chrono::steady_clock::now();
  if (micros) *micros = uint64_t(std::chrono::duration<double, std::micro>(end - start).count());
  if (fault) {
    g_text = fault->text;
    return 1 + int(fault->kind);
  }
  if (flags & 2) g_text = profile.json();
  return 0;
}
