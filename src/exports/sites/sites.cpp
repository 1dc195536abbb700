#include "exports/sites/sites.hpp"

#include "base/text.hpp"
#include "explain/moment/device_view.hpp"
#include "show/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace vram::exports {
namespace {

using explain::DeviceView;
using explain::Dimension;
using explain::GroupNames;
using explain::Lifetime;

GrowthSpan growth_of(const explain::DeviceReport& report) {
  const explain::Steps& steps = report.steps;
  const auto end_of = [](const explain::Step& step) {
    return static_cast<int64_t>(step.first_event + step.event_count) - 1;
  };
  constexpr uint64_t kMinSteps = 2;
  if (steps.steps.size() >= steps.warmup_count + kMinSteps) {
    return {end_of(steps.steps[steps.warmup_count]), end_of(steps.steps.back()),
            fmt::format("from the end of step:{} to the end of step:{}", steps.warmup_count,
                        steps.steps.size() - 1)};
  }
  return {explain::kBeforeFirstEvent, static_cast<int64_t>(report.events) - 1,
          "from the beginning to the end of the recording"};
}

class SiteFinder {
 public:
  explicit SiteFinder(const DeviceView& view)
      : view_(view), holders_(view, Dimension::kUserFrame), scopes_(view, Dimension::kScope) {}

  [[nodiscard]] DeviceSites find() {
    DeviceSites found{show::device_name(view_.report), growth_of(view_.report), {}};
    const std::array<int64_t, 4> moments = {view_.report.peak.requested.event,
                                            static_cast<int64_t>(view_.report.events) - 1,
                                            found.growth.begin_event, found.growth.end_event};
    for (uint32_t id = 0; id < view_.history.lifetimes.size(); ++id) {
      const Lifetime& life = view_.history.lifetimes[id];
      std::array<bool, 4> lives = {};
      std::ranges::transform(moments, lives.begin(),
                             [&](int64_t event) { return view_.history.active_at(life, event); });
      if (std::ranges::none_of(lives, std::identity())) continue;
      Site& site = site_of(id, found);
      const auto bytes = static_cast<int64_t>(life.requested_bytes);
      const auto add = [&](Amount& amount, int sign) {
        amount.bytes = limited_sum(amount.bytes, sign * bytes);
        amount.count += sign;
      };
      if (lives[0]) add(site.peak, 1);
      if (lives[1]) add(site.end, 1);
      if (lives[2]) add(site.growth, -1);
      if (lives[3]) add(site.growth, 1);
    }
    std::ranges::stable_sort(found.sites, std::greater<>(),
                             [](const Site& site) { return site.peak.bytes; });
    return found;
  }

 private:
  struct Key {
    trace::StackId stack;
    trace::StreamId stream;
    trace::PoolId pool;
    uint64_t holder;
    uint64_t scope;
    explain::Category category;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      size_t hash = key.stack;
      for (const uint64_t part : {uint64_t{key.stream}, uint64_t{key.pool}, key.holder, key.scope,
                                  static_cast<uint64_t>(key.category)})
        hash = (hash ^ std::hash<uint64_t>()(part)) * 0x9e37'79b9'7f4a'7c15U;
      return hash;
    }
  };

  [[nodiscard]] Site& site_of(uint32_t id, DeviceSites& found) {
    const Lifetime& life = view_.history.lifetimes[id];
    const Key key{life.stack,       life.stream,     life.pool,
                  holders_.key(id), scopes_.key(id), view_.names.category(id)};
    const auto [entry, is_new] = sites_.try_emplace(key, found.sites.size());
    if (is_new) found.sites.push_back(make_site(id, found.name));
    return found.sites[entry->second];
  }

  [[nodiscard]] Site make_site(uint32_t id, const std::string& device) {
    const Lifetime& life = view_.history.lifetimes[id];
    Site site;
    site.stack = life.stack;
    site.holder = holders_.name(id);
    const std::string& scope = scopes_.name(id);
    const bool has_scope =
        view_.names.has_paths() && scope != explain::kNoScopeName && scope != explain::kBeforeName;
    if (has_scope) site.scope = scope;
    site.labels = {{"device", device}, {"holder", site.holder}};
    if (has_scope) site.labels.emplace_back("scope", site.scope);
    if (view_.names.has_labels())
      site.labels.emplace_back("category", explain::to_string(view_.names.category(id)));
    site.labels.emplace_back("stream",
                             fmt::format("{:#x}", view_.trace.tables.streams[life.stream]));
    if (life.pool != trace::kUnknownPool) {
      const trace::PoolName pool = view_.trace.tables.pools[life.pool];
      site.labels.emplace_back("pool", fmt::format("{}:{}", pool.first, pool.second));
    }
    return site;
  }

  const DeviceView& view_;
  GroupNames holders_;
  GroupNames scopes_;
  std::unordered_map<Key, size_t, Hash> sites_;
};

}  // namespace

std::vector<DeviceSites> find_sites(const reports::Recording& recording) {
  std::vector<DeviceSites> devices;
  for (size_t i = 0; i < recording.trace.devices.size(); ++i) {
    const DeviceView view(recording.trace, recording.report, i);
    devices.push_back(SiteFinder(view).find());
  }
  return devices;
}

std::vector<explain::Frame> frames_of(const trace::Tables& tables, const Site& site) {
  uint64_t room_bytes = explain::kMaxStacksBytes;
  if (site.stack != 0) return explain::report_stack(tables, site.stack, room_bytes);
  std::vector<explain::Frame> frames = {{.function = site.holder, .file = {}, .line = 0}};
  // A scope's path is also the name of what has neither a name nor a stack.
  if (site.holder == site.scope) frames.clear();
  const std::string_view path = site.scope;
  for (size_t end = path.size(); end != 0;) {
    const size_t slash = path.rfind('/', end - 1);
    const size_t begin = slash == path.npos ? 0 : slash + 1;
    frames.push_back(
        {.function = std::string(path.substr(begin, end - begin)), .file = {}, .line = 0});
    end = slash == path.npos ? 0 : slash;
  }
  return frames;
}

}  // namespace vram::exports
