#include "record/stacks/cpython.hpp"

#include <dlfcn.h>

namespace vram::record {
namespace {

template <typename Function>
bool look_up(Function** function, const char* name) {
  *function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  return *function != nullptr;
}

// A constant of the interpreter from 3.11 on: 0x030b00f0 is 3.11.0.
bool is_3_11() {
  const auto* version = static_cast<const unsigned long*>(dlsym(RTLD_DEFAULT, "Py_Version"));
  return version != nullptr && *version >> 16 == 0x030b;
}

}  // namespace

CPython CPython::find() {
  CPython found;
  const bool has_all =
      look_up(&found.is_initialized, "Py_IsInitialized") &&
      look_up(&found.this_thread, "PyGILState_GetThisThreadState") &&
      look_up(&found.ensure, "PyGILState_Ensure") &&
      look_up(&found.release, "PyGILState_Release") &&
      look_up(&found.frame_of, "PyThreadState_GetFrame") &&
      look_up(&found.back_of, "PyFrame_GetBack") && look_up(&found.code_of, "PyFrame_GetCode") &&
      look_up(&found.line_of, "PyFrame_GetLineNumber") &&
      look_up(&found.attribute, "PyObject_GetAttrString") &&
      look_up(&found.encode, "PyUnicode_AsEncodedString") &&
      look_up(&found.bytes_of, "PyBytes_AsString") && look_up(&found.size_of, "PyBytes_Size") &&
      look_up(&found.take_error, "PyErr_Fetch") && look_up(&found.set_error, "PyErr_Restore") &&
      look_up(&found.keep, "Py_IncRef") && look_up(&found.drop, "Py_DecRef");
  if (!has_all) return {};
  if (!look_up(&found.is_finalizing, "Py_IsFinalizing"))
    (void)look_up(&found.is_finalizing, "_Py_IsFinalizing");
  if (!look_up(&found.attached_thread, "PyThreadState_GetUnchecked"))
    (void)look_up(&found.attached_thread, "_PyThreadState_UncheckedGet");
  // With both, a frame is known by its code and instruction, and its line is worked out once.
  if (!look_up(&found.last_instruction_of, "PyFrame_GetLasti") ||
      !look_up(&found.line_at, "PyCode_Addr2Line")) {
    found.last_instruction_of = nullptr;
  }
  if (!is_3_11() || !look_up(&found.disable_collection, "PyGC_Disable") ||
      !look_up(&found.enable_collection, "PyGC_Enable")) {
    found.disable_collection = nullptr;
  }
  return found;
}

}  // namespace vram::record
