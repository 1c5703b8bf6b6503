//===- parts.cpp - programs in parts: read and checked, not run here ------------------===//
#include "artifact_reader.h"
#include "hash.h"
#include "json_writer.h"

#include <set>

namespace mgx {

Part ArtifactReader::read_part(const Json &value) {
  const Fields parts("parts");
  Part part;
  for (const Json &node : parts.list(value, "nodes"))
    part.nodes.push_back(parts.bounded(node, "nodes", 0, (int64_t(1) << 32) - 1));
  if (part.nodes.empty())
    bad_artifact("parts: 'nodes' holds no numbers of nodes");
  if (value.find("operator")) {
    part.op = parts.text(value, "operator");
    if (part.op.empty() || part.nodes.size() != 1)
      bad_artifact("parts: a step of the host is one node of a named operator");
    return part;
  }
  for (const Json &plan : parts.list(value, "plans")) {
    if (plan.kind != Json::Kind::object)
      bad_artifact("parts: a plan is an object");
    part.plans.push_back(Plan::read(plan));
  }
  if (value.find("reason"))
    part.reason = parts.text(value, "reason");
  return part;
}

void ArtifactReader::read_parts(const Json &record) {
  const Fields named("parts");
  Parts parts;
  parts.model_sha256 = (checked(record), section(record).sha256);
  parts.inputs = named.texts(record, "inputs");
  const Json &weights = named.field(record, "weights", Json::Kind::object);
  for (size_t i = 0; i < weights.keys.size(); ++i) {
    if (weights.items[i].kind != Json::Kind::text)
      bad_artifact("parts: 'weights' holds more than keys");
    parts.weights[weights.keys[i]] = weights.items[i].text;
  }
  const Json &graphs = named.field(record, "graphs", Json::Kind::object);
  if (!graphs.find(""))
    bad_artifact("parts: the steps of the main graph are missing");
  for (const std::string &place : graphs.keys) {
    std::vector<Part> &steps = parts.graphs[place];
    for (const Json &step : named.list(graphs, place.c_str()))
      steps.push_back(read_part(step));
  }
  parts.signature = named.text(record, "signature");
  result->parts = std::move(parts);
}

std::string ArtifactReader::parts_json(const Parts &parts) {
  auto part = [](const Part &one) {
    if (!one.op.empty())
      return cat("{\"nodes\":", numbers_json(one.nodes), ",\"operator\":", text_json(one.op), "}");
    std::string plans = list_json(one.plans, [](const Plan &plan) { return plan.json(); });
    std::string reason = one.reason.empty() ? "" : cat(",\"reason\":", text_json(one.reason));
    return cat("{\"nodes\":", numbers_json(one.nodes), ",\"plans\":", plans, reason, "}");
  };
  std::map<std::string, std::string> graphs, weights;
  for (const auto &[place, steps] : parts.graphs)
    graphs[place] = list_json(steps, part);
  for (const auto &[name, key] : parts.weights)
    weights[name] = text_json(key);
  return object_json(
      {{"graphs", object_json(graphs)},
       {"inputs", list_json(parts.inputs, [](const std::string &name) { return text_json(name); })},
       {"model", text_json(parts.model_sha256)},
       {"signature", text_json(parts.signature)},
       {"weights", object_json(weights)}});
}

std::string Parts::operators() const {
  std::set<std::string> names;
  for (const auto &[place, steps] : graphs)
    for (const Part &part : steps)
      if (!part.op.empty())
        names.insert(part.op.starts_with("mgx.bounded::") ? part.op.substr(13) : part.op);
  std::string text;
  for (const std::string &name : names)
    text += cat(text.empty() ? "" : ", ", name);
  return text;
}

} // namespace mgx
