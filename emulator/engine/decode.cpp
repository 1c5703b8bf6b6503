// Decoder: encoding families and fields as the "Microcode Formats" chapters of
// the CDNA2/3/4 and RDNA2/3/3.5/4 ISA documents give them.
#include "decode.h"
#include "decode_fields.h"
#include "matrix.h"

#include <algorithm>
#include <unordered_map>

namespace mgx::emu {

Handler invalid_handler();
Handler matrix_handler();
Handler vopd_handler();

namespace {

u32 word_at(const u8 *code, u64 bytes, u64 at) {
  u32 d = 0;
  if (at < bytes) std::memcpy(&d, code + at, std::min<u64>(4, bytes - at));
  return d;
}

// Names LLVM spells differently on newer chips; the handler has the right one.
std::string_view canonical(std::string_view n) {
  static const std::map<std::string_view, std::string_view> alias = {
      {"s_andn2_b32", "s_and_not1_b32"},
      {"s_andn2_b64", "s_and_not1_b64"},
      {"s_orn2_b32", "s_or_not1_b32"},
      {"s_orn2_b64", "s_or_not1_b64"},
      {"s_andn2_saveexec_b32", "s_and_not1_saveexec_b32"},
      {"s_andn2_saveexec_b64", "s_and_not1_saveexec_b64"},
      {"s_orn2_saveexec_b32", "s_or_not1_saveexec_b32"},
      {"s_orn2_saveexec_b64", "s_or_not1_saveexec_b64"},
      {"s_andn1_saveexec_b32", "s_and_not0_saveexec_b32"},
      {"s_andn1_saveexec_b64", "s_and_not0_saveexec_b64"},
      {"s_orn1_saveexec_b32", "s_or_not0_saveexec_b32"},
      {"s_orn1_saveexec_b64", "s_or_not0_saveexec_b64"},
      {"s_andn1_wrexec_b32", "s_and_not0_wrexec_b32"},
      {"s_andn1_wrexec_b64", "s_and_not0_wrexec_b64"},
      {"s_andn2_wrexec_b32", "s_and_not1_wrexec_b32"},
      {"s_andn2_wrexec_b64", "s_and_not1_wrexec_b64"},
      {"s_ff1_i32_b32", "s_ctz_i32_b32"},
      {"s_ff1_i32_b64", "s_ctz_i32_b64"},
      {"s_flbit_i32_b32", "s_clz_i32_u32"},
      {"s_flbit_i32_b64", "s_clz_i32_u64"},
      {"s_flbit_i32", "s_cls_i32"},
      {"s_flbit_i32_i64", "s_cls_i32_i64"},
      {"s_add_u32", "s_add_co_u32"},
      {"s_sub_u32", "s_sub_co_u32"},
      {"s_add_i32", "s_add_co_i32"},
      {"s_sub_i32", "s_sub_co_i32"},
      {"s_addc_u32", "s_add_co_ci_u32"},
      {"s_subb_u32", "s_sub_co_ci_u32"},
      {"s_addk_i32", "s_addk_co_i32"},
      {"s_min_num_f32", "s_min_f32"},
      {"s_max_num_f32", "s_max_f32"},
      {"s_min_num_f16", "s_min_f16"},
      {"s_max_num_f16", "s_max_f16"},
      {"s_load_dword", "s_load_b32"},
      {"s_load_dwordx2", "s_load_b64"},
      {"s_load_dwordx4", "s_load_b128"},
      {"s_load_dwordx8", "s_load_b256"},
      {"s_load_dwordx16", "s_load_b512"},
      {"s_buffer_load_dword", "s_buffer_load_b32"},
      {"s_buffer_load_dwordx2", "s_buffer_load_b64"},
      {"s_buffer_load_dwordx4", "s_buffer_load_b128"},
      {"s_buffer_load_dwordx8", "s_buffer_load_b256"},
      {"s_buffer_load_dwordx16", "s_buffer_load_b512"},
      {"v_add_nc_u32", "v_add_u32"},
      {"v_sub_nc_u32", "v_sub_u32"},
      {"v_subrev_nc_u32", "v_subrev_u32"},
      {"v_add_nc_i32", "v_add_i32"},
      {"v_sub_nc_i32", "v_sub_i32"},
      {"v_add_nc_u16", "v_add_u16"},
      {"v_sub_nc_u16", "v_sub_u16"},
      {"v_add_nc_i16", "v_add_i16"},
      {"v_sub_nc_i16", "v_sub_i16"},
      {"v_addc_co_u32", "v_add_co_ci_u32"},
      {"v_subb_co_u32", "v_sub_co_ci_u32"},
      {"v_subbrev_co_u32", "v_subrev_co_ci_u32"},
      {"v_max_num_f32", "v_max_f32"},
      {"v_min_num_f32", "v_min_f32"},
      {"v_max_num_f16", "v_max_f16"},
      {"v_min_num_f16", "v_min_f16"},
      {"v_max_num_f64", "v_max_f64"},
      {"v_min_num_f64", "v_min_f64"},
      {"v_max3_num_f32", "v_max3_f32"},
      {"v_min3_num_f32", "v_min3_f32"},
      {"v_med3_num_f32", "v_med3_f32"},
      {"v_max3_num_f16", "v_max3_f16"},
      {"v_min3_num_f16", "v_min3_f16"},
      {"v_med3_num_f16", "v_med3_f16"},
      {"v_minmax_num_f32", "v_minmax_f32"},
      {"v_maxmin_num_f32", "v_maxmin_f32"},
      {"v_minmax_num_f16", "v_minmax_f16"},
      {"v_maxmin_num_f16", "v_maxmin_f16"},
      {"v_pk_max_num_f16", "v_pk_max_f16"},
      {"v_pk_min_num_f16", "v_pk_min_f16"},
      {"v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32"},
      {"v_cvt_pk_norm_i16_f32", "v_cvt_pknorm_i16_f32"},
      {"v_cvt_pk_norm_u16_f32", "v_cvt_pknorm_u16_f32"},
      {"v_cvt_pk_norm_i16_f16", "v_cvt_pknorm_i16_f16"},
      {"v_cvt_pk_norm_u16_f16", "v_cvt_pknorm_u16_f16"},
      {"v_cvt_rpi_i32_f32", "v_cvt_nearest_i32_f32"},
      {"v_cvt_flr_i32_f32", "v_cvt_floor_i32_f32"},
      {"v_ffbh_u32", "v_clz_i32_u32"},
      {"v_ffbl_b32", "v_ctz_i32_b32"},
      {"v_ffbh_i32", "v_cls_i32"},
      {"v_mul_dx9_zero_f32", "v_mul_legacy_f32"},
      {"v_fma_dx9_zero_f32", "v_fma_legacy_f32"},
      {"v_fmac_dx9_zero_f32", "v_fmac_legacy_f32"},
      {"v_dot2c_f32_f16", "v_dot2acc_f32_f16"},
      {"v_dot2c_f32_bf16", "v_dot2acc_f32_bf16"},
      {"ds_read_b32", "ds_load_b32"},
      {"ds_read_b64", "ds_load_b64"},
      {"ds_read_b96", "ds_load_b96"},
      {"ds_read_b128", "ds_load_b128"},
      {"ds_read_u8", "ds_load_u8"},
      {"ds_read_i8", "ds_load_i8"},
      {"ds_read_u16", "ds_load_u16"},
      {"ds_read_i16", "ds_load_i16"},
      {"ds_read_u8_d16", "ds_load_u8_d16"},
      {"ds_read_u8_d16_hi", "ds_load_u8_d16_hi"},
      {"ds_read_i8_d16", "ds_load_i8_d16"},
      {"ds_read_i8_d16_hi", "ds_load_i8_d16_hi"},
      {"ds_read_u16_d16", "ds_load_u16_d16"},
      {"ds_read_u16_d16_hi", "ds_load_u16_d16_hi"},
      {"ds_read2_b32", "ds_load_2addr_b32"},
      {"ds_read2_b64", "ds_load_2addr_b64"},
      {"ds_read2st64_b32", "ds_load_2addr_stride64_b32"},
      {"ds_read2st64_b64", "ds_load_2addr_stride64_b64"},
      {"ds_read_addtid_b32", "ds_load_addtid_b32"},
      {"ds_write_b8", "ds_store_b8"},
      {"ds_write_b16", "ds_store_b16"},
      {"ds_write_b32", "ds_store_b32"},
      {"ds_write_b64", "ds_store_b64"},
      {"ds_write_b96", "ds_store_b96"},
      {"ds_write_b128", "ds_store_b128"},
      {"ds_write_b8_d16_hi", "ds_store_b8_d16_hi"},
      {"ds_write_b16_d16_hi", "ds_store_b16_d16_hi"},
      {"ds_write2_b32", "ds_store_2addr_b32"},
      {"ds_write2_b64", "ds_store_2addr_b64"},
      {"ds_write2st64_b32", "ds_store_2addr_stride64_b32"},
      {"ds_write2st64_b64", "ds_store_2addr_stride64_b64"},
      {"ds_write_addtid_b32", "ds_store_addtid_b32"},
  };
  auto it = alias.find(n);
  return it == alias.end() ? n : it->second;
}

class Decoder {
public:
  Decoder(Program &p, const u8 *code) : p_(p), code_(code), f_(p) {}

  bool run(const std::vector<CodeSymbol> &functions, std::string &error) {
    std::vector<CodeSymbol> sorted = functions;
    std::sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) { return a.offset < b.offset; });
    p_.names.push_back("invalid");
    p_.code.reserve(p_.bytes / 7 + 16);
    p_.index.assign(p_.bytes / 4 + 1, ~0u);
    size_t next = 0; // first function that starts after `at`
    u64 function_end = 0;
    const CodeSymbol *function = nullptr;
    for (u64 at = 0; at < p_.bytes;) {
      while (next < sorted.size() && sorted[next].offset <= at) {
        function = &sorted[next++];
        function_end = std::max(function_end, function->offset + function->size);
      }
      u64 limit = next < sorted.size() ? std::min(sorted[next].offset, p_.bytes) : p_.bytes;
      Inst in;
      std::string why;
      u32 size = decode(at, in, why);
      if (!size || at + size > limit) {
        if (at < function_end) {
          error = "kernel " + function->name + ": " +
                  (why.empty() ? "bytes that are no instruction" : why) + " at offset " +
                  std::to_string(at - function->offset);
          return false;
        }
        in = Inst();
        in.fn = invalid_handler();
        size = 4;
      }
      in.pc = u32(at);
      in.size = u8(size);
      p_.index[at / 4] = u32(p_.code.size());
      p_.code.push_back(in);
      at += size;
    }
    Inst end; // what runs beyond the code, or jumps out of it, ends here
    end.fn = invalid_handler();
    end.pc = u32(p_.bytes);
    end.size = 4;
    p_.code.push_back(end);
    for (Inst &in : p_.code)
      if (in.cls == Class::branch && in.flags & F_VADDR) { // relative target
        u64 to = u64(in.pc) + 4 + u64(i64(in.imm)) * 4;
        u32 index = to < p_.bytes ? p_.index[to / 4] : ~0u;
        in.target = index == ~0u ? u32(p_.code.size() - 1) : index;
        in.flags &= ~F_VADDR;
      }
    return true;
  }

private:
  struct Known {
    const OpInfo *info = nullptr, *clamped = nullptr; // clamped: saturating integer form
    MatrixPair matrix;
    std::string mnemonic;
    u16 name = 0;
  };

  // Size of the instruction, 0 if it cannot be decoded (`why` says what it is).
  u32 decode(u64 at, Inst &in, std::string &why) {
    u32 d[4];
    for (int i = 0; i < 4; ++i) d[i] = word_at(code_, p_.bytes, at + 4 * u64(i));
    Encoding enc = classify(*p_.chip, d[0]);
    if (enc == Encoding::none) {
      if (const char *family = graphics_family(*p_.chip, d[0]))
        why = std::string(family) + " instructions are not implemented";
      return 0;
    }
    if (enc == Encoding::vopd) return vopd(d, in, why);
    Opcode opcode = opcode_of(*p_.chip, enc, d);
    auto [it, fresh] = known_.try_emplace(opcode.key(enc));
    Known &k = it->second;
    if (fresh) learn(k, enc, opcode);
    if (k.mnemonic.empty()) return 0;
    in.name = k.name;
    bool is_matrix = k.matrix.w32 || k.matrix.w64;
    if (!k.info && !is_matrix) return refuse(why, k, " is not implemented");
    u32 size = is_matrix ? matrix(k, d, in) : f_.fill(enc, *k.info, d, in, k.mnemonic);
    if (f_.bad_operand()) return refuse(why, k, " with a reserved operand");
    if (is_matrix) return size;
    if (in.flags & F_TFE) return refuse(why, k, " with tfe is not implemented");
    if (in.flags & F_GDS && enc == Encoding::ds && k.info->cls != Class::barrier)
      return refuse(why, k, " with gds is not implemented");
    if (k.clamped && in.flags & F_CLAMP) {
      in.fn = k.clamped->fn;
      in.flags &= ~F_CLAMP;
      if (!(in.flags & (F_DPP8 | F_DPP16 | F_SDWA | F_OPSEL_HI | F_MERGE16))) in.flags |= F_SIMPLE;
    }
    if (k.mnemonic.compare(0, 14, "s_set_gpr_idx_") == 0)
      indexed_ = k.mnemonic == "s_set_gpr_idx_on";
    else if (indexed_ && k.mnemonic[0] == 'v') index_registers(in);
    return size;
  }

  // Between s_set_gpr_idx_on and _off vector registers are relative to M0 (Vega
  // ISA, "VGPR Indexing"). Compilers emit the three in a row.
  void index_registers(Inst &in) {
    auto original = std::make_unique<Dual>();
    original->x = in;
    in.aux = original.get();
    in.fn = op_table().at(".indexed").fn;
    p_.duals.push_back(std::move(original));
  }

  static u32 refuse(std::string &why, const Known &k, const char *reason) {
    why = "instruction " + k.mnemonic + reason;
    return 0;
  }

  void learn(Known &k, Encoding enc, const Opcode &opcode) {
    bool w32 = !p_.chip->is_gfx9();
    Named n = name_opcode(*p_.chip, enc, opcode);
    if (n.mnemonic.empty()) return;
    k.mnemonic = n.mnemonic;
    k.name = u16(p_.names.size());
    p_.names.push_back(n.mnemonic);
    u32 gfx = p_.chip->major << 8 | p_.chip->minor << 4 | p_.chip->stepping;
    k.matrix.w32 = w32 ? find_matrix_op(n.mnemonic, gfx, 32) : nullptr;
    k.matrix.w64 = find_matrix_op(n.mnemonic, gfx, 64);
    const OpTable &table = op_table();
    auto it = table.find(canonical(n.mnemonic));
    if (it != table.end()) k.info = &it->second;
    it = table.find(std::string(canonical(n.mnemonic)) + ".clamp");
    if (it != table.end()) k.clamped = &it->second;
  }

  u32 matrix(const Known &k, const u32 *d, Inst &in) {
    in.fn = matrix_handler();
    in.cls = Class::matrix;
    return f_.fill_matrix(k.matrix, d, in);
  }

  u32 vopd(const u32 *d, Inst &in, std::string &why) {
    std::string names[2];
    u32 size = f_.fill_vopd(d, in, names);
    if (f_.bad_operand()) return 0;
    if (!size) {
      why =
          "dual instruction v_dual_" + names[0] + " :: v_dual_" + names[1] + " is not implemented";
      return 0;
    }
    in.fn = vopd_handler();
    in.cls = Class::valu;
    auto [it, fresh] = known_.try_emplace(d[0] >> 17 & 0x1ff);
    if (fresh) {
      it->second.name = u16(p_.names.size());
      p_.names.push_back("v_dual_" + names[0] + " :: v_dual_" + names[1]);
    }
    in.name = it->second.name;
    return size;
  }

  Program &p_;
  const u8 *code_;
  Fields f_;
  std::unordered_map<u64, Known> known_;
  bool indexed_ = false;
};

} // namespace

bool decode_program(Program &p, const u8 *code, const std::vector<CodeSymbol> &functions,
                    std::string &error) {
  return Decoder(p, code).run(functions, error);
}

} // namespace mgx::emu
