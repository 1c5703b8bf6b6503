// The vector handlers of one x86 instruction set, gathered.
#include "valu.h"

namespace mgx::emu {
inline namespace MGX_ISA {

void register_valu_int(OpTable &);
void register_valu_float(OpTable &);
void register_valu_convert(OpTable &);
void register_valu_compare(OpTable &);
void register_valu_misc(OpTable &);
void register_valu_packed(OpTable &);
void register_valu_scale(OpTable &);
void register_valu_lanes(OpTable &);
void register_half_mode(OpTable &);
void register_vmem(OpTable &);
void register_vmem_atomic(OpTable &);
void register_vmem_format(OpTable &);
void register_vmem_special(OpTable &);
void register_ds(OpTable &);
void register_ds_atomic(OpTable &);

void register_handlers(OpTable &t) {
  register_valu_int(t);
  register_valu_float(t);
  register_valu_convert(t);
  register_valu_compare(t);
  register_valu_packed(t);
  register_valu_scale(t);
  register_valu_lanes(t);
  register_valu_misc(t);
  register_half_mode(t);
  register_vmem(t);
  register_vmem_atomic(t);
  register_vmem_format(t);
  register_vmem_special(t);
  register_ds(t);
  register_ds_atomic(t);
}

} // namespace MGX_ISA
} // namespace mgx::emu
