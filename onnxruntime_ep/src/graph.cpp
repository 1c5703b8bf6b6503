#include "graph.h"

#include <algorithm>

namespace mgx_ep {

namespace {

// Initialisers of more bytes lie beside the model.
constexpr size_t MOST_INSIDE = 1024;
constexpr int STRING = 8;
constexpr const char *OPAQUE = "mgx.opaque";
// The type of an attribute in ONNX, by its kind in onnxruntime.
constexpr int ONNX_KIND[] = {0, 2, 7, 1, 6, 3, 8, 5, 4};

struct Typed {
  bool is_tensor = false; // of numbers
  bool has_type = false;
  TensorType type;
};

Typed typed(const OrtValueInfo *value) {
  Typed found;
  const OrtTypeInfo *info = api.get(ort::GetValueInfoTypeInfo, value);
  if (info == nullptr || api.get(ort::GetOnnxTypeFromTypeInfo, info) != VALUE_TENSOR)
    return found;
  const auto *tensor = api.get(ort::CastTypeInfoToTensorInfo, info);
  found.has_type = tensor != nullptr;
  if (tensor != nullptr)
    found.type = tensor_type(tensor, true);
  found.is_tensor = found.has_type && found.type.element != 0 && found.type.element != STRING;
  return found;
}

// onnxruntime shows a tensor of unknown rank as a scalar.
bool has_rank(const Typed &value) { return value.is_tensor && !value.type.sizes.empty(); }

// Names that onnxruntime makes up, some of them twice for unlike sizes.
bool is_made_up(const std::string &name) { return name.compare(0, 5, "unk__") == 0; }

// `may_be_scalar`: without sizes it is a scalar, not a tensor of any rank.
Message value_message(const OrtValueInfo *value, bool may_be_scalar) {
  Typed found = typed(value);
  Message tensor, type, info;
  info.text(1, name_of(value));
  if (!found.is_tensor) // a text of any rank: only opaque nodes read it
    return info.message(2, type.message(1, tensor.integer(1, STRING)));
  Message shape;
  for (size_t i = 0; i < found.type.sizes.size(); ++i) {
    Message dim;
    if (found.type.sizes[i] >= 0)
      dim.integer(1, found.type.sizes[i]);
    else if (!found.type.names[i].empty() && !is_made_up(found.type.names[i]))
      dim.text(2, found.type.names[i]);
    shape.message(1, dim);
  }
  tensor.integer(1, found.type.element);
  if (may_be_scalar || has_rank(found))
    tensor.message(2, shape);
  return info.message(2, type.message(1, tensor));
}

template <typename Item> std::vector<Item> items(const std::string &bytes) {
  std::vector<Item> found(bytes.size() / sizeof(Item));
  if (!found.empty())
    std::memcpy(found.data(), bytes.data(), found.size() * sizeof(Item));
  return found;
}

// The value of an attribute as bytes. A first call of onnxruntime's fails and gives the size.
std::string raw(const OrtOpAttr *attribute, int kind) {
  size_t bytes = 0;
  OrtStatus *status = api(ort::ReadOpAttr, attribute, kind, nullptr, size_t{0}, &bytes);
  if (status != nullptr)
    api(ort::ReleaseStatus, status);
  std::string data(bytes, '\0');
  if (bytes != 0)
    api.check(ort::ReadOpAttr, attribute, kind, data.data(), bytes, &bytes);
  data.resize(bytes);
  return data;
}

class Writer {
public:
  Model model;

  std::string whole(const OrtGraph *graph) {
    Message result;
    result.integer(1, std::min<int64_t>(api.get(ort::GraphIrVersion, graph), 13));
    result.text(2, "onnxruntime");
    size_t count = api.get(ort::GraphOpsetCount, graph);
    std::vector<const char *> domains(count);
    std::vector<int64_t> versions(count);
    if (count != 0)
      api.check(ort::GraphOpsets, graph, domains.data(), versions.data(), count);
    for (size_t i = 0; i < count; ++i)
      result.message(8, Message().text(1, domains[i]).integer(2, versions[i]));
    result.message(8, Message().text(1, OPAQUE).integer(2, 1));
    return result.message(7, graph_message(graph, true)).bytes();
  }

private:
  Message graph_message(const OrtGraph *graph, bool is_main) {
    Message result;
    auto nodes = api.list(ort::GraphNodeCount, ort::GraphNodes, graph);
    if (is_main)
      model.nodes = nodes;
    for (const OrtNode *node : nodes)
      result.message(1, is_opaque(node) ? opaque_message(node) : node_message(node));
    const char *name = api.get(ort::GraphName, graph);
    result.text(2, name != nullptr && *name != 0 ? name : "graph");
    std::set<std::string> initializers;
    for (const auto *value : api.list(ort::GraphInitializerCount, ort::GraphInitializers, graph)) {
      if (!initializer(value, result, is_main))
        result.message(11, value_message(value, is_main));
      initializers.insert(name_of(value));
    }
    for (const auto *value : api.list(ort::GraphInputCount, ort::GraphInputs, graph))
      if (initializers.count(name_of(value)) == 0)
        result.message(11, value_message(value, is_main));
    for (const auto *value : api.list(ort::GraphOutputCount, ort::GraphOutputs, graph))
      result.message(12, value_message(value, false));
    for (const OrtNode *node : nodes) {
      for (const auto *value : api.list(ort::NodeOutputCount, ort::NodeOutputs, node))
        if (value != nullptr && !name_of(value).empty() && has_rank(typed(value)))
          result.message(13, value_message(value, false));
    }
    return result;
  }

  // Whether the initialiser is a constant of numbers, which the graph then has. Those of bodies are
  // never beside the model: the compiler takes none from there.
  bool initializer(const OrtValueInfo *info, Message &graph, bool is_main) {
    const OrtValue *value = nullptr;
    if (typed(info).is_tensor && api.get(ort::IsConstantInitializer, info))
      value = api.get(ort::InitializerValue, info);
    if (value != nullptr)
      graph.message(5, tensor_message(value, name_of(info), is_main));
    return value != nullptr;
  }

  Message tensor_message(const OrtValue *value, const std::string &name, bool may_be_beside) {
    TensorType type = tensor_type(value);
    Message tensor;
    for (int64_t size : type.sizes)
      tensor.integer(1, size);
    tensor.integer(2, type.element).text(8, name);
    void *data = nullptr;
    api.check(ort::GetTensorMutableData, const_cast<OrtValue *>(value), &data);
    size_t bytes = api.get(ort::GetTensorSizeInBytes, value);
    if (!may_be_beside || bytes <= MOST_INSIDE)
      return tensor.text(9, std::string_view(static_cast<const char *>(data), bytes));
    auto entry = [](const char *key, const std::string &text) {
      return Message().text(1, key).text(2, text);
    };
    tensor.message(13, entry("location", WEIGHTS));
    tensor.message(13, entry("offset", std::to_string(offset_)));
    tensor.message(13, entry("length", std::to_string(bytes)));
    model.payloads.push_back({data, bytes});
    offset_ += bytes;
    return tensor.integer(14, 1);
  }

  static std::vector<const OrtGraph *> subgraphs(const OrtNode *node,
                                                 std::vector<const char *> &names) {
    std::vector<const OrtGraph *> graphs(api.get(ort::NodeSubgraphCount, node));
    names.resize(graphs.size());
    if (!graphs.empty())
      api.check(ort::NodeSubgraphs, node, graphs.data(), graphs.size(), names.data());
    return graphs;
  }

  // Whether a node, or one in its bodies, has other values than tensors of numbers, or an attribute
  // that onnxruntime does not show.
  bool is_opaque(const OrtNode *node) {
    auto other = [](const OrtValueInfo *value) {
      return value != nullptr && !name_of(value).empty() && !typed(value).is_tensor;
    };
    for (const auto &values : {api.list(ort::NodeInputCount, ort::NodeInputs, node),
                               api.list(ort::NodeOutputCount, ort::NodeOutputs, node),
                               api.list(ort::NodeImplicitCount, ort::NodeImplicits, node)})
      if (std::any_of(values.begin(), values.end(), other))
        return true;
    for (const auto *attribute : api.list(ort::NodeAttributeCount, ort::NodeAttributes, node)) {
      int kind = attribute != nullptr ? api.get(ort::AttributeKind, attribute) : 0;
      if (kind < ATTRIBUTE_INT || kind > ATTRIBUTE_TENSOR)
        return true;
    }
    std::vector<const char *> names;
    for (const OrtGraph *graph : subgraphs(node, names))
      for (const OrtNode *inner : api.list(ort::GraphNodeCount, ort::GraphNodes, graph))
        if (is_opaque(inner))
          return true;
    return false;
  }

  Message opaque_message(const OrtNode *node) {
    Message result = named(node, true);
    return result.text(4, api.get(ort::NodeOperator, node)).text(7, OPAQUE);
  }

  Message node_message(const OrtNode *node) {
    Message result = named(node, false);
    result.text(4, api.get(ort::NodeOperator, node)).text(7, api.get(ort::NodeDomain, node));
    for (const auto *attribute : api.list(ort::NodeAttributeCount, ort::NodeAttributes, node))
      if (api.get(ort::AttributeKind, attribute) != ATTRIBUTE_GRAPH)
        result.message(5, attribute_message(attribute));
    std::vector<const char *> names;
    auto graphs = subgraphs(node, names);
    for (size_t i = 0; i < graphs.size(); ++i) {
      Message attribute;
      attribute.text(1, names[i]).message(6, graph_message(graphs[i], false));
      result.message(5, attribute.integer(20, ONNX_KIND[ATTRIBUTE_GRAPH]));
    }
    return result;
  }

  // The node's name, inputs and outputs; `implicit`: what its bodies read too.
  Message named(const OrtNode *node, bool implicit) {
    Message result;
    for (const auto *value : api.list(ort::NodeInputCount, ort::NodeInputs, node))
      result.text(1, name_of(value));
    if (implicit)
      for (const auto *value : api.list(ort::NodeImplicitCount, ort::NodeImplicits, node))
        result.text(1, name_of(value));
    for (const auto *value : api.list(ort::NodeOutputCount, ort::NodeOutputs, node))
      result.text(2, name_of(value));
    return result.text(3, api.get(ort::NodeName, node));
  }

  Message attribute_message(const OrtOpAttr *attribute) {
    int kind = api.get(ort::AttributeKind, attribute);
    Message result;
    result.text(1, api.get(ort::AttributeName, attribute));
    if (kind == ATTRIBUTE_TENSOR) {
      OrtValue *value = api.get(ort::AttributeTensor, attribute);
      result.message(5, tensor_message(value, "", false));
      api(ort::ReleaseValue, value);
      return result.integer(20, ONNX_KIND[kind]);
    }
    std::string data = raw(attribute, kind);
    switch (kind) {
    case ATTRIBUTE_INT:
      result.integer(3, items<int64_t>(data).at(0));
      break;
    case ATTRIBUTE_INTS:
      for (int64_t item : items<int64_t>(data))
        result.integer(8, item);
      break;
    case ATTRIBUTE_FLOAT:
      result.number(2, items<float>(data).at(0));
      break;
    case ATTRIBUTE_FLOATS:
      for (float item : items<float>(data))
        result.number(7, item);
      break;
    case ATTRIBUTE_STRING:
      result.text(4, data);
      break;
    default: // texts, each with a zero at its end
      for (size_t start = 0; start < data.size();) {
        size_t end = data.find('\0', start);
        result.text(9, data.substr(start, end - start));
        start = end == std::string::npos ? data.size() : end + 1;
      }
    }
    return result.integer(20, ONNX_KIND[kind]);
  }

  size_t offset_ = 0;
};

} // namespace

Model model_of(const OrtGraph *graph) {
  Writer writer;
  std::string bytes = writer.whole(graph);
  writer.model.bytes = std::move(bytes);
  return std::move(writer.model);
}

std::string text_of(const OrtOpAttr *attribute) {
  return attribute != nullptr ? raw(attribute, ATTRIBUTE_STRING) : "";
}

int64_t integer_of(const OrtOpAttr *attribute) {
  return attribute != nullptr ? items<int64_t>(raw(attribute, ATTRIBUTE_INT)).at(0) : 0;
}

std::string name_of(const OrtValueInfo *value) {
  const char *name = value != nullptr ? api.get(ort::GetValueInfoName, value) : nullptr;
  return name != nullptr ? name : "";
}

} // namespace mgx_ep
