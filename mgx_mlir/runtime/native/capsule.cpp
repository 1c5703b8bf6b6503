//===- capsule.cpp - the end of a DLPack capsule --------------------------------===//
//
// Python destroys a capsule that nobody took while an exception may be on its way, so that no
// Python code can be run for it. The functions of Python are given by the caller.
//
//===----------------------------------------------------------------------===//
#include <cstdint>

#define MGX_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {
// PyCapsule_IsValid, PyCapsule_GetPointer, PyErr_Fetch and PyErr_Restore.
struct mgx_python {
  int (*is_valid)(void *capsule, const char *name);
  void *(*pointer)(void *capsule, const char *name);
  void (*fetch)(void **type, void **value, void **traceback);
  void (*restore)(void *type, void *value, void *traceback);
};

// DLManagedTensor of dlpack.h.
struct mgx_managed {
  struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
  } tensor;
  void *context;
  void (*deleter)(mgx_managed *);
};
}

namespace {
mgx_python python;
constexpr const char *kFresh = "dltensor"; // a consumer renames what it takes
} // namespace

MGX_EXPORT void mgx_dlpack_open(const mgx_python *functions) { python = *functions; }

// A capsule's destructor.
MGX_EXPORT void mgx_dlpack_close(void *capsule) {
  if (!python.is_valid(capsule, kFresh))
    return;
  void *type, *value, *traceback;
  python.fetch(&type, &value, &traceback);
  auto *managed = static_cast<mgx_managed *>(python.pointer(capsule, kFresh));
  managed->deleter(managed);
  python.restore(type, value, traceback);
}

// The version of this interface.
MGX_EXPORT int mgx_dlpack_interface() { return 1; }
