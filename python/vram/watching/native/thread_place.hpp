// ThreadPlace: where a thread is in a step: in a forward pass, or in a backward pass and at which
// module's nodes (vram/watching/_phases.py describes the scopes).
#pragma once

#include "owners.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

namespace vram_watch {

// What the library for recordings offers (vram/record.h); tests give others.
struct Recorder {
  void (*scope_begin)(const char* name) = nullptr;
  void (*scope_end)() = nullptr;
  int (*is_recording)() = nullptr;
  // This thread's scope of backward has begun, and no call of this thread ends it.
  void (*backward_began)() = nullptr;
  void (*name)(int device, const void* address, size_t bytes, const char* name,
               const char* category) = nullptr;
};

inline Recorder& recorder() {
  static Recorder kRecorder;
  return kRecorder;
}

// What the program computes from the output of a watched module.
inline Module& loss() {
  static Module kLoss{.name = "loss", .watches = 1};
  return kLoss;
}

class ThreadPlace {
 public:
  static ThreadPlace& get() {
    thread_local ThreadPlace mine;
    return mine;
  }
  ThreadPlace() = default;
  ThreadPlace(const ThreadPlace&) = delete;
  ThreadPlace& operator=(const ThreadPlace&) = delete;
  ~ThreadPlace() {
    if (owners_ != nullptr) OwnersOfThreads::give_back(thread_);
  }

  bool is_in_call() const { return is_in_call_; }
  uint64_t enter_pass() {
    is_in_call_ = true;
    own(nullptr);
    return at::sequence_number::peek();
  }
  // Returns whether the pass has made nodes. Those that follow compute the loss from its output.
  bool leave_pass(uint64_t began) {
    is_in_call_ = false;
    const bool has_nodes = at::sequence_number::peek() != began;
    own(has_nodes ? &loss() : nullptr);
    return has_nodes;
  }
  // What this thread computes from here on belongs to `owner`. Returns whose it was before.
  Owner own(Owner owner) {
    if (owners_ == nullptr && !has_tried_) {
      has_tried_ = true;
      thread_ = at::RecordFunction::currentThreadId();
      owners_ = OwnersOfThreads::take(thread_);
    }
    if (owners_ != nullptr) owners_->note(at::sequence_number::peek(), owner);
    const Owner before = owner_;
    owner_ = owner;
    return before;
  }

  void begin_run() { ++runs_; }
  void end_run() { --runs_; }

  // A node of `thread` is about to compute gradients. Those of tensors that collect them have no
  // number, and come right after the nodes that they belong to.
  void arrive_at(uint64_t thread, int64_t sequence) {
    if (sequence < 0 || recorder().is_recording() == 0) return;
    if (last_ == nullptr || !last_->is_of(thread)) {
      last_ = OwnersOfThreads::of(thread);
      hint_ = 0;
    }
    const Owner owner = last_ != nullptr
                            ? last_->owners.load()->find(static_cast<uint64_t>(sequence), hint_)
                            : nullptr;
    if (owner != nullptr && owner->watches.load(std::memory_order_relaxed) > 0) arrive(owner);
  }
  void arrive(Owner owner) {
    if (backward_ == owner) return;
    if (backward_ == nullptr) {
      recorder().scope_begin("backward");
      if (runs_ == 0) recorder().backward_began();
    } else {
      recorder().scope_end();
    }
    recorder().scope_begin(owner->name.c_str());
    backward_ = owner;
  }
  bool knows(uint64_t sequence) const {
    size_t hint = 0;
    return owners_ != nullptr && owners_->find(sequence, hint) != nullptr;
  }
  void arrive_at_loss() {
    if (backward_ == nullptr) arrive(&loss());
  }
  Owner backward() const { return backward_; }
  void end_backward() {
    if (backward_ == nullptr) return;
    recorder().scope_end();
    recorder().scope_end();
    backward_ = nullptr;
  }
  void resume_backward(Owner owner) {
    end_backward();
    if (owner == nullptr) return;
    recorder().scope_begin("backward");
    recorder().scope_begin(owner->name.c_str());
    backward_ = owner;
  }

 private:
  bool is_in_call_ = false;
  bool has_tried_ = false;
  int runs_ = 0;
  uint64_t thread_ = 0;
  Owners* owners_ = nullptr;
  Owner owner_ = nullptr;
  Owner backward_ = nullptr;
  const OwnersOfThreads::Entry* last_ = nullptr;  // of the last node
  size_t hint_ = 0;
};

}  // namespace vram_watch
