// The only file that talks to LLVM: names an instruction, prints it.
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
    context = std::make_unique<llvm::MCContext>(triple, assembly.get(), registers.get(), subtarget.get());
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

Named name_instruction(const Chip &chip, const u8 *bytes, size_t available, bool wave32) {
  std::lock_guard lock(g_mutex);
  Disassembler &d = disassembler(chip, wave32);
  if (!d.decoder) return {};
  llvm::MCInst inst;
  u64 size = 0;
  auto status = d.decoder->getInstruction(inst, size, llvm::ArrayRef<u8>(bytes, available), 0, llvm::nulls());
  if (status == llvm::MCDisassembler::Fail) return {};
  Named n;
  n.size = u32(size);
  if (const char *text = d.printer->getMnemonic(inst).first) n.mnemonic = text;
  while (!n.mnemonic.empty() && std::strchr(" \t,", n.mnemonic.back())) n.mnemonic.pop_back();
  if (size_t space = n.mnemonic.find_first_of(" \t"); space != std::string::npos) n.mnemonic.resize(space);
  // Some mnemonics carry the encoding's suffix.
  for (bool cut = true; cut;) {
    cut = false;
    for (std::string_view suffix : {"_e32", "_e64", "_dpp8", "_dpp", "_sdwa"})
      if (n.mnemonic.size() > suffix.size() && !n.mnemonic.compare(n.mnemonic.size() - suffix.size(), suffix.size(), suffix)) {
        n.mnemonic.resize(n.mnemonic.size() - suffix.size());
        cut = true;
      }
  }
  return n;
}

std::string disassemble(const Chip &chip, const u8 *bytes, size_t available, bool wave32) {
  std::lock_guard lock(g_mutex);
  Disassembler &d = disassembler(chip, wave32);
  if (!d.decoder) return {};
  llvm::MCInst inst;
  u64 size = 0;
  auto status = d.decoder->getInstruction(inst, size, llvm::ArrayRef<u8>(bytes, available), 0, llvm::nulls());
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
