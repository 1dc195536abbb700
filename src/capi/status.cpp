// The functions of status.h about devices and processes: telemetry as plain C structs.
#include "base/result.hpp"
#include "capi/last_error.hpp"
#include "capi/open_board.hpp"
#include "gpu/drm/drm.hpp"
#include "gpu/nvml/nvml.hpp"
#include "gpu/rocm/rocm_smi.hpp"
#include "record/board.hpp"
#include "record/board_reader.hpp"
#include "record/segment_list.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <link.h>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>
#include <vram/status.h>

struct vram_sampler {
  vram::gpu::drm::Drm drm;
  std::optional<vram::gpu::nvml::Nvml> nvml;
  uint32_t nvml_count;  // when it was opened, so that a failure later does not change the numbers
  std::string missing;  // why NVIDIA's devices are; "": nothing is known to be
  pid_t owner;          // a fork of it has the library's state, but none of its connections

  [[nodiscard]] bool is_forked() const { return owner != getpid(); }
  [[nodiscard]] uint32_t drm_count() const { return drm.device_count().value_or(0); }
};

namespace {

using vram::capi::last_error;
using vram::gpu::DeviceIdentity;
using vram::gpu::DeviceProcess;
using vram::gpu::DeviceSample;
using vram::gpu::Telemetry;
using vram::gpu::Vendor;
using vram::gpu::nvml::Nvml;

template <size_t capacity>
void write_text(char (&out)[capacity], const std::optional<std::string>& text) {
  (void)std::snprintf(out, capacity, "%s", text ? text->c_str() : "");
}

uint64_t or_unknown(const std::optional<uint64_t>& figure) { return figure.value_or(VRAM_UNKNOWN); }

vram_vendor as_c(Vendor vendor) {
  switch (vendor) {
    case Vendor::kAmd:
      return VRAM_VENDOR_AMD;
    case Vendor::kIntel:
      return VRAM_VENDOR_INTEL;
    default:
      return VRAM_VENDOR_NVIDIA;
  }
}

vram_device_info as_c(const DeviceIdentity& identity, const DeviceSample& sample) {
  vram_device_info info{};
  info.struct_bytes = sizeof info;
  info.total_bytes = or_unknown(sample.memory.total_bytes);
  info.used_bytes = or_unknown(sample.memory.used_bytes);
  info.free_bytes = or_unknown(sample.memory.free_bytes);
  info.reserved_bytes = or_unknown(sample.memory.reserved_bytes);
  info.busy_percent = or_unknown(sample.busy_percent);
  info.memory_busy_percent = or_unknown(sample.memory_busy_percent);
  info.process_count = sample.processes ? sample.processes->size() : VRAM_UNKNOWN;
  write_text(info.name, identity.name);
  write_text(info.uuid, identity.uuid);
  write_text(info.error, sample.trouble);
  write_text(info.pci_id, identity.pci_id);
  info.vendor = as_c(identity.vendor);
  info.is_asleep = sample.is_asleep ? 1 : 0;
  info.host_total_bytes = or_unknown(sample.host_memory.total_bytes);
  info.host_used_bytes = or_unknown(sample.host_memory.used_bytes);
  return info;
}

vram_process_info as_c(const DeviceProcess& process) {
  const uint32_t kinds = (process.is_compute ? VRAM_PROCESS_COMPUTE : 0) |
                         (process.is_graphics ? VRAM_PROCESS_GRAPHICS : 0);
  return {.pid = process.pid,
          .kinds = kinds,
          .used_bytes = or_unknown(process.used_bytes),
          .host_bytes = or_unknown(process.host_bytes),
          .gpu_instance = process.gpu_instance.value_or(VRAM_NO_INSTANCE),
          .compute_instance = process.compute_instance.value_or(VRAM_NO_INSTANCE)};
}

}  // namespace

extern "C" {

vram_status vram_sampler_open(const char* library, vram_sampler** sampler) {
  last_error().clear();
  if (sampler == nullptr) {
    last_error() = "expected a place for the vram_sampler, found NULL";
    return VRAM_INVALID_VALUE;
  }
  auto opened = std::make_unique<vram_sampler>(vram_sampler{
      .drm =
          vram::gpu::drm::Drm::open(vram::gpu::drm::machine_roots(), vram::gpu::rocm::open_extras),
      .nvml = {},
      .nvml_count = 0,
      .missing = {},
      .owner = getpid()});
  auto nvml = Nvml::open(library == nullptr ? Nvml::library() : library);
  const bool is_absent = !nvml && nvml.error().code == vram::Code::kNotFound;
  if (nvml) {
    const auto count = nvml->device_count();
    if (!count) opened->missing = count.error().message;
    opened->nvml_count = count.value_or(0);
    opened->nvml.emplace(*std::move(nvml));
  } else if (opened->drm_count() == 0) {
    last_error() = nvml.error().message;
    return is_absent ? VRAM_NO_DRIVER : VRAM_NOT_SUPPORTED;
  } else if (!is_absent) {
    opened->missing = nvml.error().message;
  }
  *sampler = opened.release();
  return VRAM_OK;
}

vram_status vram_sampler_close(vram_sampler* sampler) {
  if (sampler == nullptr) return VRAM_INVALID_VALUE;
  if (sampler->is_forked()) return VRAM_FORKED;
  const std::unique_ptr<vram_sampler> closed(sampler);
  return VRAM_OK;
}

size_t vram_sampler_missing(vram_sampler* sampler, char* text, size_t capacity) {
  if (sampler == nullptr || sampler->is_forked()) return 0;
  if (text != nullptr) (void)std::snprintf(text, capacity, "%s", sampler->missing.c_str());
  return sampler->missing.size();
}

uint32_t vram_sampler_device_count(vram_sampler* sampler) {
  return sampler == nullptr || sampler->is_forked() ? 0
                                                    : sampler->nvml_count + sampler->drm_count();
}

vram_status vram_sampler_read_device(vram_sampler* sampler, uint32_t index, vram_device_info* info,
                                     vram_process_info* processes, size_t* capacity) {
  if (sampler == nullptr || info == nullptr) return VRAM_INVALID_VALUE;
  if (sampler->is_forked()) return VRAM_FORKED;
  if (info->struct_bytes != sizeof(vram_device_info)) return VRAM_INVALID_VALUE;
  const bool is_nvml = sampler->nvml && (index < sampler->nvml_count || sampler->drm_count() == 0);
  const Telemetry& source = is_nvml ? static_cast<Telemetry&>(*sampler->nvml) : sampler->drm;
  const uint32_t place = is_nvml ? index : index - sampler->nvml_count;
  const DeviceSample sample = source.sample(place);
  *info = as_c(source.identity(place), sample);
  if (capacity == nullptr) return VRAM_OK;
  if (processes == nullptr) *capacity = 0;
  *capacity = std::min(*capacity, sample.processes ? sample.processes->size() : 0);
  for (size_t i = 0; i < *capacity; ++i) processes[i] = as_c((*sample.processes)[i]);
  return VRAM_OK;
}

uint64_t vram_count_loaded_libraries(void) {
  uint64_t count = 0;
  const auto read = [](dl_phdr_info* library, size_t, void* to) {
    *static_cast<uint64_t*>(to) = library->dlpi_adds;
    return 1;  // it is the same in all entries
  };
  (void)dl_iterate_phdr(read, &count);
  return count;
}

}  // extern "C"

// The functions of status.h about the board: this process's page, and reading those of others.

namespace {

using vram::capi::last_error;
using vram::capi::OpenBoard;
using vram::record::Board;
using vram::record::BoardDevice;
using vram::record::BoardReading;
using vram::record::BoardSlot;
using vram::record::kBoardUnknown;
using vram::record::ListedBlock;
using vram::record::ListedSegment;
using vram::record::PageRequest;

static_assert(VRAM_BOARD_DEVICES == vram::record::kBoardDevices);
static_assert(VRAM_UNKNOWN == vram::record::kBoardUnknown);

vram_status refuse(vram_status status, const std::string& why) {
  last_error() = why;
  return status;
}

void write_figures(vram_board_page& page, const vram::record::BoardFigures& figures) {
  page.posted_ns = figures.posted_ns;
  page.step = figures.step;
  page.step_ns = figures.step_ns;
  page.device_count = figures.device_count;
  for (size_t i = 0; i < figures.device_count; ++i) {
    const BoardDevice& device = figures.devices[i];
    page.devices[i] = {device.device,     device.allocated_bytes,  device.reserved_bytes,
                       device.peak_bytes, device.cached_bytes,     device.num_alloc_retries,
                       device.num_ooms,   device.num_device_alloc, device.num_device_free};
  }
  std::copy(std::begin(figures.scope), std::end(figures.scope), page.scope);
}

// The structs of the interface are those of the file.
static_assert(sizeof(vram_board_segment) == sizeof(ListedSegment) &&
              offsetof(vram_board_segment, stream) == offsetof(ListedSegment, stream) &&
              offsetof(vram_board_segment, kinds) == offsetof(ListedSegment, kinds));
static_assert(sizeof(vram_board_block) == sizeof(ListedBlock) &&
              offsetof(vram_board_block, state) == offsetof(ListedBlock, state));
static_assert(VRAM_SEGMENT_SMALL == vram::record::kSegmentSmall &&
              VRAM_SEGMENT_EXPANDABLE == vram::record::kSegmentExpandable &&
              VRAM_SEGMENT_PRIVATE == vram::record::kSegmentPrivate);

bool is_list(const vram_board_list& list) {
  return list.struct_bytes == sizeof list &&
         (list.segment_count == 0 ||
          (list.segments != nullptr && list.segment_bytes == sizeof(vram_board_segment))) &&
         (list.block_count == 0 ||
          (list.blocks != nullptr && list.block_bytes == sizeof(vram_board_block)));
}

template <typename Listed, typename Given>
std::vector<Listed> as_listed(const Given* given, size_t count) {
  std::vector<Listed> listed(count);
  if (count > 0) std::memcpy(static_cast<void*>(listed.data()), given, count * sizeof(Listed));
  return listed;
}

vram_board_page as_c(const BoardReading& reading) {
  vram_board_page page{};
  page.struct_bytes = sizeof page;
  page.pid = reading.owner.pid;
  page.owner = static_cast<vram_board_owner>(reading.state);
  page.step = page.step_ns = VRAM_UNKNOWN;
  (void)std::snprintf(page.command, sizeof page.command, "%s", reading.command.c_str());
  if (reading.figures) write_figures(page, *reading.figures);
  return page;
}

}  // namespace

extern "C" {

vram_status vram_board_open(void) {
  last_error().clear();
  const auto opened = OpenBoard::get().open();
  return opened ? VRAM_OK : refuse(VRAM_NOT_SUPPORTED, opened.error().message);
}

void vram_board_close(void) { OpenBoard::get().close(); }

vram_status vram_board_post(const vram_board_figures* figures) {
  if (figures == nullptr || figures->struct_bytes != sizeof(vram_board_figures))
    return VRAM_INVALID_VALUE;
  if (figures->device_count != 0 &&
      (figures->devices == nullptr || figures->device_bytes != sizeof(vram_board_device)))
    return VRAM_INVALID_VALUE;
  Board* const board = OpenBoard::get().current();
  if (board == nullptr) return VRAM_OK;
  std::array<BoardDevice, VRAM_BOARD_DEVICES> devices;
  const size_t count = std::min(figures->device_count, devices.size());
  std::transform(figures->devices, figures->devices + count, devices.begin(),
                 [](const vram_board_device& device) {
                   return BoardDevice{
                       device.device,     device.allocated_bytes,  device.reserved_bytes,
                       device.peak_bytes, device.cached_bytes,     device.num_alloc_retries,
                       device.num_ooms,   device.num_device_alloc, device.num_device_free};
                 });
  board->post({.step = figures->step,
               .step_ns = figures->step_ns,
               .scope = figures->scope == nullptr ? "" : figures->scope,
               .devices = std::span(devices).first(count)});
  return VRAM_OK;
}

vram_status vram_board_request(vram_board_trim_request* newest) {
  if (newest == nullptr || newest->struct_bytes != sizeof(vram_board_trim_request))
    return VRAM_INVALID_VALUE;
  const Board* const board = OpenBoard::get().current();
  const auto pending = board == nullptr ? std::nullopt : board->request();
  const auto request = pending.value_or(PageRequest{});
  *newest = {sizeof *newest, request.number, request.order.device_or_steps,
             request.order.bytes_or_ns};
  return VRAM_OK;
}

void vram_board_answer(uint64_t number, uint64_t bytes) {
  if (Board* const board = OpenBoard::get().current()) board->answer({.number = number}, bytes);
}

uint64_t vram_board_segments_request(void) {
  Board* const board = OpenBoard::get().current();
  if (board == nullptr) return 0;
  board->set_lists_segments();
  return board->request(BoardSlot::kSegments).value_or(PageRequest{}).number;
}

vram_status vram_board_answer_segments(uint64_t number, const vram_board_list* list) {
  last_error().clear();
  Board* const board = OpenBoard::get().current();
  if (board == nullptr) return VRAM_OK;
  const PageRequest request{.number = number};
  if (list == nullptr || !is_list(*list)) {
    board->answer(request, kBoardUnknown, BoardSlot::kSegments);
    return list == nullptr ? VRAM_OK
                           : refuse(VRAM_INVALID_VALUE,
                                    "expected the sizes of a list, its segments and its blocks");
  }
  const auto answered =
      board->answer_segments(request, as_listed<ListedSegment>(list->segments, list->segment_count),
                             as_listed<ListedBlock>(list->blocks, list->block_count));
  if (answered) return VRAM_OK;
  const bool is_wrong = answered.error().code == vram::Code::kBadInput;
  return refuse(is_wrong ? VRAM_INVALID_VALUE : VRAM_FILE_FAILED, answered.error().message);
}

vram_status vram_board_read(uint32_t pid, vram_board_page* page) {
  last_error().clear();
  if (page == nullptr || page->struct_bytes != sizeof(vram_board_page)) {
    return refuse(VRAM_INVALID_VALUE, "expected struct_bytes to be sizeof(vram_board_page)");
  }
  const std::vector<std::string> folders = OpenBoard::folders();
  auto reading = vram::record::read_board(folders.front(), pid);
  if (!reading && folders.size() > 1) {
    if (auto second = vram::record::read_board(folders.back(), pid)) reading = std::move(second);
  }
  if (!reading) return refuse(VRAM_INVALID_VALUE, reading.error().message);
  *page = as_c(*reading);
  return VRAM_OK;
}

}  // extern "C"
