// The native part of vram.watch(), compiled on the user's machine against the user's PyTorch and
// Python: the calls of watched modules, which module's nodes backward computes, and the names of
// gradients (gradients.hpp).
//
// Calls: an object in the slot of Module.compile(), of a type derived from the Python type that
// serves without this library (vram/watching/_calls.py). Its call opens the module's scope without
// running Python code, if a watched call is around it; else it calls the Python function.
//
// Backward: PyTorch calls on_node() before each node (at::RecordFunction, which only backward
// nodes call). The node's sequence number names the module that made it (owners.hpp).
#include "gradients.hpp"
#include "thread_place.hpp"

#include <Python.h>
#include <array>
#include <c10/macros/Export.h>
#include <map>
#include <memory>
#include <new>
#include <optional>

namespace vram_watch {
namespace {

// Behind the members of the base type.
struct Call {
  const Module* module = nullptr;
  PyObject* reference = nullptr;  // weak; the instance's __dict__ holds it, and `before`
  PyObject* before = nullptr;     // nullptr: the module's _call_impl
};

Py_ssize_t offset_of_call = 0;
ternaryfunc call_of_base = nullptr;
PyObject* call_impl = nullptr;  // "_call_impl"

Call& call_of(PyObject* self) {
  return *reinterpret_cast<Call*>(reinterpret_cast<char*>(self) + offset_of_call);
}

// A new reference; NULL with an exception if it is gone.
PyObject* referent(PyObject* reference) {
  PyObject* found = nullptr;
#if PY_VERSION_HEX >= 0x030d0000
  if (PyWeakref_GetRef(reference, &found) < 0) return nullptr;
#else
  found = PyWeakref_GetObject(reference);
  if (found == Py_None) found = nullptr;
  Py_XINCREF(found);
#endif
  if (found == nullptr) PyErr_SetString(PyExc_ReferenceError, "the watched module is gone");
  return found;
}

// As most calls of modules are: no bound method is made for it.
constexpr Py_ssize_t kMaxPositional = 6;
PyObject* call_with_positional(PyObject* module, PyObject* args, Py_ssize_t count) {
  std::array<PyObject*, 1 + kMaxPositional> all{module};
  for (Py_ssize_t i = 0; i < count; ++i) all[static_cast<size_t>(1 + i)] = PyTuple_GetItem(args, i);
  return PyObject_VectorcallMethod(call_impl, all.data(), static_cast<size_t>(1 + count), nullptr);
}

PyObject* call_module(const Call& own, PyObject* args, PyObject* kwargs) {
  if (own.before != nullptr) return PyObject_Call(own.before, args, kwargs);
  PyObject* module = referent(own.reference);
  if (module == nullptr) return nullptr;
  const Py_ssize_t count = PyTuple_Size(args);
  const bool has_keywords = kwargs != nullptr && PyDict_Size(kwargs) != 0;
  PyObject* result = nullptr;
  if (!has_keywords && count <= kMaxPositional) {
    result = call_with_positional(module, args, count);
  } else if (PyObject* target = PyObject_GetAttr(module, call_impl); target != nullptr) {
    result = PyObject_Call(target, args, kwargs);
    Py_DECREF(target);
  }
  Py_DECREF(module);
  return result;
}

// A recorder of tests is Python code, which wants no exception to be pending.
void end_scope(bool has_failed) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  if (has_failed) PyErr_Fetch(&type, &value, &traceback);
  recorder().scope_end();
  if (has_failed) PyErr_Restore(type, value, traceback);
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  const Call own = call_of(self);  // the call may end the watch
  ThreadPlace& place = ThreadPlace::get();
  if (own.module == nullptr) return call_of_base(self, args, kwargs);
  if (!place.is_in_call()) {
    if (recorder().is_recording() != 0) return call_of_base(self, args, kwargs);
    Py_INCREF(self);
    PyObject* result = call_module(own, args, kwargs);
    Py_DECREF(self);
    return result;
  }
  Py_INCREF(self);
  recorder().scope_begin(own.module->name.c_str());
  const Owner caller = place.own(own.module);
  PyObject* result = call_module(own, args, kwargs);
  place.own(caller);
  end_scope(result == nullptr);
  Py_DECREF(self);
  return result;
}

PyObject* make_type(PyObject* base) {
  PyObject* size = PyObject_GetAttrString(base, "__basicsize__");
  if (size == nullptr) return nullptr;
  offset_of_call = PyLong_AsSsize_t(size);
  Py_DECREF(size);
  call_of_base = reinterpret_cast<ternaryfunc>(
      PyType_GetSlot(reinterpret_cast<PyTypeObject*>(base), Py_tp_call));
  call_impl = PyUnicode_InternFromString("_call_impl");
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(&call)}, {0, nullptr}};
  PyType_Spec spec{"vram.watching.NativeCall",
                   static_cast<int>(offset_of_call + static_cast<Py_ssize_t>(sizeof(Call))), 0,
                   Py_TPFLAGS_DEFAULT, slots};
  return PyType_FromSpecWithBases(&spec, base);
}

// Called with the GIL.
Module* module_of(const std::string& name) {
  static auto* const kAll = new std::map<std::string, Module>;
  Module& found = (*kAll)[name];
  if (found.name.empty()) found.name = name;
  return &found;
}

std::unique_ptr<at::ObserverContext> on_node(const at::RecordFunction& node) {
  ThreadPlace::get().arrive_at(node.forwardThreadId(), node.seqNr());
  return nullptr;
}

std::optional<at::CallbackHandle>& handle() {
  static std::optional<at::CallbackHandle> kHandle;
  return kHandle;
}

}  // namespace
}  // namespace vram_watch

// Python holds the GIL during all of these.
extern "C" {

using vram_watch::handle;
using vram_watch::Module;
using vram_watch::Owner;
using vram_watch::ThreadPlace;

// Once: a type derived from `base`, or NULL with an exception.
C10_EXPORT PyObject* vram_watch_type(PyObject* base) { return vram_watch::make_type(base); }

C10_EXPORT void vram_watch_recorder(void (*scope_begin)(const char*), void (*scope_end)(),
                                    int (*is_recording)(), void (*backward_began)(),
                                    void (*name)(int, const void*, size_t, const char*,
                                                 const char*)) {
  vram_watch::recorder() = {scope_begin, scope_end, is_recording, backward_began, name};
}

// Once: torch.Tensor and torch.nn.Parameter.
C10_EXPORT void vram_watch_plain_types(PyObject* tensor, PyObject* parameter) {
  Py_INCREF(tensor);
  Py_INCREF(parameter);
  vram_watch::plain_types() = {tensor, parameter};
}
C10_EXPORT PyObject* vram_watch_name_gradients(PyObject* parameters, PyObject* names,
                                               PyObject* device_types) {
  return vram_watch::Gradients::name(parameters, names, device_types);
}

// While anything is watched.
C10_EXPORT void vram_watch_nodes(int is_watching) {
  if (is_watching != 0 && !handle()) {
    handle() = at::addGlobalCallback(at::RecordFunctionCallback(&vram_watch::on_node)
                                         .scopes({at::RecordScope::BACKWARD_FUNCTION}));
  } else if (is_watching == 0 && handle()) {
    at::removeCallback(*handle());
    handle().reset();
  }
}

// `call` holds both of the others.
C10_EXPORT void vram_watch_begin(PyObject* call, const char* name, PyObject* reference,
                                 PyObject* before) {
  Module* const module = vram_watch::module_of(name);
  ++module->watches;
  vram_watch::call_of(call) = {module, reference, before == Py_None ? nullptr : before};
}
C10_EXPORT void vram_watch_end(const char* name) { --vram_watch::module_of(name)->watches; }

C10_EXPORT int vram_watch_is_in_call() { return ThreadPlace::get().is_in_call() ? 1 : 0; }
C10_EXPORT uint64_t vram_watch_enter_pass() { return ThreadPlace::get().enter_pass(); }
C10_EXPORT int vram_watch_leave_pass(uint64_t began) {
  return ThreadPlace::get().leave_pass(began) ? 1 : 0;
}

C10_EXPORT void vram_watch_begin_run() { ThreadPlace::get().begin_run(); }
C10_EXPORT void vram_watch_end_run() { ThreadPlace::get().end_run(); }
// Ends the thread's scope of backward. Returns whose nodes it was at, for vram_watch_resume().
C10_EXPORT const void* vram_watch_suspend() {
  const Owner owner = ThreadPlace::get().backward();
  ThreadPlace::get().end_backward();
  return owner;
}
C10_EXPORT void vram_watch_resume(const void* owner) {
  ThreadPlace::get().resume_backward(static_cast<Owner>(owner));
}
// Whether this thread's node of that number is known to be a watched module's, or of the loss.
C10_EXPORT int vram_watch_knows(uint64_t sequence) {
  return ThreadPlace::get().knows(sequence) ? 1 : 0;
}
// The first node of a backward pass is about to run, and has no owner.
C10_EXPORT void vram_watch_arrive_at_loss() { ThreadPlace::get().arrive_at_loss(); }

}  // extern "C"
