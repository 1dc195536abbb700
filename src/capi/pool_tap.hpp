// PoolTap: reports a pool's events to the recorder. While nothing is recorded, hot calls cost one
// load.
#pragma once

#include "pool/shared_pool.hpp"
#include "record/recorder.hpp"

#include <chrono>
#include <cstdint>

namespace vram::capi {

class PoolTap final : public pool::Observer {
 public:
  PoolTap(uint16_t device, pool::SharedPool& pool) : device_(device), pool_(pool) {}

  // The stack of a request, taken before it: no lock of the pool is held then, but maybe one of the
  // caller's that the GIL's owner waits for. So the wait is limited, but long enough for threads
  // that compete for the interpreter.
  static constexpr std::chrono::seconds kGilTimeout{5};
  [[nodiscard]] static record::StackId stack_of_caller() {
    return record::Recorder::is_on() ? record::Recorder::try_capture_stack(kGilTimeout) : 0;
  }
  // After the block was granted; address 0: it was not.
  void allocated(uint64_t address, uint64_t bytes, uint64_t stream, record::StackId stack) {
    if (record::Recorder::is_on()) record_allocated(address, bytes, stream, stack);
  }
  // Before the block is freed.
  void freeing(uint64_t address) {
    if (record::Recorder::is_on()) record_freeing(address);
  }
  void used_by(uint64_t address, uint64_t stream) {
    if (record::Recorder::is_on()) record_used_by(address, stream);
  }
  // Reports the existing memory when a recording starts.
  void report_all() { pool_.report_all(*this); }

  void mapped(uint64_t address, uint64_t bytes) override;
  void unmapped(uint64_t address, uint64_t bytes) override;
  void finished(uint64_t block) override;
  void found_mapped(uint64_t address, uint64_t bytes) override;
  void part(uint64_t block, uint64_t home, uint64_t bytes) override;
  void found_block(uint64_t address, uint64_t requested_bytes, uint64_t stream,
                   pool::Found state) override;

 private:
  void write_event(record::Op op, uint64_t address, uint64_t bytes = 0, uint64_t stream = 0,
                   record::StackId stack = 0) const;
  void record_memory(record::Op op, uint64_t address, uint64_t bytes, uint64_t block = 0) const;
  void record_allocated(uint64_t address, uint64_t bytes, uint64_t stream, record::StackId stack);
  void record_freeing(uint64_t address);
  void record_used_by(uint64_t address, uint64_t stream);

  uint16_t device_;
  pool::SharedPool& pool_;
};

}  // namespace vram::capi
