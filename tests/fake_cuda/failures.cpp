#include "failures.hpp"

#include <utility>

namespace vram::gpu::cuda::fake {
namespace {

bool is_selected(const std::string& wanted, const std::string& function) {
  return wanted.empty() || wanted == function;
}

}  // namespace

CUresult Failures::next(const std::string& function) {
  ++calls_[function];
  if (broken_ != kSuccess) return broken_;
  if (const CUresult planned = next_planned(function); planned != kSuccess) return planned;
  if (!at_random_ || !is_selected(at_random_->function, function)) return kSuccess;
  std::bernoulli_distribution fails(at_random_->rate);
  return fails(at_random_->random) ? at_random_->result : kSuccess;
}

CUresult Failures::next_planned(const std::string& function) {
  CUresult result = kSuccess;
  for (Planned& planned : planned_) {
    if (is_selected(planned.function, function) && --planned.calls_left == 0)
      result = planned.result;
  }
  std::erase_if(planned_, [](const Planned& planned) { return planned.calls_left == 0; });
  return result;
}

void Failures::fail_nth(std::string function, uint64_t nth, CUresult result) {
  if (nth != 0) planned_.push_back({std::move(function), nth, result});
}

void Failures::fail_at_random(std::string function, double rate, uint64_t seed, CUresult result) {
  at_random_ = AtRandom{std::move(function), rate, result, std::mt19937_64(seed)};
}

void Failures::heal() {
  planned_.clear();
  at_random_.reset();
  broken_ = kSuccess;
}

uint64_t Failures::calls(const std::string& function) const {
  uint64_t count = 0;
  for (const auto& [name, calls] : calls_) count += is_selected(function, name) ? calls : 0;
  return count;
}

}  // namespace vram::gpu::cuda::fake
