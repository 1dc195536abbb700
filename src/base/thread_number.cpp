#include "base/thread_number.hpp"

#include <atomic>
#include <bit>

namespace vram {
namespace {

std::atomic<uint64_t> taken{0};
std::atomic<uint32_t> shared{0};

class Holder {
 public:
  Holder() {
    uint64_t seen = taken.load(std::memory_order_relaxed);
    do {
      if (seen == ~uint64_t{0}) {
        number_ = shared.fetch_add(1, std::memory_order_relaxed) % kThreadNumbers;
        return;
      }
      number_ = static_cast<uint32_t>(std::countr_one(seen));
    } while (!taken.compare_exchange_weak(seen, seen | bit(), std::memory_order_relaxed));
    is_own_ = true;
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    if (is_own_) taken.fetch_and(~bit(), std::memory_order_relaxed);
  }
  [[nodiscard]] uint32_t number() const { return number_; }

 private:
  [[nodiscard]] uint64_t bit() const { return uint64_t{1} << number_; }
  uint32_t number_ = 0;
  bool is_own_ = false;
};

}  // namespace

namespace thread_numbers {

__attribute__((tls_model("initial-exec"))) constinit thread_local uint32_t own = 0;

uint32_t take() {
  thread_local const Holder holder;
  own = holder.number() + 1;
  return holder.number();
}

}  // namespace thread_numbers

}  // namespace vram
