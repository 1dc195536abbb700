#include "gpu/drm/fdinfo.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "gpu/drm/files.hpp"

#include <algorithm>
#include <array>

namespace vram::gpu::drm {
namespace {

bool consume_prefix(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// "123 KiB"; without a unit it is bytes.
std::optional<uint64_t> as_size(std::string_view value) {
  const auto space = value.find(' ');
  const auto number = as_number(value.substr(0, space));
  const auto unit =
      trimmed(space == std::string_view::npos ? std::string_view{} : value.substr(space));
  uint64_t scale = 1;
  if (unit == "KiB" || unit == "kB") {
    scale = kKiB;
  } else if (unit == "MiB") {
    scale = kMiB;
  } else if (unit == "GiB") {
    scale = kGiB;
  } else if (!unit.empty()) {
    return std::nullopt;
  }
  if (!number || *number >= kMaxBytesOfDevice / scale) return std::nullopt;
  return *number * scale;
}

// The name without the number at its end: one for each tile or each region of a kind.
std::string_view without_number(std::string_view name) {
  const auto last = name.find_last_not_of("0123456789");
  return name.substr(0, last + 1);
}

bool is_device_region(std::string_view name) {
  const auto kind = without_number(name);
  return kind == "vram" || kind == "local";
}
// amdgpu's third region, "cpu", is memory that the device does not reach at the moment.
bool is_host_region(std::string_view name) {
  const auto kind = without_number(name);
  return kind == "gtt" || kind == "system";
}

// The sizes of one region, the most telling first.
struct Region {
  enum Kind : uint8_t { kResident, kMemory, kTotal, kKinds };
  std::string_view name;
  std::array<std::optional<uint64_t>, kKinds> bytes;
};

struct EngineLines {
  std::string_view name;
  std::optional<uint64_t> busy;
  std::optional<uint64_t> total;
  std::optional<uint64_t> busy_ns;
  uint32_t capacity = 1;
};

template <typename Item>
Item& named(std::vector<Item>& items, std::string_view name) {
  const auto found = std::ranges::find(items, name, &Item::name);
  if (found != items.end()) return *found;
  items.emplace_back().name = name;
  return items.back();
}

class Reading {
 public:
  explicit Reading(std::string_view text) {
    for_each_line(text, [&](std::string_view line) {
      const auto colon = line.find(':');
      if (colon != std::string_view::npos)
        take(line.substr(0, colon), trimmed(line.substr(colon + 1)));
    });
  }

  [[nodiscard]] std::optional<ClientFigures> result() && {
    if (!is_drm_) return std::nullopt;
    for (const Region& region : regions_) {
      const auto known =
          std::ranges::find_if(region.bytes, [](const auto& size) { return size.has_value(); });
      if (known == region.bytes.end()) continue;
      auto& sum = is_device_region(region.name) ? figures_.used_bytes : figures_.host_bytes;
      sum = sum.value_or(0) + **known;
    }
    for (const EngineLines& engine : engines_) {
      if (engine.busy && engine.total)
        figures_.cycles.push_back(
            {std::string(engine.name), *engine.busy, *engine.total, engine.capacity});
      if (engine.busy_ns)
        figures_.times.push_back({std::string(engine.name), *engine.busy_ns / engine.capacity});
    }
    return std::move(figures_);
  }

 private:
  void take(std::string_view key, std::string_view value) {
    if (consume_prefix(key, "drm-")) {
      is_drm_ = true;
      take_standard(key, value);
    } else {
      take_old(key, value);
    }
  }

  void take_standard(std::string_view key, std::string_view value) {
    if (key == "pdev") {
      figures_.pci_id = as_pci_id(value);
    } else if (key == "client-id") {
      figures_.id = as_number(value);
    } else if (consume_prefix(key, "resident-")) {
      take_region(key, Region::kResident, as_size(value));
    } else if (consume_prefix(key, "memory-")) {
      take_region(key, Region::kMemory, as_size(value));
    } else if (consume_prefix(key, "total-cycles-")) {
      named(engines_, key).total = as_number(value);
    } else if (consume_prefix(key, "total-")) {
      take_region(key, Region::kTotal, as_size(value));
    } else if (consume_prefix(key, "cycles-")) {
      named(engines_, key).busy = as_number(value);
      note_kind(key, as_number(value).value_or(0));
    } else if (consume_prefix(key, "engine-capacity-")) {
      named(engines_, key).capacity = std::max(1U, as_small_number(value).value_or(1));
    } else if (consume_prefix(key, "engine-")) {
      take_engine(key, value);
    }
  }

  void take_region(std::string_view name, Region::Kind kind, std::optional<uint64_t> bytes) {
    if (is_device_region(name) || is_host_region(name))
      named(regions_, name).bytes.at(kind) = bytes;
  }

  void take_engine(std::string_view name, std::string_view value) {
    if (!value.ends_with("ns")) return;
    const auto busy_ns = as_number(value.substr(0, value.size() - 2));
    if (!busy_ns) return;
    named(engines_, name).busy_ns = busy_ns;
    note_kind(name, *busy_ns);
  }

  void note_kind(std::string_view engine, uint64_t busy) {
    if (busy == 0) return;
    figures_.is_compute |= engine == "compute" || engine == "ccs";
    figures_.is_graphics |= engine == "gfx" || engine == "render" || engine == "rcs";
  }

  // amdgpu up to 5.18. Its percentages of rings are averages since the rings' first work: of no use
  // as time, and there only for rings that were used. A pasid belongs to one opening of the device.
  void take_old(std::string_view key, std::string_view value) {
    if (key == "pdev") {
      figures_.pci_id = as_pci_id(value);
    } else if (key == "pasid") {
      if (!figures_.id) figures_.id = as_number(value);
    } else if (key == "vram mem") {
      is_drm_ = true;
      take_region("vram", Region::kMemory, as_size(value));
    } else if (key == "gtt mem") {
      take_region("gtt", Region::kMemory, as_size(value));
    } else if (value.ends_with('%')) {
      note_kind(without_number(key), 1);
    }
  }

  ClientFigures figures_;
  std::vector<Region> regions_;
  std::vector<EngineLines> engines_;
  bool is_drm_ = false;
};

}  // namespace

std::optional<ClientFigures> parse_fdinfo(std::string_view text) { return Reading(text).result(); }

std::optional<std::string> as_pci_id(std::string_view text) {
  constexpr std::string_view kShape = "hhhh:hh:hh.h";
  std::string id(text);
  if (id.size() + 5 == kShape.size()) id.insert(0, "0000:");
  if (id.size() != kShape.size()) return std::nullopt;
  for (size_t i = 0; i < id.size(); ++i) {
    if (id[i] >= 'A' && id[i] <= 'F') id[i] = static_cast<char>(id[i] - 'A' + 'a');
    const bool is_hex = (id[i] >= '0' && id[i] <= '9') || (id[i] >= 'a' && id[i] <= 'f');
    if (kShape[i] == 'h' ? !is_hex : id[i] != kShape[i]) return std::nullopt;
  }
  return id;
}

}  // namespace vram::gpu::drm
