#include "plan/verify.hpp"

#include "base/bytes.hpp"

#include <algorithm>
#include <optional>

namespace vram::plan {
namespace {

// The bytes of a check()ed chain sum up to less than 2^63; the times of a long schedule may not.
class Simulation {
 public:
  Simulation(const Chain& chain, uint64_t budget_bytes)
      : chain_(chain),
        budget_bytes_(budget_bytes),
        outputs_(chain.stages.size()),
        saved_(chain.stages.size()),
        backward_left_(chain.stages.size()),
        live_bytes_(chain.fixed_bytes + chain.input_bytes) {}

  Result<Cost> run(std::span<const Operation> operations) {
    note_peak(0, live_bytes_);
    for (size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      if (operation.stage >= chain_.stages.size())
        return fail(Code::kBadInput, "operation {}: stage {} of {} stages", i, operation.stage,
                    chain_.stages.size());
      index_ = i;
      if (Result<> done = apply(operation); !done) return tl::unexpected(std::move(done.error()));
      if (cost_.peak_bytes > budget_bytes_)
        return fail(Code::kTooLarge,
                    "operation {} (stage {}) needs {} ({} bytes); the budget is {} ({} bytes)", i,
                    operation.stage, format_bytes(cost_.peak_bytes), cost_.peak_bytes,
                    format_bytes(budget_bytes_), budget_bytes_);
    }
    return finish(operations.size());
  }

 private:
  struct Saved {
    uint32_t option = 0;
    bool is_on_host = false;
  };

  Result<> apply(const Operation& operation) {
    switch (operation.kind) {
      case OpKind::kForward:
      case OpKind::kForwardKeepInput:
      case OpKind::kForwardSave:
        return forward(operation);
      case OpKind::kOffload:
      case OpKind::kFetch:
        return copy(operation);
      case OpKind::kBackward:
        return backward(operation.stage);
      case OpKind::kDiscard:
        return discard(operation.stage);
    }
    return refuse(operation.stage, "is unknown");
  }

  Result<> forward(const Operation& operation) {
    const uint32_t i = operation.stage;
    const Stage& stage = chain_.stages[i];
    if (!has_output(i)) return refuse(i, "reads an input that is not there");
    if (outputs_[i] || saved_[i]) return refuse(i, "computes an output that is already there");
    if (i >= backward_left_) return refuse(i, "runs forward after its backward");
    if (operation.kind == OpKind::kForwardSave) {
      if (operation.option >= stage.options.size()) return refuse(i, "has no such option");
      const Option& option = stage.options[operation.option];
      saved_[i] = Saved{operation.option, false};
      return spend(option.forward_ns, option.forward_peak_bytes,
                   option.kept_bytes + option.offloaded_bytes);
    }
    outputs_[i] = true;
    Result<> done = spend(stage.forward_ns, stage.forward_peak_bytes, stage.output_bytes);
    if (!done || operation.kind == OpKind::kForwardKeepInput || i == 0) return done;
    return discard(i - 1);
  }

  Result<> copy(const Operation& operation) {
    std::optional<Saved>& saved = saved_[operation.stage];
    const bool to_host = operation.kind == OpKind::kOffload;
    if (!saved || saved->is_on_host == to_host)
      return refuse(operation.stage, to_host ? "offloads what is not on the device"
                                             : "fetches what is not on the host");
    saved->is_on_host = to_host;
    const Option& option = chain_.stages[operation.stage].options[saved->option];
    if (to_host) {
      live_bytes_ -= option.offloaded_bytes;
      host_bytes_ += option.offloaded_bytes;
      cost_.host_peak_bytes = std::max(cost_.host_peak_bytes, host_bytes_);
      return spend(option.offload_ns, 0, 0);
    }
    host_bytes_ -= option.offloaded_bytes;
    return spend(option.fetch_ns, option.offloaded_bytes, option.offloaded_bytes);
  }

  Result<> backward(uint32_t i) {
    const Stage& stage = chain_.stages[i];
    if (i + 1 != backward_left_) return refuse(i, "runs backward out of order");
    if (!has_output(i)) return refuse(i, "runs backward without its input");
    if (!saved_[i]) return refuse(i, "runs backward without what forward keeps for it");
    const Option& option = stage.options[saved_[i]->option];
    if (saved_[i]->is_on_host && option.offloaded_bytes > 0)
      return refuse(i, "runs backward before its offloaded bytes were fetched");
    live_bytes_ -= option.kept_bytes + option.offloaded_bytes;
    if (i + 1 < chain_.stages.size()) live_bytes_ -= stage.gradient_bytes;
    saved_[i].reset();
    backward_left_ = i;
    const uint64_t input_gradient =
        i == 0 ? chain_.input_gradient_bytes : chain_.stages[i - 1].gradient_bytes;
    return spend(option.backward_ns, option.backward_peak_bytes,
                 input_gradient + stage.parameter_gradient_bytes);
  }

  Result<> discard(uint32_t i) {
    if (!outputs_[i]) return refuse(i, "frees an output that is not a checkpoint");
    outputs_[i] = false;
    live_bytes_ -= chain_.stages[i].output_bytes;
    return {};
  }

  Result<Cost> finish(size_t operation_count) const {
    if (backward_left_ > 0)
      return fail(Code::kBadInput,
                  "the schedule ends after {} operations before the backward of stage {}",
                  operation_count, backward_left_ - 1);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i] || saved_[i])
        return fail(Code::kBadInput, "the output of stage {} is left after the last operation", i);
    }
    return cost_;
  }

  // Whether the input of stage i is on the device.
  bool has_output(uint32_t i) const { return i == 0 || outputs_[i - 1] || saved_[i - 1]; }

  Result<> spend(uint64_t duration_ns, uint64_t extra_peak_bytes, uint64_t extra_bytes) {
    if (__builtin_add_overflow(cost_.time_ns, duration_ns, &cost_.time_ns))
      return fail(Code::kTooLarge, "operation {}: the step takes more than 2^64 ns", index_);
    note_peak(index_, live_bytes_ + extra_peak_bytes);
    live_bytes_ += extra_bytes;
    return {};
  }
  void note_peak(size_t operation, uint64_t bytes) {
    if (bytes <= cost_.peak_bytes) return;
    cost_.peak_bytes = bytes;
    cost_.peak_operation = operation;
  }
  Result<> refuse(uint32_t stage, std::string_view what) const {
    return fail(Code::kBadInput, "operation {}: stage {} {}", index_, stage, what);
  }

  const Chain& chain_;
  uint64_t budget_bytes_;
  std::vector<bool> outputs_;  // by stage: computed without keeping anything, and not freed yet
  std::vector<std::optional<Saved>> saved_;
  size_t backward_left_;  // how many stages still need their backward
  uint64_t live_bytes_;
  uint64_t host_bytes_ = 0;
  size_t index_ = 0;
  Cost cost_;
};

}  // namespace

Result<Cost> verify(const Chain& chain, std::span<const Operation> operations,
                    uint64_t budget_bytes) {
  if (Result<> valid = check(chain); !valid) return tl::unexpected(std::move(valid.error()));
  return Simulation(chain, budget_bytes).run(operations);
}

}  // namespace vram::plan
