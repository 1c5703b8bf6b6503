// Loads an AMDGPU code object: ELF segments, relocations, kernel descriptors and
// the metadata note. Layouts: AMDGPUUsage, "Code Object" and "Kernel Descriptor".
// The bytes are untrusted: every offset and size is checked before use.
#include "core.h"
#include "decode.h"
#include "msgpack.h"

#include <algorithm>
#include <elf.h>

namespace mgx::emu {

namespace {

constexpr u16 kMachine = 224;             // EM_AMDGPU
constexpr u8 kOsAbi = 64;                 // ELFOSABI_AMDGPU_HSA
constexpr u32 kNoteMetadata = 32;         // NT_AMDGPU_METADATA
constexpr u64 kMaxImage = u64(1) << 32;
enum Relocation : u32 {
  kNone = 0,
  kAbs32Lo = 1,
  kAbs32Hi = 2,
  kAbs64 = 3,
  kRel32 = 4,
  kRel64 = 5,
  kAbs32 = 6,
  kRel32Lo = 10,
  kRel32Hi = 11,
  kRelative64 = 13,
};

ArgKind arg_kind(std::string_view s) {
  static const std::pair<std::string_view, ArgKind> table[] = {
      {"by_value", ArgKind::by_value},
      {"dynamic_shared_pointer", ArgKind::dynamic_shared_pointer},
      {"global_buffer", ArgKind::global_buffer},
      {"hidden_block_count_x", ArgKind::hidden_block_count_x},
      {"hidden_block_count_y", ArgKind::hidden_block_count_y},
      {"hidden_block_count_z", ArgKind::hidden_block_count_z},
      {"hidden_completion_action", ArgKind::hidden_completion_action},
      {"hidden_default_queue", ArgKind::hidden_default_queue},
      {"hidden_dynamic_lds_size", ArgKind::hidden_dynamic_lds_size},
      {"hidden_global_offset_x", ArgKind::hidden_global_offset_x},
      {"hidden_global_offset_y", ArgKind::hidden_global_offset_y},
      {"hidden_global_offset_z", ArgKind::hidden_global_offset_z},
      {"hidden_grid_dims", ArgKind::hidden_grid_dims},
      {"hidden_group_size_x", ArgKind::hidden_group_size_x},
      {"hidden_group_size_y", ArgKind::hidden_group_size_y},
      {"hidden_group_size_z", ArgKind::hidden_group_size_z},
      {"hidden_heap_v1", ArgKind::hidden_heap_v1},
      {"hidden_hostcall_buffer", ArgKind::hidden_hostcall_buffer},
      {"hidden_multigrid_sync_arg", ArgKind::hidden_multigrid_sync_arg},
      {"hidden_none", ArgKind::hidden_none},
      {"hidden_printf_buffer", ArgKind::hidden_printf_buffer},
      {"hidden_private_base", ArgKind::hidden_private_base},
      {"hidden_queue_ptr", ArgKind::hidden_queue_ptr},
      {"hidden_remainder_x", ArgKind::hidden_remainder_x},
      {"hidden_remainder_y", ArgKind::hidden_remainder_y},
      {"hidden_remainder_z", ArgKind::hidden_remainder_z},
      {"hidden_shared_base", ArgKind::hidden_shared_base},
  };
  for (auto &[name, kind] : table)
    if (name == s) return kind;
  return ArgKind::other;
}

} // namespace

class Loader {
public:
  Loader(const u8 *bytes, size_t size, const Chip &chip, Memory &memory)
      : bytes_(bytes), size_(size), chip_(chip), memory_(memory) {}

  std::unique_ptr<CodeObject> run(std::string &error) {
    out_.reset(new CodeObject);
    out_->chip_ = &chip_;
    out_->memory_ = &memory_;
    bool ok = header() && segments() && symbols() && relocate() && metadata() && code();
    if (!ok) {
      error = error_;
      return nullptr;
    }
    return std::move(out_);
  }

private:
  bool fail(std::string text) {
    error_ = std::move(text);
    return false;
  }
  template <class T> bool read(u64 at, T &out) const {
    if (at > size_ || size_ - at < sizeof(T)) return false;
    std::memcpy(&out, bytes_ + at, sizeof(T));
    return true;
  }
  // A string of a string table section, empty if it runs out of the section.
  std::string_view text(const Elf64_Shdr &table, u64 at) const {
    if (table.sh_offset > size_ || table.sh_size > size_ - table.sh_offset || at >= table.sh_size)
      return {};
    auto *p = reinterpret_cast<const char *>(bytes_ + table.sh_offset + at);
    return {p, strnlen(p, table.sh_size - at)};
  }
  u8 *image() const { return static_cast<u8 *>(out_->image_); }
  bool in_image(u64 vaddr, u64 n) const {
    return vaddr >= low_ && vaddr - low_ <= image_bytes_ && n <= image_bytes_ - (vaddr - low_);
  }
  u8 *at(u64 vaddr) const { return image() + (vaddr - low_); }
  u64 device(u64 vaddr) const { return reinterpret_cast<u64>(image()) + (vaddr - low_); }

  bool header() {
    if (!read(0, header_)) return fail("not an ELF image: shorter than its header");
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) || header_.e_ident[EI_CLASS] != ELFCLASS64 ||
        header_.e_ident[EI_DATA] != ELFDATA2LSB)
      return fail("not a 64-bit little-endian ELF image");
    if (header_.e_machine != kMachine || header_.e_ident[EI_OSABI] != kOsAbi)
      return fail("not an AMDGPU HSA code object");
    u8 abi = header_.e_ident[EI_ABIVERSION];
    if (abi < 2 || abi > 4)
      return fail("code object ABI version " + std::to_string(abi) + " is not one of 4, 5, 6");
    if (header_.e_type != ET_DYN) return fail("the code object is not linked (no shared object)");
    if (!runs_on(header_.e_flags & 0xff, chip_)) {
      std::string of = "an unknown chip";
      for (const Chip &c : all_chips())
        if (c.elf_mach == (header_.e_flags & 0xff)) of = c.name;
      return fail("the code object is for " + of + ", the device is a " + chip_.name);
    }
    if (header_.e_phentsize != sizeof(Elf64_Phdr) && header_.e_phnum)
      return fail("bad program header size");
    if (header_.e_shnum && header_.e_shentsize != sizeof(Elf64_Shdr))
      return fail("bad section header size");
    for (unsigned i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr p;
      if (header_.e_phoff > size_ || !read(header_.e_phoff + u64(i) * sizeof p, p))
        return fail("program headers beyond the end");
      programs_.push_back(p);
    }
    for (unsigned i = 0; i < header_.e_shnum; ++i) {
      Elf64_Shdr s;
      if (header_.e_shoff > size_ || !read(header_.e_shoff + u64(i) * sizeof s, s))
        return fail("section headers beyond the end");
      sections_.push_back(s);
    }
    return true;
  }

  bool segments() {
    u64 low = ~u64(0), high = 0;
    for (const Elf64_Phdr &p : programs_) {
      if (p.p_type != PT_LOAD || !p.p_memsz) continue;
      if (p.p_memsz > kMaxImage || p.p_vaddr > kMaxImage || p.p_filesz > p.p_memsz ||
          p.p_offset > size_ || p.p_filesz > size_ - p.p_offset)
        return fail("a segment lies beyond the end of the image");
      low = std::min<u64>(low, p.p_vaddr);
      high = std::max<u64>(high, p.p_vaddr + p.p_memsz);
    }
    if (low >= high) return fail("the code object has no segment to load");
    low_ = low & ~u64(4095); // keeps the alignment of every segment
    image_bytes_ = high - low_;
    out_->image_ = memory_.allocate(image_bytes_);
    if (!out_->image_) return fail("out of device memory");
    std::memset(image(), 0, image_bytes_);
    for (const Elf64_Phdr &p : programs_)
      if (p.p_type == PT_LOAD && p.p_memsz && p.p_filesz)
        std::memcpy(at(p.p_vaddr), bytes_ + p.p_offset, p.p_filesz);
    return true;
  }

  bool symbols() {
    const Elf64_Shdr *table = nullptr;
    for (const Elf64_Shdr &s : sections_)
      if (s.sh_type == SHT_DYNSYM) table = &s;
    if (!table)
      for (const Elf64_Shdr &s : sections_)
        if (s.sh_type == SHT_SYMTAB) table = &s;
    if (!table) return fail("the code object has no symbol table");
    if (!read_symbols(*table, dynamic_)) return false;
    for (const Elf64_Shdr &s : sections_) // local functions, for the decoder's sake
      if (s.sh_type == SHT_SYMTAB && &s != table && !read_symbols(s, locals_)) return false;
    for (const Symbol &s : dynamic_) {
      bool object = s.type == STT_OBJECT && s.section != SHN_UNDEF;
      if (!object || s.name.empty()) continue;
      if (!in_image(s.value, s.size))
        return fail("symbol " + std::string(s.name) + " lies outside the image");
      if (s.name.size() > 3 && s.name.substr(s.name.size() - 3) == ".kd") continue;
      out_->globals_.emplace(std::string(s.name), Range{device(s.value), s.size, nullptr});
    }
    return true;
  }

  struct Symbol {
    std::string_view name;
    u64 value, size;
    u8 type;
    u16 section;
    bool weak;
  };

  bool read_symbols(const Elf64_Shdr &table, std::vector<Symbol> &out) {
    if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= sections_.size() ||
        table.sh_offset > size_ || table.sh_size > size_ - table.sh_offset)
      return fail("damaged symbol table");
    for (u64 i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym s;
      std::memcpy(&s, bytes_ + table.sh_offset + i * sizeof s, sizeof s);
      out.push_back({text(sections_[table.sh_link], s.st_name), s.st_value, s.st_size,
                     u8(ELF64_ST_TYPE(s.st_info)), s.st_shndx,
                     ELF64_ST_BIND(s.st_info) == STB_WEAK});
    }
    return true;
  }

  bool relocate() {
    for (const Elf64_Shdr &s : sections_) {
      if (s.sh_type == SHT_REL) return fail("relocations without addend are not supported");
      if (s.sh_type != SHT_RELA || !(s.sh_flags & SHF_ALLOC)) continue;
      if (s.sh_entsize != sizeof(Elf64_Rela) || s.sh_offset > size_ ||
          s.sh_size > size_ - s.sh_offset)
        return fail("damaged relocation table");
      for (u64 i = 0; i < s.sh_size / sizeof(Elf64_Rela); ++i) {
        Elf64_Rela r;
        std::memcpy(&r, bytes_ + s.sh_offset + i * sizeof r, sizeof r);
        if (!apply(r)) return false;
      }
    }
    return true;
  }

  bool apply(const Elf64_Rela &r) {
    u32 type = u32(ELF64_R_TYPE(r.r_info));
    u64 index = ELF64_R_SYM(r.r_info);
    if (type == kNone) return true;
    u64 value = 0;
    if (type != kRelative64) {
      if (index >= dynamic_.size()) return fail("a relocation names no symbol");
      const Symbol &s = dynamic_[index];
      if (s.section == SHN_UNDEF && !s.weak) return fail("undefined symbol " + std::string(s.name));
      value = s.section == SHN_UNDEF ? 0 : device(s.value);
    } else {
      value = device(0);
    }
    value += u64(r.r_addend);
    bool wide = type == kAbs64 || type == kRel64 || type == kRelative64;
    if (!in_image(r.r_offset, wide ? 8 : 4)) return fail("a relocation lies outside the image");
    u64 place = device(r.r_offset);
    u32 half = 0;
    switch (type) {
    case kAbs64:
    case kRelative64: std::memcpy(at(r.r_offset), &value, 8); return true;
    case kRel64:
      value -= place;
      std::memcpy(at(r.r_offset), &value, 8);
      return true;
    case kAbs32:
    case kAbs32Lo: half = u32(value); break;
    case kAbs32Hi: half = u32(value >> 32); break;
    case kRel32:
    case kRel32Lo: half = u32(value - place); break;
    case kRel32Hi: half = u32((value - place) >> 32); break;
    default: return fail("relocation type " + std::to_string(type) + " is not supported");
    }
    std::memcpy(at(r.r_offset), &half, 4);
    return true;
  }

  bool metadata() {
    for (const Elf64_Phdr &p : programs_)
      if (p.p_type == PT_NOTE && p.p_offset <= size_ && p.p_filesz <= size_ - p.p_offset &&
          !notes({reinterpret_cast<const char *>(bytes_ + p.p_offset), p.p_filesz}))
        return false;
    if (!found_note_) return fail("the code object has no metadata note");
    return true;
  }

  bool notes(std::string_view n) {
    for (size_t at = 0; n.size() - at >= 12;) {
      Elf64_Nhdr h;
      std::memcpy(&h, n.data() + at, sizeof h);
      u64 name = at + 12, desc = name + ((u64(h.n_namesz) + 3) & ~u64(3));
      if (desc > n.size() || h.n_descsz > n.size() - desc) return fail("damaged note");
      if (h.n_type == kNoteMetadata && h.n_namesz >= 6 && !n.compare(name, 6, "AMDGPU")) {
        std::optional<MsgPack> root = MsgPack::parse(n.substr(desc, h.n_descsz));
        if (!root) return fail("the metadata note is no valid MessagePack");
        found_note_ = true;
        const MsgPack *list = root->get("amdhsa.kernels");
        if (list)
          for (const MsgPack &k : list->items)
            if (!kernel(k)) return false;
      }
      u64 next = desc + ((u64(h.n_descsz) + 3) & ~u64(3));
      if (next > n.size()) break;
      at = next;
    }
    return true;
  }

  bool kernel(const MsgPack &m) {
    Kernel k;
    k.name = m.string_or(".name", "");
    std::string symbol(m.string_or(".symbol", k.name + ".kd"));
    if (k.name.empty()) return fail("the metadata holds a kernel without name");
    k.kernarg_size = u32(m.integer_or(".kernarg_segment_size", 0));
    k.kernarg_align = u32(m.integer_or(".kernarg_segment_align", 8));
    k.group_bytes = u32(m.integer_or(".group_segment_fixed_size", 0));
    k.private_bytes = u32(m.integer_or(".private_segment_fixed_size", 0));
    k.wave_size = u32(m.integer_or(".wavefront_size", chip_.wave_size));
    k.sgprs = u32(m.integer_or(".sgpr_count", 0));
    k.vgprs = u32(m.integer_or(".vgpr_count", 0));
    k.agprs = u32(m.integer_or(".agpr_count", 0));
    k.sgpr_spills = u32(m.integer_or(".sgpr_spill_count", 0));
    k.vgpr_spills = u32(m.integer_or(".vgpr_spill_count", 0));
    k.max_workgroup = u32(m.integer_or(".max_flat_workgroup_size", 1024));
    k.dynamic_stack = m.integer_or(".uses_dynamic_stack", 0) != 0;
    if (const MsgPack *r = m.get(".reqd_workgroup_size"); r && r->items.size() == 3)
      for (int i = 0; i < 3; ++i) k.required_workgroup[i] = u32(r->items[i].value);
    // Limits that keep later sizes harmless; real ones are far below.
    if (k.kernarg_size > 1 << 20 || k.group_bytes > 1 << 20 || k.private_bytes > 1 << 24)
      return fail("kernel " + k.name + ": impossible segment sizes");
    if (k.wave_size != 64 && (k.wave_size != 32 || chip_.is_gfx9()))
      return fail("kernel " + k.name + ": wave size " + std::to_string(k.wave_size));
    if (const MsgPack *args = m.get(".args"))
      for (const MsgPack &a : args->items) {
        KernelArg arg;
        arg.name = a.string_or(".name", "");
        arg.offset = u32(a.integer_or(".offset", 0));
        arg.size = u32(a.integer_or(".size", 0));
        arg.kind = arg_kind(a.string_or(".value_kind", ""));
        if (arg.offset > k.kernarg_size || arg.size > k.kernarg_size - arg.offset)
          return fail("kernel " + k.name + ": an argument lies outside the argument segment");
        k.args.push_back(std::move(arg));
      }
    for (const Symbol &s : dynamic_)
      if (s.name == symbol && s.section != SHN_UNDEF) return descriptor(k, s.value);
    return fail("kernel " + k.name + ": its descriptor " + symbol + " is missing");
  }

  bool descriptor(Kernel &k, u64 vaddr) {
    if (!in_image(vaddr, 64))
      return fail("kernel " + k.name + ": its descriptor lies outside the image");
    auto d = std::make_shared<KernelDescriptor>();
    const u8 *p = at(vaddr);
    std::memcpy(&d->group_bytes, p, 4);
    std::memcpy(&d->private_bytes, p + 4, 4);
    std::memcpy(&d->kernarg_bytes, p + 8, 4);
    std::memcpy(&d->entry_offset, p + 16, 8);
    std::memcpy(&d->rsrc3, p + 44, 4);
    std::memcpy(&d->rsrc1, p + 48, 4);
    std::memcpy(&d->rsrc2, p + 52, 4);
    std::memcpy(&d->properties, p + 56, 2);
    std::memcpy(&d->preload, p + 58, 2);
    u64 entry = vaddr + u64(d->entry_offset);
    if (!in_image(entry, 4) || entry & 3)
      return fail("kernel " + k.name + ": its code lies outside the image");
    bool wave32 = d->properties >> 10 & 1;
    if (wave32 && chip_.is_gfx9()) return fail("kernel " + k.name + ": wave32 on " + chip_.name);
    if (!chip_.is_gfx9()) k.wave_size = wave32 ? 32 : 64;
    k.entry = device(entry);
    k.descriptor = d;
    k.object = out_.get();
    entries_.push_back(entry);
    out_->kernels_.push_back(std::move(k));
    return true;
  }

  // The executable segment is decoded as a whole: kernels call functions in it.
  bool code() {
    u64 begin = ~u64(0), end = 0;
    for (const Elf64_Phdr &p : programs_)
      if (p.p_type == PT_LOAD && p.p_flags & PF_X && p.p_memsz) {
        begin = std::min<u64>(begin, p.p_vaddr);
        end = std::max<u64>(end, p.p_vaddr + p.p_filesz);
      }
    std::vector<CodeSymbol> functions;
    for (const std::vector<Symbol> *list : {&dynamic_, &locals_})
      for (const Symbol &s : *list)
        if (s.type == STT_FUNC && s.section != SHN_UNDEF && s.value >= begin && s.value < end)
          functions.push_back(
              {std::string(s.name), s.value - begin, std::min(s.size, end - s.value)});
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (begin >= end || entries_[i] < begin || entries_[i] >= end)
        return fail("kernel " + out_->kernels_[i].name + ": its code is in no executable segment");
      u64 o = entries_[i] - begin;
      bool known = std::any_of(functions.begin(), functions.end(),
                               [&](const CodeSymbol &f) { return f.offset == o && f.size; });
      if (!known) functions.push_back({out_->kernels_[i].name, o, end - entries_[i]});
    }
    out_->program_ = std::make_unique<Program>();
    if (begin >= end) return true;
    out_->program_->chip = &chip_;
    out_->program_->base = device(begin);
    out_->program_->bytes = (end - begin) & ~u64(3);
    return decode_program(*out_->program_, at(begin), functions, error_);
  }

  const u8 *bytes_;
  size_t size_;
  const Chip &chip_;
  Memory &memory_;
  std::string error_;
  std::unique_ptr<CodeObject> out_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> programs_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Symbol> dynamic_, locals_;
  std::vector<u64> entries_;
  u64 low_ = 0, image_bytes_ = 0;
  bool found_note_ = false;
};

std::unique_ptr<CodeObject> CodeObject::load(const void *bytes, size_t size, const Chip &chip,
                                             Memory &memory, std::string &error) {
  return Loader(static_cast<const u8 *>(bytes), size, chip, memory).run(error);
}

CodeObject::~CodeObject() {
  if (image_) memory_->free(image_);
}

const Kernel *CodeObject::kernel(std::string_view name) const {
  for (const Kernel &k : kernels_)
    if (k.name == name) return &k;
  return nullptr;
}

std::optional<Range> CodeObject::global(std::string_view name) const {
  auto it = globals_.find(name);
  if (it == globals_.end()) return std::nullopt;
  return it->second;
}

} // namespace mgx::emu
