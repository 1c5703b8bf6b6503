//===- Buffers.cpp - Python objects that are buffers on every version -----===//
#include "Extension.h"

namespace nb = nanobind;

namespace {
// A base class of Python classes whose method `numpy` gives an array: its memory is theirs. Before
// Python 3.12 (PEP 688) only a class of C can be a buffer.
struct Buffer {};
} // namespace

// The view holds the array, which releases it.
static int getBuffer(PyObject *self, Py_buffer *view, int flags) {
  view->obj = nullptr;
  PyObject *array = PyObject_CallMethod(self, "numpy", nullptr);
  if (!array)
    return -1;
  int result = PyObject_GetBuffer(array, view, flags);
  Py_DECREF(array);
  return result;
}

static PyType_Slot slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void *>(getBuffer)},
    {0, nullptr},
};

void mgx::python::bindBuffers(nb::module_ &m) {
  nb::class_<Buffer>(m, "Buffer", nb::type_slots(slots),
                     "The base of classes that are buffers: the memory of the array that their "
                     "method `numpy` gives.")
      .def(nb::init<>());
}
