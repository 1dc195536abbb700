#include "show/free_json.hpp"

#include "base/json.hpp"
#include "show/free_text.hpp"

#include <utility>

namespace vram::show {
namespace {

Json json_posted(const std::vector<watch::PostedDevice>& posted) {
  Json json = Json::array();
  for (const watch::PostedDevice& device : posted) {
    json.push_back({{"device", json_or_null(device.index)},
                    {"number", device.number},
                    {"allocated_bytes", json_or_null(device.figures.allocated_bytes)},
                    {"reserved_bytes", json_or_null(device.figures.reserved_bytes)},
                    {"cached_bytes", json_or_null(device.figures.cached_bytes)}});
  }
  return json;
}

Json json_holder(const watch::Holder& holder) {
  return {{"pid", holder.facts.pid},
          {"user", json_text_or_null(holder.facts.user)},
          {"command", json_text_or_null(holder.facts.command)},
          {"held_bytes", json_or_null(holder.held_bytes)},
          {"cached_bytes", json_or_null(holder.cached_bytes())},
          {"step", json_or_null(holder.step)},
          {"quiet_ns", json_or_null(holder.quiet_ns)},
          {"can_be_asked", holder.can_be_asked()},
          {"is_idle", holder.is_idle},
          {"is_gone", holder.is_gone},
          {"devices", json_posted(holder.posted)}};
}

Json json_dead(const std::vector<watch::DeadPage>& pages) {
  Json json = Json::array();
  for (const watch::DeadPage& page : pages) {
    json.push_back({{"pid", page.pid},
                    {"folder", json_text(page.folder)},
                    {"command", json_text_or_null(page.command)}});
  }
  return json;
}

Json json_answers(std::span<const watch::TrimAnswer> answers) {
  Json json = Json::array();
  for (const watch::TrimAnswer& answer : answers) {
    json.push_back({{"pid", answer.pid},
                    {"outcome", name_of(answer.outcome)},
                    {"freed_bytes", json_or_null(answer.bytes)},
                    {"why", json_text_or_null(answer.why)}});
  }
  return json;
}

}  // namespace

std::string free_json(const watch::Reclaimable& reclaimable,
                      std::span<const watch::TrimAnswer> answers, size_t swept) {
  Json processes = Json::array();
  for (const watch::Holder& holder : reclaimable.holders) processes.push_back(json_holder(holder));
  Json notes = Json::array();
  for (const std::string& note : reclaimable.notes) notes.push_back(json_text(note));
  Json document = {{"schema", "vram.free/1"},
                   {"time_unix_ns", reclaimable.time_ns == 0 ? Json() : Json(reclaimable.time_ns)},
                   {"host", json_text_or_null(reclaimable.host)},
                   {"freed_bytes", watch::sum_of(answers)},
                   {"pages_removed", swept}};
  document["processes"] = std::move(processes);
  document["dead_pages"] = json_dead(reclaimable.dead);
  document["answers"] = json_answers(answers);
  document["notes"] = std::move(notes);
  return document.dump(2, ' ', true) + "\n";
}

}  // namespace vram::show
