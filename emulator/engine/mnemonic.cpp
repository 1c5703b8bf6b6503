// The only file that talks to LLVM: names an instruction, prints it.
#include <algorithm>

#include "decode.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Triple.h>

extern "C" {
void LLVMInitializeAMDGPUTargetInfo();
void LLVMInitializeAMDGPUTargetMC();
void LLVMInitializeAMDGPUDisassembler();
}

namespace mgx::emu {

namespace {

struct Disassembler {
  llvm::Triple triple{"amdgcn-amd-amdhsa"};
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> assembly;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> decoder;
  std::unique_ptr<llvm::MCInstPrinter> printer;

  Disassembler(const Chip &chip, bool wave32) {
    static std::once_flag once;
    std::call_once(once, [] {
      LLVMInitializeAMDGPUTargetInfo();
      LLVMInitializeAMDGPUTargetMC();
      LLVMInitializeAMDGPUDisassembler();
    });
    std::string error;
    const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (!target) return;
    registers.reset(target->createMCRegInfo(triple));
    llvm::MCTargetOptions options;
    assembly.reset(target->createMCAsmInfo(*registers, triple, options));
    instructions.reset(target->createMCInstrInfo());
    // Halves of 16-bit registers are real on gfx11 and later, whatever the compiler assumed.
    std::string features = chip.is_gfx9() ? "" : wave32 ? "+wavefrontsize32" : "+wavefrontsize64";
    if (chip.is_gfx11() || chip.is_gfx12()) features += ",+real-true16";
    subtarget.reset(target->createMCSubtargetInfo(triple, chip.name, features));
    context =
        std::make_unique<llvm::MCContext>(triple, assembly.get(), registers.get(), subtarget.get());
    decoder.reset(target->createMCDisassembler(*subtarget, *context));
    printer.reset(target->createMCInstPrinter(triple, 0, *assembly, *instructions, *registers));
  }
};

// One for each chip and wave size; LLVM's objects are not thread-safe.
std::mutex g_mutex;

Disassembler &disassembler(const Chip &chip, bool wave32) {
  static std::map<std::pair<const Chip *, bool>, std::unique_ptr<Disassembler>> all;
  auto &d = all[{&chip, wave32}];
  if (!d) d = std::make_unique<Disassembler>(chip, wave32);
  return *d;
}

} // namespace

namespace {

// Operands that an instruction of the family may have; the first that LLVM takes will do.
struct Filler {
  u32 word[4];
};
const std::vector<Filler> &fillers(Encoding enc, bool prefixed) {
  static const std::vector<Filler> scale = {
      {{0, 0x00023318, 0x0800, 0x04521904}}}; // and the matrix instruction behind it
  if (prefixed) return scale;
  static const std::vector<Filler> scalar = {{}, {{0x80}}};
  static const std::vector<Filler> smem = {{{0, 0xf8000000}}, {{0, 0x1000}}, {{0x20000, 0}}};
  static const std::vector<Filler> vop1 = {{{0x101}}, {{0x02}}}, vop2 = {{{0x20501}}, {{0x20600}}},
                                   vopc = {{{0x501}}};
  static const std::vector<Filler> vop3 = {{{0, 0x040a0501}}, {{0, 0x501}},      {{0, 1}},
                                           {{2, 0x04120902}}, {{2, 0x000a0902}}, {{0, 0x101}}};
  static const std::vector<Filler> vop3p = {{{0, 0x04020501}},
                                            {{0x4000, 0x1c020501}},
                                            {{0, 0x04060502}},
                                            {{0, 0x040a0500}},
                                            {{0x4000, 0x1c0a0500}}};
  static const std::vector<Filler> ds = [] {
    std::vector<Filler> all; // with and without result and data, in LDS and in global data share
    for (u32 gds : {0u, 1u << 16, 1u << 17})
      for (u32 operands : {0x04030201u, 0x04060200u, 0x04000201u, 0x04000001u, 0x00030201u,
                           0x00060200u, 0x00000201u, 0x00000001u, 0u, 0x04000000u})
        all.push_back({{gds, operands}});
    return all;
  }();
  static const std::vector<Filler> flat = {
      {{0, 0x007f0200}}, {{0x10000, 0x007f0200}}, {{0, 0x007d0200}},       {{0x10000, 0x007d0200}},
      {{0, 0x007c0200}}, {{0x4000, 0x007c0200}},  {{0x7c, 0x01000000, 2}}, {{0x7c, 0x01100000, 2}}};
  static const std::vector<Filler> buffer = {{{0, 0x80010200}},
                                             {{0x4000, 0x80010200}},
                                             {{0, 0x80010000}},
                                             {{0x7c, 0x00800800, 0}},
                                             {{0x7c, 0x00900800, 0}}};
  switch (enc) {
  case Encoding::smem: return smem;
  case Encoding::vop1: return vop1;
  case Encoding::vop2: return vop2;
  case Encoding::vopc: return vopc;
  case Encoding::vop3: return vop3;
  case Encoding::vop3p: return vop3p;
  case Encoding::ds: return ds;
  case Encoding::flat: return flat;
  case Encoding::mubuf:
  case Encoding::mtbuf: return buffer;
  default: return scalar;
  }
}

std::string mnemonic_of(Disassembler &d, const llvm::MCInst &inst) {
  std::string name;
  if (const char *text = d.printer->getMnemonic(inst).first) name = text;
  name.resize(std::min(name.find_first_of(" \t,"), name.size()));
  // Some mnemonics carry the encoding's suffix.
  for (bool cut = true; cut;) {
    cut = false;
    for (std::string_view suffix : {"_e32", "_e64", "_dpp8", "_dpp", "_sdwa"})
      if (name.size() > suffix.size() &&
          !name.compare(name.size() - suffix.size(), suffix.size(), suffix)) {
        name.resize(name.size() - suffix.size());
        cut = true;
      }
  }
  return name;
}

} // namespace

Named name_opcode(const Chip &chip, Encoding enc, const Opcode &opcode) {
  std::lock_guard lock(g_mutex);
  for (bool wave32 : {true, false}) {
    if (wave32 && chip.is_gfx9()) continue;
    Disassembler &d = disassembler(chip, wave32);
    if (!d.decoder) return {};
    for (const Filler &f : fillers(enc, opcode.mask[2])) {
      Named n;
      u8 bytes[24] = {};
      for (u32 i = 0; i < 4; ++i)
        n.words[i] = i < 3 ? opcode.bits[i] | (f.word[i] & ~opcode.mask[i]) : f.word[i];
      std::memcpy(bytes, n.words, sizeof n.words);
      llvm::MCInst inst;
      u64 size = 0;
      if (d.decoder->getInstruction(inst, size, llvm::ArrayRef<u8>(bytes, sizeof bytes), 0,
                                    llvm::nulls()) == llvm::MCDisassembler::Fail)
        continue;
      n.size = u32(size);
      n.mnemonic = mnemonic_of(d, inst);
      if (!n.mnemonic.empty()) return n;
    }
  }
  return {};
}

std::string disassemble(const Chip &chip, const u8 *bytes, size_t available, bool wave32) {
  std::lock_guard lock(g_mutex);
  Disassembler &d = disassembler(chip, wave32);
  if (!d.decoder) return {};
  llvm::MCInst inst;
  u64 size = 0;
  auto status =
      d.decoder->getInstruction(inst, size, llvm::ArrayRef<u8>(bytes, available), 0, llvm::nulls());
  if (status == llvm::MCDisassembler::Fail) return "invalid instruction";
  std::string out;
  llvm::raw_string_ostream stream(out);
  d.printer->printInst(&inst, 0, "", *d.subtarget, stream);
  stream.flush();
  for (char &c : out)
    if (c == '\t') c = ' ';
  size_t first = out.find_first_not_of(' ');
  return first == std::string::npos ? out : out.substr(first);
}

} // namespace mgx::emu
