// Names and texts of the error codes, and the thread's last error.
#include "api.h"

using namespace mgx::hip;

namespace mgx::hip {
namespace {

struct ErrorRow {
  int value;
  const char* name;
  const char* text;
};

constexpr ErrorRow kErrors[] = {
#define MGX_HIP_ERROR(name, value, text) {value, #name, text},
#include "error_codes.inc"
#undef MGX_HIP_ERROR
};

const ErrorRow* find_row(hipError_t code) {
  for (const ErrorRow& row : kErrors)
    if (row.value == int(code)) return &row;
  return nullptr;
}

}  // namespace

const char* error_name(hipError_t code) {
  const ErrorRow* row = find_row(code);
  return row ? row->name : "hipErrorUnknown";
}

const char* error_text(hipError_t code) {
  const ErrorRow* row = find_row(code);
  return row ? row->text : "unknown error";
}

}  // namespace mgx::hip

MGX_EXPORT const char* hipGetErrorName(hipError_t code) { return error_name(code); }

MGX_EXPORT const char* hipGetErrorString(hipError_t code) { return error_text(code); }

MGX_EXPORT hipError_t hipDrvGetErrorName(hipError_t code, const char** name) {
  if (!name || !find_row(code)) return hipErrorInvalidValue;
  *name = error_name(code);
  return hipSuccess;
}

MGX_EXPORT hipError_t hipDrvGetErrorString(hipError_t code, const char** text) {
  if (!text || !find_row(code)) return hipErrorInvalidValue;
  *text = error_text(code);
  return hipSuccess;
}

MGX_EXPORT hipError_t hipGetLastError(void) { return take_last_error(); }

MGX_EXPORT hipError_t hipPeekAtLastError(void) { return peek_last_error(); }

MGX_EXPORT hipError_t hipExtGetLastError(void) { return last_call_result(); }
