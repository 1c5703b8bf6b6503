// The engine of the emulated AMDGPU device: what the HIP layer builds on.
//
// A `Chip` says what is emulated, `Memory` is the device memory, a
// `CodeObject` is a loaded module, and `execute` runs one kernel dispatch.
// Nothing here reads the environment or prints.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "footprint.h"

namespace mgx::emu {

//===-- Chips -------------------------------------------------------------===//

enum class Generation : uint8_t { cdna2, cdna3, cdna4, rdna2, rdna3, rdna4 };

// One emulated chip. Figures are those a HIP program reads on the real part
// named in `product`.
struct Chip {
  const char *name;        // "gfx942"
  const char *target_id;   // "gfx942:sramecc+:xnack-", what gcnArchName holds
  const char *product;     // "AMD Instinct MI300X"
  Generation generation;
  uint32_t elf_mach;       // EF_AMDGPU_MACH_AMDGCN_*, in e_flags & 0xff
  uint16_t major, minor, stepping; // of the target, 9.4.2
  uint16_t wave_size;      // default wave size, what hipDeviceProp warpSize says
  uint32_t lds_bytes;      // of one work-group
  uint32_t lds_per_cu;     // hipDeviceProp sharedMemPerMultiprocessor
  uint16_t max_vgprs;      // addressable by one wave (without accumulation VGPRs)
  uint16_t total_vgprs;    // of one SIMD lane, all waves together
  uint16_t max_sgprs;
  uint16_t simds_per_cu;
  uint16_t max_waves_per_simd;
  uint16_t compute_units;
  uint16_t multiprocessors; // what HIP reports: compute units, or WGPs on RDNA
  uint32_t clock_khz;
  uint32_t memory_clock_khz;
  uint32_t memory_bus_bits;
  uint64_t memory_bytes;
  uint32_t l2_bytes;
  uint32_t max_threads_per_multiprocessor;
  uint32_t pci_device_id;

  bool is_gfx9() const { return generation <= Generation::cdna4; }
  bool is_gfx10() const { return generation == Generation::rdna2; }
  bool is_gfx11() const { return generation == Generation::rdna3; }
  bool is_gfx12() const { return generation == Generation::rdna4; }
  bool gfx940_up() const {
    return generation == Generation::cdna3 || generation == Generation::cdna4;
  }
};

// Accepts "gfx942" and any target id of it ("gfx942:sramecc+"); null if unknown.
const Chip *find_chip(std::string_view name);
const std::vector<Chip> &all_chips();

//===-- Memory ------------------------------------------------------------===//

struct Range {
  uint64_t base = 0, size = 0;
  void *user = nullptr; // tag of the owner (the HIP layer), null by default
  explicit operator bool() const { return size != 0; }
};

// Device memory: one reserved virtual arena of the process. Device addresses
// are host addresses, so copies are plain memcpy. Every allocation starts a
// page and an unmapped page follows large ones. All functions are thread-safe.
class Memory {
public:
  // `reserve` is address space, not memory; it is halved until the system agrees.
  explicit Memory(uint64_t reserve = uint64_t(1) << 40);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  // Null when the arena or the host's memory is exhausted. Size 0 is size 1.
  void *allocate(uint64_t size, void *user = nullptr);
  // False when `p` is not the start of a live allocation.
  bool free(void *p);
  // The allocation or registered host range that holds `address`; size 0 if none.
  Range find(uint64_t address) const;
  // Host memory that kernels may address (pinned memory).
  bool register_host(void *p, uint64_t size, void *user = nullptr);
  bool unregister_host(void *p);
  // True if [address, address + size) lies in one allocation or host range.
  bool check(uint64_t address, uint64_t size) const {
    Range r = find(address);
    return r.size && size <= r.size - (address - r.base);
  }
  bool in_arena(uint64_t address) const { return address - arena_ < arena_size_; }
  uint64_t allocated_bytes() const { return allocated_.load(std::memory_order_relaxed); }

private:
  struct Block {
    std::atomic<uint64_t> base{0}, size{0};
    std::atomic<void *> user{nullptr};
  };
  static constexpr uint64_t kPage = 4096;
  uint64_t arena_ = 0, arena_size_ = 0;
  std::atomic<uint32_t> *pages_ = nullptr; // page of the arena -> index in blocks_
  Block *blocks_ = nullptr;
  uint64_t max_blocks_ = 0, pages_bytes_ = 0, blocks_bytes_ = 0;
  std::vector<uint32_t> free_blocks_;
  uint32_t next_block_ = 1;
  uint64_t bump_ = 0;
  std::multimap<uint64_t, uint64_t> free_by_size_; // pages -> first page
  std::map<uint64_t, uint64_t> free_by_page_;      // first page -> pages
  std::mutex mutex_;
  mutable std::shared_mutex host_mutex_;
  std::map<uint64_t, Range> host_;
  std::atomic<uint64_t> allocated_{0};
};

//===-- Code objects ------------------------------------------------------===//

// The kinds of the metadata note (".value_kind"), AMDGPUUsage "Code Object V5".
enum class ArgKind : uint8_t {
  by_value,
  global_buffer,
  dynamic_shared_pointer,
  hidden_none,
  hidden_global_offset_x,
  hidden_global_offset_y,
  hidden_global_offset_z,
  hidden_block_count_x,
  hidden_block_count_y,
  hidden_block_count_z,
  hidden_group_size_x,
  hidden_group_size_y,
  hidden_group_size_z,
  hidden_remainder_x,
  hidden_remainder_y,
  hidden_remainder_z,
  hidden_grid_dims,
  hidden_printf_buffer,
  hidden_hostcall_buffer,
  hidden_multigrid_sync_arg,
  hidden_heap_v1,
  hidden_default_queue,
  hidden_completion_action,
  hidden_dynamic_lds_size,
  hidden_private_base,
  hidden_shared_base,
  hidden_queue_ptr,
  other,
};

struct KernelArg {
  std::string name;
  uint32_t offset = 0, size = 0;
  ArgKind kind = ArgKind::by_value;
  bool hidden() const { return kind >= ArgKind::hidden_none && kind != ArgKind::other; }
};

struct KernelDescriptor; // the 64 bytes of AMDGPUUsage, decoded
class CodeObject;

struct Kernel {
  std::string name;
  std::vector<KernelArg> args; // hidden ones included, in the note's order
  uint32_t kernarg_size = 0;   // with hidden arguments
  uint32_t kernarg_align = 8;
  uint32_t group_bytes = 0;    // static LDS
  uint32_t private_bytes = 0;  // scratch of one work-item
  uint32_t wave_size = 64;
  uint32_t sgprs = 0, vgprs = 0, agprs = 0; // as the note counts them
  uint32_t sgpr_spills = 0, vgpr_spills = 0;
  uint32_t max_workgroup = 1024;
  uint32_t required_workgroup[3] = {0, 0, 0}; // 0: none required
  bool dynamic_stack = false;
  uint64_t entry = 0;          // device address of the first instruction
  std::shared_ptr<const KernelDescriptor> descriptor;
  const CodeObject *object = nullptr;
};

struct Program; // decoded instructions, internal to the engine

// A loaded module. Its segments live in `memory` until it is destroyed.
class CodeObject {
public:
  // Parses, relocates and decodes. Returns null and sets `error` for bytes that
  // are no valid code object of `chip` or hold an instruction the engine lacks.
  // Never crashes on any input.
  static std::unique_ptr<CodeObject> load(const void *bytes, size_t size, const Chip &chip,
                                          Memory &memory, std::string &error);
  ~CodeObject();

  const std::vector<Kernel> &kernels() const { return kernels_; }
  const Kernel *kernel(std::string_view name) const;
  std::optional<Range> global(std::string_view name) const;
  const std::map<std::string, Range, std::less<>> &globals() const { return globals_; }
  const Chip &chip() const { return *chip_; }
  const Program &program() const { return *program_; }

private:
  CodeObject() = default;
  friend class Loader;
  const Chip *chip_ = nullptr;
  Memory *memory_ = nullptr;
  void *image_ = nullptr;
  std::vector<Kernel> kernels_;
  std::map<std::string, Range, std::less<>> globals_;
  std::unique_ptr<Program> program_;
};

// Outcome of looking for the code object of a chip in an ELF image, in an
// offload bundle ("__CLANG_OFFLOAD_BUNDLE__") or in a compressed one ("CCOB").
struct FoundCodeObject {
  enum Status { ok, invalid, wrong_chip } status = invalid;
  std::vector<uint8_t> bytes; // the ELF image
  std::string error;
};
FoundCodeObject find_code_object(const void *bytes, size_t size, const Chip &chip);
// Size of an image of unknown size whose header starts at `bytes`
// (hipModuleLoadData has a pointer only): 0 if it is neither ELF nor bundle.
size_t image_size(const void *bytes);
// e_flags & 0xff of an ELF image, 0 if it is none.
uint32_t elf_mach_of(const void *bytes, size_t size);
// Whether a chip runs code objects of that e_flags & 0xff: its own, and its generic processor's.
bool runs_on(uint32_t elf_mach, const Chip &chip);

//===-- Execution ---------------------------------------------------------===//

struct Dispatch {
  const Kernel *kernel = nullptr;
  uint32_t grid[3] = {1, 1, 1};  // work-groups
  uint32_t block[3] = {1, 1, 1}; // work-items of a work-group
  uint32_t dynamic_lds = 0;
  // Work-items of the last work-group where the grid is no multiple of the
  // block (hipExtModuleLaunchKernel); 0: the last one is full.
  uint32_t remainder[3] = {0, 0, 0};
  uint32_t global_offset[3] = {0, 0, 0};
  bool cooperative = false;      // all work-groups make progress together
  uint64_t multigrid_sync = 0;   // hidden_multigrid_sync_arg, a device address
  std::vector<uint8_t> kernarg;  // kernel->kernarg_size bytes
};

// Fills the hidden arguments of `d.kernarg` from the other members; grows it to
// the kernel's size first. Explicit arguments stay untouched.
void fill_hidden_arguments(Dispatch &d);

struct Fault {
  enum Kind {
    out_of_bounds,        // memory access outside every allocation
    misaligned,           // an access the hardware needs aligned
    lds_out_of_bounds,    // strict mode, or flat access outside LDS
    invalid_instruction,
    barrier,              // a barrier that not all waves reach
    hang,                 // instruction budget exhausted
    trap,                 // s_trap: abort() or assert()
    uninitialized,        // strict mode
    missing_wait,         // strict mode: result used before its s_waitcnt
    race,                 // strict mode
    launch,               // a dispatch no device accepts
  } kind = out_of_bounds;
  std::string kernel;
  uint32_t group[3] = {0, 0, 0};
  uint32_t wave = 0;      // in its work-group
  int lane = -1;          // -1: the whole wave
  uint64_t pc = 0;        // byte offset from the kernel's first instruction
  uint64_t address = 0;   // memory faults
  std::string instruction; // disassembly
  std::string text;       // one sentence with all of the above
};
const char *fault_name(Fault::Kind);

// The order in which work-groups, and the waves of one, are executed: none of them is promised.
struct Order {
  enum Kind : uint8_t { forward, reversed, random } kind = forward;
  uint64_t seed = 0; // random: the same seed gives the same order on one thread
};

struct Options {
  bool strict = false;
  Order order;
  Footprint *footprint = nullptr;  // of the dispatch, in strict mode
  bool profile = false;
  bool sample = false; // with profile: runs the work-groups that one unit holds at a time
  uint64_t instruction_budget = 0; // of one wave; 0: the default, 2^34
  uint32_t clock_divider = 1; // s_memtime advances by one an instruction / this
};

// Counts of one dispatch (executed wave instructions and modelled clocks).
struct Profile {
  struct Lines { // of 64 bytes, in a page of 4096: a bit for each
    uint64_t read = 0, written = 0;
    uint64_t group = 0, of_group = 0; // the work-group that touched some last, and which
  };
  uint64_t waves = 0, workgroups = 0, instructions = 0;
  uint64_t salu = 0, valu = 0, transcendental = 0, matrix = 0, smem = 0;
  uint64_t global_loads = 0, global_stores = 0, global_atomics = 0, flat = 0, scratch = 0;
  uint64_t lds_reads = 0, lds_writes = 0, lds_atomics = 0, branches = 0, barriers = 0, waits = 0;
  uint64_t matrix_cycles = 0, valu_cycles = 0, lds_cycles = 0, lds_conflict_cycles = 0;
  uint64_t global_cycles = 0, global_segments = 0, global_bytes_read = 0, global_bytes_written = 0;
  uint64_t memory_bytes = 0; // of lines that are read or written, each once; 0 of a sample
  uint64_t l2_bytes = 0; // the same, each once for each work-group that touches it
  uint32_t rounds = 0; // work-groups of the compute unit that has most
  uint32_t vgprs = 0, lds_bytes = 0, waves_per_group = 0;
  uint32_t workgroups_per_cu = 0, waves_per_simd = 0; // occupancy
  double lambda = 0, nu = 0, mu = 0; // LDS, VALU port, global over matrix cycles
  double u_sim[3] = {0, 0, 0}; // fast, mid, slow latencies (gfx942); 0: no model
  double rdna_bound = 0; // RDNA: matrix clocks over those of the busiest unit
  double unit_clocks = 0; // of the compute unit that has most work-groups
  double memory_clocks = 0; // that memory_bytes take at the memory's rate
  double l2_clocks =
      0; // that l2_bytes take at the rate of L2, which all units share; 0 of a sample
  double modelled_clocks = 0; // of the dispatch: the largest of these, and a launch
  double modelled_ms = 0;
  std::unordered_map<uint64_t, Lines> touched; // by page, while the dispatch runs
  std::string json() const;
};

// A fixed set of worker threads; `run` calls f(worker) on each and waits.
class ThreadPool {
public:
  explicit ThreadPool(unsigned threads = 0); // 0: one for each processor
  ~ThreadPool();
  unsigned size() const { return unsigned(threads_.size()) + 1; }
  // The caller is worker 0. Calls of several threads take turns.
  void run(const std::function<void(unsigned)> &f, unsigned limit = ~0u);

private:
  void work(unsigned id);
  std::mutex run_mutex_, mutex_;
  std::condition_variable start_, done_;
  const std::function<void(unsigned)> *job_ = nullptr;
  uint64_t generation_ = 0;
  unsigned pending_ = 0, limit_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// Runs the dispatch to its end or to the first fault.
std::optional<Fault> execute(const Dispatch &, Memory &, ThreadPool &, const Options & = {},
                             Profile * = nullptr);

// Work-groups of `threads` work-items that fit one compute unit at a time.
uint32_t occupancy(const Kernel &, const Chip &, uint32_t threads, uint32_t dynamic_lds);

} // namespace mgx::emu
