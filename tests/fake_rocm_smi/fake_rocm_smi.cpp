// The functions of the fake of ROCm SMI: each begins with begin(), and writes what the scenario
// has.
#include "machine.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace {

using namespace vram::gpu::rocm;  // NOLINT(google-build-using-namespace): the library speaks it
using vram::fake_rocm_smi::begin;
using vram::fake_rocm_smi::Call;
using vram::fake_rocm_smi::is_chaos;
using vram::fake_rocm_smi::odd;

// In chaos a text fills its room, without an end.
[[maybe_unused]] RsmiStatus write_text(const Call& call, const std::optional<std::string>& text,
                                       char* out, size_t room) {
  if (call.answer != kSuccess) return call.answer;
  if (!text) return kNotSupported;
  if (is_chaos() && odd(0) != 0) {
    std::memset(out, '\x1b', room);
    return kSuccess;
  }
  const size_t size = std::min(text->size(), room - 1);
  std::memcpy(out, text->data(), size);
  out[size] = '\0';
  return size < text->size() ? kInsufficientSize : kSuccess;
}

[[maybe_unused]] uint32_t page_state_of(char letter) {
  const auto at = std::string("RPF").find(letter);
  return at == std::string::npos ? 9 : static_cast<uint32_t>(at);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): ROCm's own names
extern "C" {

RsmiStatus rsmi_init(uint64_t /*flags*/) {
  const Call call = begin("rsmi_init");
  if (call.answer == kSuccess) vram::fake_rocm_smi::count_open(1);
  return call.answer;
}

RsmiStatus rsmi_shut_down() {
  const Call call = begin("rsmi_shut_down");
  if (call.answer == kSuccess) vram::fake_rocm_smi::count_open(-1);
  return call.answer;
}

RsmiStatus rsmi_num_monitor_devices(uint32_t* count) {
  const Call call = begin("rsmi_num_monitor_devices");
  if (call.answer == kSuccess) *count = static_cast<uint32_t>(odd(call.machine.devices.size()));
  return call.answer;
}

RsmiStatus rsmi_dev_pci_id_get(uint32_t index, uint64_t* number) {
  const Call call = begin("rsmi_dev_pci_id_get", index);
  if (call.answer == kSuccess) *number = odd(call.device->pci_id);
  return call.answer;
}

#if FAKE_ROCM_VERSION >= 7
RsmiStatus rsmi_dev_market_name_get(uint32_t index, char* name, uint32_t room) {
  const Call call = begin("rsmi_dev_market_name_get", index);
  return write_text(call, call.device == nullptr ? std::nullopt : call.device->market_name, name,
                    room);
}
#endif

#if FAKE_ROCM_VERSION >= 5
RsmiStatus rsmi_dev_name_get(uint32_t index, char* name, size_t room) {
  const Call call = begin("rsmi_dev_name_get", index);
  return write_text(call, call.device == nullptr ? std::nullopt : call.device->name, name, room);
}

RsmiStatus rsmi_dev_ecc_count_get(uint32_t index, uint64_t block, ErrorCount* count) {
  const Call call = begin("rsmi_dev_ecc_count_get", index);
  if (call.answer != kSuccess) return call.answer;
  if (block != kBlockOfMemory || !call.device->ecc) return kNotSupported;
  *count = {odd(call.device->ecc->corrected), odd(call.device->ecc->uncorrected)};
  return kSuccess;
}

// In chaos it claims others than it writes, never more than there is room for.
RsmiStatus rsmi_dev_memory_reserved_pages_get(uint32_t index, uint32_t* count,
                                              PageRecord* records) {
  const Call call = begin("rsmi_dev_memory_reserved_pages_get", index);
  if (call.answer != kSuccess) return call.answer;
  if (!call.device->pages) return kNotSupported;
  const std::string& pages = *call.device->pages;
  const uint32_t written = std::min(*count, static_cast<uint32_t>(pages.size()));
  for (uint32_t page = 0; records != nullptr && page < written; ++page)
    records[page] = {uint64_t{page} * 4096, 4096,
                     static_cast<uint32_t>(odd(page_state_of(pages[page])))};
  *count = static_cast<uint32_t>(odd(records == nullptr ? pages.size() : written));
  return kSuccess;
}
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
