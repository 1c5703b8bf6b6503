#include "ep.h"

#include "profiler.h"

#include <algorithm>
#include <fstream>

namespace mgx_ep {

namespace fs = std::filesystem;

namespace {

constexpr const char *CONTEXT = "EPContext", *CONTEXT_DOMAIN = "com.microsoft";

const OrtOpAttr *attribute(const OrtNode *node, const char *name) {
  const OrtOpAttr *found = nullptr;
  for (const auto *one : api.list(ort::NodeAttributeCount, ort::NodeAttributes, node))
    if (one != nullptr && std::string_view(api.get(ort::AttributeName, one)) == name)
      found = one;
  return found;
}

bool is_context(const OrtNode *node) {
  return std::string_view(api.get(ort::NodeOperator, node)) == CONTEXT &&
         std::string_view(api.get(ort::NodeDomain, node)) == CONTEXT_DOMAIN &&
         text_of(attribute(node, "source")) == EP_NAME;
}

std::vector<std::string> names_of(const std::vector<const OrtValueInfo *> &values) {
  std::vector<std::string> names;
  for (const auto *value : values)
    names.push_back(name_of(value));
  return names;
}

std::vector<std::string> input_names(const OrtNode *node) {
  return names_of(api.list(ort::NodeInputCount, ort::NodeInputs, node));
}

std::vector<std::string> output_names(const OrtNode *node) {
  return names_of(api.list(ort::NodeOutputCount, ort::NodeOutputs, node));
}

// The places of names among those of a fused node; UNREAD where it has none.
std::vector<size_t> places(const std::vector<std::string> &names,
                           const std::vector<std::string> &among) {
  std::vector<size_t> found;
  for (const std::string &name : names) {
    auto at = std::find(among.begin(), among.end(), name);
    found.push_back(at == among.end() ? UNREAD : static_cast<size_t>(at - among.begin()));
  }
  return found;
}

std::vector<size_t> input_places(const std::vector<std::string> &names, const OrtNode *fused) {
  std::vector<size_t> found = places(names, input_names(fused));
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] == UNREAD)
      throw Error("onnxruntime gives the compiled nodes no '" + names[i] + "'");
  return found;
}

size_t least_id(const std::vector<const OrtNode *> &nodes) {
  size_t least = SIZE_MAX;
  for (const OrtNode *node : nodes)
    least = std::min(least, api.get(ort::NodeId, node));
  return least;
}

void fuse(OrtEpGraphSupportInfo *support, const std::vector<const OrtNode *> &nodes) {
  // The weights are in the artifact: onnxruntime may give back its own.
  OrtNodeFusionOptions options{api.version(), true};
  api.check_ep(ort_ep::AddNodesToFuse, support, nodes.data(), nodes.size(), &options);
}

// "" for a model from memory whose place no option says.
fs::path model_path(const OrtGraph *graph, const Options &options) {
  const char *path = api.get(ort::GraphModelPath, graph);
  return path != nullptr && *path != 0 ? path : options.context_path;
}

OrtOpAttr *made_attribute(const char *name, const std::string &text) {
  OrtOpAttr *made = nullptr;
  api.check(ort::CreateOpAttr, name, text.data(), static_cast<int>(text.size()), ATTRIBUTE_STRING,
            &made);
  return made;
}

OrtOpAttr *made_attribute(const char *name, int64_t value) {
  OrtOpAttr *made = nullptr;
  api.check(ort::CreateOpAttr, name, &value, 1, ATTRIBUTE_INT, &made);
  return made;
}

} // namespace

Ep::Ep(const Options &options, Device device, const OrtLogger *logger)
    : OrtEp{}, options_(options), device_(std::move(device)), logger_(logger) {
  version = api.version();
  GetName = [](const OrtEp *) { return EP_NAME; };
  GetCapability = [](OrtEp *self, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
    return guarded([&] { static_cast<Ep *>(self)->claim(graph, support); });
  };
  Compile = [](OrtEp *self, const OrtGraph **graphs, const OrtNode **fused, size_t count,
               OrtNodeComputeInfo **made, OrtNode **contexts) {
    return guarded([&] {
      Listening listening(static_cast<Ep *>(self)->logger_);
      std::vector<std::unique_ptr<Island>> islands;
      for (size_t i = 0; i < count; ++i)
        islands.push_back(static_cast<Ep *>(self)->made(graphs[i], fused[i], contexts + i));
      for (size_t i = 0; i < count; ++i)
        made[i] = islands[i].release();
    });
  };
  ReleaseNodeComputeInfos = [](OrtEp *, OrtNodeComputeInfo **infos, size_t count) {
    for (size_t i = 0; i < count; ++i)
      delete static_cast<Island *>(infos[i]);
  };
  if (api.version() >= ort_ep::PROFILER_SINCE)
    CreateProfiler = [](OrtEp *, OrtEpProfilerImpl **profiler) {
      return guarded([&] { *profiler = make_profiler(); });
    };
}

void Ep::claim(const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  Listening listening(logger_);
  // A node with bodies is compiled as a whole, or left to the host with them.
  if (api.get(ort::GraphParent, graph) != nullptr)
    return;
  auto nodes = api.list(ort::GraphNodeCount, ort::GraphNodes, graph);
  bool compiled_before = false;
  for (const OrtNode *node : nodes) {
    const char *provider = api.get(ort::NodeProvider, node);
    bool is_ours = provider != nullptr && std::string_view(provider) == EP_NAME;
    compiled_before = compiled_before || is_ours || is_context(node);
    if (!is_ours && is_context(node))
      fuse(support, {node});
  }
  if (compiled_before || nodes.empty())
    return;
  Model model = model_of(graph);
  std::vector<Compiled> found;
  try {
    found = compile(model, options_, device_.get(), logger_);
  } catch (const std::exception &error) {
    // onnxruntime takes an error of this function for "claims nothing"; one of Compile ends the
    // session.
    refused_ = error.what();
    fuse(support, {nodes.front()});
    return;
  }
  for (Compiled &island : found) {
    std::vector<const OrtNode *> claimed;
    for (size_t node : island.nodes)
      claimed.push_back(model.nodes.at(node));
    islands_[least_id(claimed)] = std::move(island);
    fuse(support, claimed);
  }
}

std::unique_ptr<Island> Ep::made(const OrtGraph *graph, const OrtNode *fused, OrtNode **context) {
  if (!refused_.empty())
    throw Error(refused_);
  auto nodes = api.list(ort::GraphNodeCount, ort::GraphNodes, graph);
  if (nodes.size() == 1 && is_context(nodes[0]))
    return of_context(graph, nodes[0], fused);
  auto at = islands_.find(least_id(nodes));
  if (at == islands_.end())
    throw Error("onnxruntime asks for nodes that were not claimed");
  Compiled island = std::move(at->second);
  islands_.erase(at);
  auto inputs = tensor_names(island.artifact.get(), MGX_INPUT);
  auto outputs = tensor_names(island.artifact.get(), MGX_OUTPUT);
  if (options_.write_context)
    *context = context_node(graph, fused, island.path, inputs, outputs);
  return std::make_unique<Island>(
      api.get(ort::NodeName, fused), std::move(island.artifact), std::move(island.program),
      device_.get(), input_places(inputs, fused), places(outputs, output_names(fused)));
}

std::unique_ptr<Island> Ep::of_context(const OrtGraph *graph, const OrtNode *node,
                                       const OrtNode *fused) {
  Artifact artifact = held_by(graph, node);
  auto inputs = input_names(node), outputs = output_names(node);
  size_t wanted = tensor_names(artifact.get(), MGX_INPUT).size();
  size_t made = tensor_names(artifact.get(), MGX_OUTPUT).size();
  if (inputs.size() != wanted || outputs.size() != made)
    throw Error("node '" + std::string(api.get(ort::NodeName, node)) + "' has " +
                std::to_string(inputs.size()) + " inputs and " + std::to_string(outputs.size()) +
                " outputs, and its artifact " + std::to_string(wanted) + " and " +
                std::to_string(made));
  Program program = program_of(artifact.get(), device_.get(), options_, false);
  return std::make_unique<Island>(api.get(ort::NodeName, fused), std::move(artifact),
                                  std::move(program), device_.get(), input_places(inputs, fused),
                                  places(outputs, output_names(fused)));
}

Artifact Ep::held_by(const OrtGraph *graph, const OrtNode *context) const {
  std::string held = text_of(attribute(context, "ep_cache_context"));
  const OrtOpAttr *embedded = attribute(context, "embed_mode");
  mgx_artifact *artifact = nullptr;
  if (embedded == nullptr || integer_of(embedded) != 0) {
    expect(mgx_artifact_open_memory(held.data(), held.size(), nullptr, &artifact));
    return Artifact(artifact);
  }
  fs::path name(held);
  bool is_outside = name.is_absolute() || held.empty();
  for (const fs::path &part : name)
    is_outside = is_outside || part == "..";
  if (is_outside)
    throw Error("the artifact '" + held + "' is not in the folder of the model");
  fs::path model = model_path(graph, options_);
  if (model.empty() && !fs::exists(name))
    throw Error("the artifact '" + held +
                "' lies beside the model, which is from memory here: say where the model lies by "
                "the session's entry ep.context_file_path");
  return opened(model.parent_path() / name);
}

// onnxruntime puts the node in the place of the fused one of the same name.
OrtNode *Ep::context_node(const OrtGraph *graph, const OrtNode *fused, const fs::path &artifact,
                          const std::vector<std::string> &inputs,
                          const std::vector<std::string> &outputs) {
  std::string number = std::to_string(contexts_++), held;
  std::string name = api.get(ort::NodeName, fused);
  if (options_.embed) {
    std::ifstream file(artifact, std::ios::binary);
    held.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } else {
    fs::path model = options_.context_path;
    if (model.empty()) { // as onnxruntime names the model with contexts
      fs::path source = api.get(ort::GraphModelPath, graph);
      model = source.parent_path() / (source.stem().string() + "_ctx.onnx");
    }
    held = model.stem().string() + "_" + number + ".mgx";
    fs::copy_file(artifact, model.parent_path() / held, fs::copy_options::overwrite_existing);
  }
  // The node owns them.
  std::vector<OrtOpAttr *> attributes{
      made_attribute("main_context", int64_t{1}),
      made_attribute("embed_mode", int64_t{options_.embed}),
      made_attribute("ep_cache_context", held),
      made_attribute("source", EP_NAME),
      made_attribute("ep_sdk_version", mgx_version()),
      made_attribute("partition_name", name),
  };
  auto texts = [](const std::vector<std::string> &names) {
    std::vector<const char *> found;
    for (const std::string &one : names)
      found.push_back(one.c_str());
    return found;
  };
  auto given = texts(inputs), results = texts(outputs);
  OrtNode *node = nullptr;
  api.expect(Api::of(api.editor(), ort_editor::CreateNode, CONTEXT, CONTEXT_DOMAIN, name.c_str(),
                     given.data(), given.size(), results.data(), results.size(), attributes.data(),
                     attributes.size(), &node));
  return node;
}

} // namespace mgx_ep
