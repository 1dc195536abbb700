#include "show/status_json.hpp"

#include "show/status_objects.hpp"

#include <utility>

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

}  // namespace vram::show
