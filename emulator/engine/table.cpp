// The table of instructions, with the handlers this machine can run fastest.
#include "table.h"

namespace mgx::emu {

#ifdef MGX_HAVE_ISA_BASE
namespace isa_base {
void register_handlers(OpTable &);
}
#endif
#ifdef MGX_HAVE_ISA_V3
namespace isa_v3 {
void register_handlers(OpTable &);
}
#endif
void register_salu(OpTable &);
void register_control(OpTable &);
void register_barriers(OpTable &);
void register_scalar_memory(OpTable &);

void add_op(OpTable &table, const char *name, const OpInfo &info) { table[name] = info; }

OpInfo *find_op(OpTable &table, const char *name) {
  auto it = table.find(std::string_view(name));
  return it == table.end() ? nullptr : &it->second;
}

static OpTable make_table() {
  OpTable t;
#ifdef MGX_HAVE_ISA_V3
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
  if (v3) isa_v3::register_handlers(t);
#else
  bool v3 = false;
#endif
#ifdef MGX_HAVE_ISA_BASE
  if (!v3) isa_base::register_handlers(t);
#else
  (void)v3;
#endif
  register_salu(t);
  register_control(t);
  register_barriers(t);
  register_scalar_memory(t);
  return t;
}

const OpTable &op_table() {
  static const OpTable table = make_table();
  return table;
}

Handler invalid_handler() { return op_table().at(".invalid").fn; }
Handler matrix_handler() { return op_table().at(".matrix").fn; }
Handler vopd_handler() { return op_table().at(".vopd").fn; }

} // namespace mgx::emu
