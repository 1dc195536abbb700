#include "record/stacks/cpython.hpp"

#include <dlfcn.h>

namespace vram::record {
namespace {

template <typename Function>
bool look_up(Function** function, const char* name) {
  *function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  return *function != nullptr;
}

}  // namespace

CPython CPython::find() {
  CPython found;
  const bool has_all = look_up(&found.is_initialized, "Py_IsInitialized") &&
                       look_up(&found.this_thread, "PyGILState_GetThisThreadState") &&
                       look_up(&found.ensure, "PyGILState_Ensure") &&
                       look_up(&found.release, "PyGILState_Release") &&
                       look_up(&found.frame_of, "PyThreadState_GetFrame") &&
                       look_up(&found.back_of, "PyFrame_GetBack") &&
                       look_up(&found.code_of, "PyFrame_GetCode") &&
                       look_up(&found.line_of, "PyFrame_GetLineNumber") &&
                       look_up(&found.attribute, "PyObject_GetAttrString") &&
                       look_up(&found.text_of, "PyUnicode_AsUTF8AndSize") &&
                       look_up(&found.keep, "Py_IncRef") && look_up(&found.drop, "Py_DecRef");
  if (!has_all) return {};
  if (!look_up(&found.is_finalizing, "Py_IsFinalizing"))
    (void)look_up(&found.is_finalizing, "_Py_IsFinalizing");
  // With both, a frame is known by its code and instruction, and its line is worked out once.
  if (!look_up(&found.last_instruction_of, "PyFrame_GetLasti") ||
      !look_up(&found.line_at, "PyCode_Addr2Line")) {
    found.last_instruction_of = nullptr;
  }
  return found;
}

}  // namespace vram::record
