#include "base/json.hpp"
#include "show/diff/diff.hpp"

namespace vram::show {
namespace {

using explain::DeviceChange;
using explain::SiteChange;

Json json_side(const std::optional<explain::SideDevice>& side) {
  if (!side) return Json();
  return {{"device", side->peak.ordinal},
          {"peak_requested_bytes", side->peak.requested_bytes},
          {"peak_mad_bytes", side->mad_bytes},
          {"peak_reserved_bytes", side->peak.reserved_bytes},
          {"runs", side->runs},
          {"runs_with_oom", side->runs_with_oom},
          {"step_count", side->peak.steps}};
}

Json json_site(const SiteChange& site) {
  const explain::PeakSite& latest = site.latest();
  const explain::Frame* const call = latest.calls.empty() ? nullptr : &latest.calls.front();
  return {{"kind", identifier(kind_of(site))},
          {"name", json_text(latest.name)},
          {"a_name", site.a ? json_text(site.a->name) : Json()},
          {"file", call != nullptr ? json_text(call->file) : Json()},
          {"line", call != nullptr && call->line > 0 ? Json(call->line) : Json()},
          {"function", call != nullptr ? json_text(call->function) : Json()},
          {"growth_bytes", explain::growth(site.a_bytes(), site.b_bytes())},
          {"a_bytes", site.a_bytes()},
          {"b_bytes", site.b_bytes()},
          {"a_count", site.a ? site.a->count : 0},
          {"b_count", site.b ? site.b->count : 0}};
}

Json json_basis(const std::optional<explain::SiteBasis>& basis) {
  return basis ? Json(explain::kSiteBasisNames[static_cast<size_t>(*basis)]) : Json();
}

Json json_device(const DeviceChange& change, size_t top) {
  Json sites = Json::array();
  uint64_t changed = 0;
  for (const SiteChange& site : change.sites) {
    if (kind_of(site) == explain::ChangeKind::kSame) continue;
    ++changed;
    if (top == 0 || sites.size() < top) sites.push_back(json_site(site));
  }
  const explain::DevicePeak& device = change.latest();
  return {{"rank", json_or_null(device.rank)},
          {"kind", device.is_host ? "host" : "gpu"},
          {"device", device.ordinal},
          {"growth_bytes", explain::growth(change.a_bytes(), change.b_bytes())},
          {"limit_bytes", json_or_null(change.limit_bytes)},
          {"regression", identifier(change.regression)},
          {"a", json_side(change.a)},
          {"b", json_side(change.b)},
          {"sites_by", json_basis(change.basis)},
          {"site_count", change.sites.size()},
          {"changed_count", changed},
          {"sites", std::move(sites)}};
}

Json json_limit(const std::optional<explain::Limit>& limit) {
  if (!limit) return Json();
  return {{"share", json_or_null(limit->share)}, {"bytes", json_or_null(limit->bytes)}};
}

}  // namespace

std::string diff_json(const explain::Diff& diff, size_t top) {
  Json devices = Json::array();
  for (const DeviceChange& change : diff.devices) devices.push_back(json_device(change, top));
  const Json document = {{"schema", "vram.diff/1"},
                         {"a", json_text(diff.a_name)},
                         {"b", json_text(diff.b_name)},
                         {"limit", json_limit(diff.limit)},
                         {"has_regression", diff.has_regression()},
                         {"incomplete", json_texts(diff.incomplete)},
                         {"devices", std::move(devices)}};
  return document.dump(2) + "\n";
}

}  // namespace vram::show
