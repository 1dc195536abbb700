// Gradients: names the memory of an optimizer's gradients, all in one call.
//
// A gradient that is a tensor as PyTorch makes them, alone in its memory, is named here. Python
// code (vram/watching/_memory.py) names the others: it knows what tensors of other classes consist
// of, and what several tensors in one block of memory are called.
#pragma once

#include "thread_place.hpp"

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace vram_watch {

// The classes of parameters that keep a gradient as every tensor does.
struct PlainTypes {
  PyObject* tensor = nullptr;
  PyObject* parameter = nullptr;
  bool have(PyObject* object) const {
    const auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    return type == tensor || type == parameter;
  }
};

inline PlainTypes& plain_types() {
  static PlainTypes types;
  return types;
}

// The kinds of devices that the recorder records: a set of their names.
class DeviceTypes {
 public:
  explicit DeviceTypes(PyObject* names) : names_(names) {}
  // Below 0: with a Python exception.
  int has(c10::DeviceType type) {
    if (is_known_ && type == type_) return has_;
    PyObject* name = PyUnicode_FromString(c10::DeviceTypeName(type, true).c_str());
    if (name == nullptr) return -1;
    has_ = PySet_Contains(names_, name);
    Py_DECREF(name);
    type_ = type;
    is_known_ = has_ >= 0;
    return has_;
  }

 private:
  PyObject* names_;
  bool is_known_ = false;
  int has_ = 0;
  c10::DeviceType type_{};
};

class Gradients {
 public:
  // `parameters`, and as many `names` as bytes, are lists. Returns what is left to name: a list of
  // blocks with several gradients, (device, address, bytes, indices), and a list of the indices of
  // other gradients. NULL with an exception.
  static PyObject* name(PyObject* parameters, PyObject* names, PyObject* device_types) {
    Gradients found(device_types);
    const Py_ssize_t count = std::min(PyList_Size(parameters), PyList_Size(names));
    for (Py_ssize_t index = 0; index < count; ++index)
      if (!found.look_at(PyList_GetItem(parameters, index), index)) return nullptr;
    return found.name_those_alone(names) ? found.left() : nullptr;
  }

 private:
  struct Block {
    const void* address = nullptr;
    size_t bytes = 0;
    int device = 0;
    Py_ssize_t index = 0;
    bool is_shared = false;
    auto memory() const { return std::make_tuple(device, address, bytes); }
  };
  enum class Kind { kPlain, kOther, kFailed };

  explicit Gradients(PyObject* device_types) : types_(device_types) {}

  // False: with an exception.
  bool look_at(PyObject* parameter, Py_ssize_t index) {
    if (!plain_types().have(parameter)) {
      others_.push_back(index);
      return true;
    }
    static PyObject* const kCdata = PyUnicode_InternFromString("_cdata");
    PyObject* address = kCdata != nullptr ? PyObject_GetAttr(parameter, kCdata) : nullptr;
    if (address == nullptr) return false;
    const auto* const impl = static_cast<const c10::TensorImpl*>(PyLong_AsVoidPtr(address));
    Py_DECREF(address);
    if (impl == nullptr) return PyErr_Occurred() == nullptr;
    const at::Tensor& gradient = impl->grad();
    if (!gradient.defined()) return true;
    Block block;
    block.index = index;
    switch (read(*gradient.unsafeGetTensorImpl(), block)) {
      case Kind::kPlain:
        if (block.address != nullptr && block.bytes != 0) blocks_.push_back(block);
        return true;
      case Kind::kOther:
        others_.push_back(index);
        return true;
      case Kind::kFailed:
        break;
    }
    return false;
  }

  // No address: it has no memory, or on a device that is not recorded.
  Kind read(const c10::TensorImpl& tensor, Block& block) {
    if (tensor.is_python_dispatch() || !tensor.has_storage() || tensor.layout() != c10::kStrided)
      return Kind::kOther;
    const c10::Device device = tensor.device();
    const int is_recorded = types_.has(device.type());
    if (is_recorded < 0) return Kind::kFailed;
    if (is_recorded == 0) return Kind::kPlain;
    try {
      const c10::Storage& storage = tensor.storage();
      block.address = storage.data();
      block.bytes = storage.nbytes();
    } catch (const c10::Error&) {
      return Kind::kOther;
    }
    block.device = device.has_index() ? device.index() : 0;
    return Kind::kPlain;
  }

  // In the order of the parameters. False: with an exception.
  bool name_those_alone(PyObject* names) {
    std::vector<Block*> sorted;
    sorted.reserve(blocks_.size());
    for (Block& block : blocks_) sorted.push_back(&block);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Block* a, const Block* b) { return a->memory() < b->memory(); });
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i - 1]->memory() != sorted[i]->memory()) continue;
      if (!sorted[i - 1]->is_shared) shared_.push_back(sorted[i - 1]);
      shared_.push_back(sorted[i]);
      sorted[i - 1]->is_shared = sorted[i]->is_shared = true;
    }
    for (const Block& block : blocks_) {
      if (block.is_shared) continue;
      const char* const name = PyBytes_AsString(PyList_GetItem(names, block.index));
      if (name == nullptr) return false;
      recorder().name(block.device, block.address, block.bytes, name, "gradient");
    }
    return true;
  }

  PyObject* left() const {
    PyObject* blocks = PyList_New(0);
    PyObject* indices = blocks != nullptr ? list_of_others() : nullptr;
    bool is_whole = indices != nullptr;
    for (size_t i = 0; is_whole && i < shared_.size();) is_whole = append_block(blocks, i);
    PyObject* both = is_whole ? PyTuple_Pack(2, blocks, indices) : nullptr;
    Py_XDECREF(blocks);
    Py_XDECREF(indices);
    return both;
  }
  PyObject* list_of_others() const {
    PyObject* list = PyList_New(0);
    for (size_t i = 0; list != nullptr && i < others_.size(); ++i)
      if (!append(list, PyLong_FromSsize_t(others_[i]))) Py_CLEAR(list);
    return list;
  }
  // The block whose first gradient is shared_[place]; moves `place` behind its last.
  bool append_block(PyObject* blocks, size_t& place) const {
    const Block& first = *shared_[place];
    PyObject* indices = PyList_New(0);
    bool is_whole = indices != nullptr;
    for (; is_whole && place < shared_.size() && shared_[place]->memory() == first.memory();
         ++place)
      is_whole = append(indices, PyLong_FromSsize_t(shared_[place]->index));
    if (!is_whole) {
      Py_XDECREF(indices);
      return false;
    }
    return append(blocks, Py_BuildValue("iKKN", first.device,
                                        reinterpret_cast<unsigned long long>(first.address),
                                        static_cast<unsigned long long>(first.bytes), indices));
  }
  // Takes the reference to `item`; NULL: with an exception.
  static bool append(PyObject* list, PyObject* item) {
    const bool is_added = item != nullptr && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return is_added;
  }

  DeviceTypes types_;
  std::vector<Block> blocks_;
  std::vector<Block*> shared_;  // those in one block of memory follow each other
  std::vector<Py_ssize_t> others_;
};

}  // namespace vram_watch
