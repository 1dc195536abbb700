#include "show/live/status_json.hpp"

#include "watch/figures/figure.hpp"

#include <string_view>
#include <utility>
#include <variant>

namespace vram::show {

std::string status_json(const watch::Snapshot& snapshot) {
  Json devices = Json::array();
  for (const watch::Device& device : snapshot.devices) devices.push_back(json_device(device));
  Json processes = Json::array();
  for (const watch::Process& process : snapshot.processes)
    processes.push_back(json_process(process));
  Json document = {{"schema", "vram.status/1"},
                   {"time_unix_ns", snapshot.time_ns == 0 ? Json() : Json(snapshot.time_ns)},
                   {"host", snapshot.host.empty() ? Json() : json_text(snapshot.host)}};
  document["devices"] = std::move(devices);
  document["processes"] = std::move(processes);
  document["notes"] = json_texts(snapshot.notes);
  return document.dump(2, ' ', true) + "\n";
}

namespace {

template <typename T>
Json json_of(const T& object);

// A figure as JSON; unknown is null.
struct ToJson {
  Json operator()(std::monostate /*unknown*/) const { return {}; }
  Json operator()(std::string_view text) const { return json_text(std::string(text)); }
  Json operator()(const std::vector<std::string>* texts) const { return json_texts(*texts); }
  template <typename T>
  Json operator()(const std::vector<T>* objects) const {
    Json json = Json::array();
    for (const T& each : *objects) json.push_back(json_of(each));
    return json;
  }
  Json operator()(auto number) const { return number; }
};

template <typename T>
Json json_of(const T& object) {
  Json json = Json::object();
  for (const auto& figure : watch::figures::figures_of<T>()) {
    if (figure.key.empty()) continue;
    if (figure.in == nullptr) {
      json[figure.key] = std::visit(ToJson(), figure.value(object));
      continue;
    }
    Json& group = json[figure.in->key];
    if (figure.in->is_known == nullptr || figure.in->is_known(object))
      group[figure.key] = std::visit(ToJson(), figure.value(object));
  }
  return json;
}

}  // namespace

Json json_device(const watch::Device& device) { return json_of(device); }

Json json_process(const watch::Process& process) { return json_of(process); }

}  // namespace vram::show
