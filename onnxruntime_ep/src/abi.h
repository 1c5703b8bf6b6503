// onnxruntime's interface for execution providers, as far as this one uses it: structs, and
// functions by their places in onnxruntime's tables. Tables and structs only grow at their ends, so
// one binary serves every version of onnxruntime from 1.23 on.
#ifndef MGX_EP_ABI_H
#define MGX_EP_ABI_H

#include <cstddef>
#include <cstdint>

struct OrtStatus;
struct OrtLogger;
struct OrtGraph;
struct OrtNode;
struct OrtOpAttr;
struct OrtValue;
struct OrtValueInfo;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtKernelContext;
struct OrtKeyValuePairs;
struct OrtSessionOptions;
struct OrtHardwareDevice;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtNodeComputeContext;
struct OrtMemoryInfo;
struct OrtMemoryDevice;
struct OrtSyncStream;
struct OrtProfilingEvent;
struct OrtProfilingEventsContainer;

struct OrtApiBase {
  const void *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)();
};

enum OrtErrorCode : int { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };
enum OrtLoggingLevel : int { ORT_INFO = 1, ORT_WARNING = 2, ORT_ERROR = 3 };
enum OrtHardwareKind : int { HARDWARE_CPU = 0, HARDWARE_GPU = 1 };
enum OrtMemoryKind : int { MEMORY_DEFAULT = 0, MEMORY_HOST_ACCESSIBLE = 5 };
enum OrtAllocatorKind : int { ALLOCATOR_DEVICE = 0 };
enum OrtValueKind : int { VALUE_TENSOR = 1 };
enum OrtAttributeKind : int {
  ATTRIBUTE_INT = 1,
  ATTRIBUTE_INTS = 2,
  ATTRIBUTE_FLOAT = 3,
  ATTRIBUTE_FLOATS = 4,
  ATTRIBUTE_STRING = 5,
  ATTRIBUTE_STRINGS = 6,
  ATTRIBUTE_GRAPH = 7,
  ATTRIBUTE_TENSOR = 8
};

// Field 0 of each is the version of the interface that the struct is written for.
struct OrtNodeFusionOptions {
  uint32_t version;
  bool drop_constant_initializers;
};

struct OrtNodeComputeInfo {
  uint32_t version;
  OrtStatus *(*CreateState)(OrtNodeComputeInfo *, OrtNodeComputeContext *, void **state);
  OrtStatus *(*Compute)(OrtNodeComputeInfo *, void *state, OrtKernelContext *);
  void (*ReleaseState)(OrtNodeComputeInfo *, void *state);
};

struct OrtAllocator {
  uint32_t version;
  void *(*Alloc)(OrtAllocator *, size_t bytes);
  void (*Free)(OrtAllocator *, void *data);
  const OrtMemoryInfo *(*Info)(const OrtAllocator *);
  void *(*Reserve)(OrtAllocator *, size_t bytes);
  const void *GetStats;
  void *(*AllocOnStream)(OrtAllocator *, size_t bytes, OrtSyncStream *);
  const void *later[12];
};

struct OrtDataTransferImpl {
  uint32_t version;
  void (*Release)(OrtDataTransferImpl *);
  bool (*CanCopy)(const OrtDataTransferImpl *, const OrtMemoryDevice *from,
                  const OrtMemoryDevice *to);
  OrtStatus *(*CopyTensors)(OrtDataTransferImpl *, const OrtValue **from, OrtValue **to,
                            OrtSyncStream **streams, size_t count);
  const void *later[12];
};

struct OrtSyncNotificationImpl {
  uint32_t version;
  void (*Release)(OrtSyncNotificationImpl *);
  OrtStatus *(*Activate)(OrtSyncNotificationImpl *);
  OrtStatus *(*WaitOnDevice)(OrtSyncNotificationImpl *, OrtSyncStream *);
  OrtStatus *(*WaitOnHost)(OrtSyncNotificationImpl *);
  const void *later[12];
};

struct OrtSyncStreamImpl {
  uint32_t version;
  void (*Release)(OrtSyncStreamImpl *);
  void *(*GetHandle)(OrtSyncStreamImpl *);
  OrtStatus *(*CreateNotification)(OrtSyncStreamImpl *, OrtSyncNotificationImpl **);
  OrtStatus *(*Flush)(OrtSyncStreamImpl *);
  OrtStatus *(*OnSessionRunEnd)(OrtSyncStreamImpl *);
  const void *later[12];
};

struct OrtEpProfilerImpl {
  uint32_t version;
  void (*Release)(OrtEpProfilerImpl *);
  OrtStatus *(*StartProfiling)(OrtEpProfilerImpl *, int64_t elapsed_nanoseconds);
  OrtStatus *(*StartEvent)(OrtEpProfilerImpl *, uint64_t event);
  OrtStatus *(*StopEvent)(OrtEpProfilerImpl *, uint64_t event, const OrtProfilingEvent *);
  OrtStatus *(*EndProfiling)(OrtEpProfilerImpl *, OrtProfilingEventsContainer *);
  const void *later[12];
};

struct OrtEp {
  uint32_t version;
  const char *(*GetName)(const OrtEp *);
  OrtStatus *(*GetCapability)(OrtEp *, const OrtGraph *, OrtEpGraphSupportInfo *);
  OrtStatus *(*Compile)(OrtEp *, const OrtGraph **, const OrtNode **fused, size_t count,
                        OrtNodeComputeInfo **, OrtNode **contexts);
  void (*ReleaseNodeComputeInfos)(OrtEp *, OrtNodeComputeInfo **, size_t count);
  const void *unused[5]; // layouts, dynamic options, OnRunStart, OnRunEnd
  const void *allocator_and_stream[2];
  const char *(*GetCompiledModelCompatibilityInfo)(OrtEp *, const OrtGraph *);
  const void *kernels_and_sync[3];
  OrtStatus *(*CreateProfiler)(OrtEp *, OrtEpProfilerImpl **);
  const void *later[32];
};

struct OrtEpFactory {
  uint32_t version;
  const char *(*GetName)(const OrtEpFactory *);
  const char *(*GetVendor)(const OrtEpFactory *);
  OrtStatus *(*GetSupportedDevices)(OrtEpFactory *, const OrtHardwareDevice *const *, size_t count,
                                    OrtEpDevice **, size_t most, size_t *found);
  OrtStatus *(*CreateEp)(OrtEpFactory *, const OrtHardwareDevice *const *,
                         const OrtKeyValuePairs *const *metadata, size_t count,
                         const OrtSessionOptions *, const OrtLogger *, OrtEp **);
  void (*ReleaseEp)(OrtEpFactory *, OrtEp *);
  uint32_t (*GetVendorId)(const OrtEpFactory *);
  const char *(*GetVersion)(const OrtEpFactory *);
  const void *ValidateCompiledModelCompatibilityInfo;
  OrtStatus *(*CreateAllocator)(OrtEpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *,
                                OrtAllocator **);
  void (*ReleaseAllocator)(OrtEpFactory *, OrtAllocator *);
  OrtStatus *(*CreateDataTransfer)(OrtEpFactory *, OrtDataTransferImpl **);
  bool (*IsStreamAware)(const OrtEpFactory *);
  OrtStatus *(*CreateSyncStreamForDevice)(OrtEpFactory *, const OrtMemoryDevice *,
                                          const OrtKeyValuePairs *, OrtSyncStreamImpl **);
  const void *later[32];
};

// A function of a table: its place and its type.
template <typename Function> struct Entry {
  size_t place;
};
template <typename... Arguments> using Checked = Entry<OrtStatus *(Arguments...)>;

// Places in OrtApi.
namespace ort {
inline constexpr Entry<OrtStatus *(int code, const char *)> CreateStatus{0};
inline constexpr Entry<const char *(const OrtStatus *)> GetErrorMessage{2};
inline constexpr Checked<OrtValue *, void **> GetTensorMutableData{51};
inline constexpr Checked<const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **>
    CastTypeInfoToTensorInfo{55};
inline constexpr Checked<const OrtTypeInfo *, int *> GetOnnxTypeFromTypeInfo{56};
inline constexpr Checked<const OrtTensorTypeAndShapeInfo *, int *> GetTensorElementType{60};
inline constexpr Checked<const OrtTensorTypeAndShapeInfo *, size_t *> GetDimensionsCount{61};
inline constexpr Checked<const OrtTensorTypeAndShapeInfo *, int64_t *, size_t> GetDimensions{62};
inline constexpr Checked<const OrtTensorTypeAndShapeInfo *, const char **, size_t>
    GetSymbolicDimensions{63};
inline constexpr Checked<const OrtValue *, OrtTensorTypeAndShapeInfo **> GetTensorTypeAndShape{65};
inline constexpr Checked<const OrtKernelContext *, size_t, const OrtValue **> KernelInput{90};
inline constexpr Checked<OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **>
    KernelOutput{91};
inline constexpr Entry<void(OrtStatus *)> ReleaseStatus{93};
inline constexpr Entry<void(OrtTensorTypeAndShapeInfo *)> ReleaseTensorTypeAndShapeInfo{99};
inline constexpr Checked<const OrtKernelContext *, void **> KernelStream{193};
inline constexpr Checked<const char *, const void *, int, int, OrtOpAttr **> CreateOpAttr{211};
inline constexpr Entry<void(OrtOpAttr *)> ReleaseOpAttr{212};
inline constexpr Checked<const OrtLogger *, int, const char *, const char *, int, const char *>
    LogMessage{247};
inline constexpr Checked<const OrtOpAttr *, int, void *, size_t, size_t *> ReadOpAttr{272};
inline constexpr Checked<const OrtValueInfo *, const char **> GetValueInfoName{289};
inline constexpr Checked<const OrtValueInfo *, const OrtTypeInfo **> GetValueInfoTypeInfo{290};
inline constexpr Entry<const void *()> GetModelEditorApi{291};
inline constexpr Entry<void(OrtKeyValuePairs **)> CreateKeyValuePairs{295};
inline constexpr Entry<void(OrtKeyValuePairs *, const char *, const char *)> AddKeyValuePair{296};
inline constexpr Entry<const char *(const OrtKeyValuePairs *, const char *)> GetKeyValue{297};
inline constexpr Entry<void(const OrtKeyValuePairs *, const char *const **, const char *const **,
                            size_t *)>
    GetKeyValuePairs{298};
inline constexpr Entry<void(OrtKeyValuePairs *)> ReleaseKeyValuePairs{300};
inline constexpr Entry<int(const OrtHardwareDevice *)> HardwareKind{307};
inline constexpr Entry<uint32_t(const OrtHardwareDevice *)> HardwareVendorId{308};
inline constexpr Entry<const void *()> GetEpApi{317};
inline constexpr Checked<const OrtValue *, size_t *> GetTensorSizeInBytes{318};
inline constexpr Checked<const char *, int, uint32_t, int32_t, int, size_t, int, OrtMemoryInfo **>
    CreateMemoryInfo{320};
inline constexpr Checked<const OrtValueInfo *, const OrtValue **> InitializerValue{326};
inline constexpr Checked<const OrtValueInfo *, bool *> IsConstantInitializer{331};
inline constexpr Checked<const OrtGraph *, const char **> GraphName{333};
inline constexpr Checked<const OrtGraph *, const char **> GraphModelPath{334};
inline constexpr Checked<const OrtGraph *, int64_t *> GraphIrVersion{335};
inline constexpr Checked<const OrtGraph *, size_t *> GraphOpsetCount{336};
inline constexpr Checked<const OrtGraph *, const char **, int64_t *, size_t> GraphOpsets{337};
inline constexpr Checked<const OrtGraph *, size_t *> GraphInputCount{338};
inline constexpr Checked<const OrtGraph *, const OrtValueInfo **, size_t> GraphInputs{339};
inline constexpr Checked<const OrtGraph *, size_t *> GraphOutputCount{340};
inline constexpr Checked<const OrtGraph *, const OrtValueInfo **, size_t> GraphOutputs{341};
inline constexpr Checked<const OrtGraph *, size_t *> GraphInitializerCount{342};
inline constexpr Checked<const OrtGraph *, const OrtValueInfo **, size_t> GraphInitializers{343};
inline constexpr Checked<const OrtGraph *, size_t *> GraphNodeCount{344};
inline constexpr Checked<const OrtGraph *, const OrtNode **, size_t> GraphNodes{345};
inline constexpr Checked<const OrtGraph *, const OrtNode **> GraphParent{346};
inline constexpr Checked<const OrtNode *, size_t *> NodeId{348};
inline constexpr Checked<const OrtNode *, const char **> NodeName{349};
inline constexpr Checked<const OrtNode *, const char **> NodeOperator{350};
inline constexpr Checked<const OrtNode *, const char **> NodeDomain{351};
inline constexpr Checked<const OrtNode *, size_t *> NodeInputCount{353};
inline constexpr Checked<const OrtNode *, const OrtValueInfo **, size_t> NodeInputs{354};
inline constexpr Checked<const OrtNode *, size_t *> NodeOutputCount{355};
inline constexpr Checked<const OrtNode *, const OrtValueInfo **, size_t> NodeOutputs{356};
inline constexpr Checked<const OrtNode *, size_t *> NodeImplicitCount{357};
inline constexpr Checked<const OrtNode *, const OrtValueInfo **, size_t> NodeImplicits{358};
inline constexpr Checked<const OrtNode *, size_t *> NodeAttributeCount{359};
inline constexpr Checked<const OrtNode *, const OrtOpAttr **, size_t> NodeAttributes{360};
inline constexpr Checked<const OrtNode *, const char *, const OrtOpAttr **> NodeAttribute{361};
inline constexpr Checked<const OrtOpAttr *, OrtValue **> AttributeTensor{362};
inline constexpr Checked<const OrtOpAttr *, int *> AttributeKind{363};
inline constexpr Checked<const OrtOpAttr *, const char **> AttributeName{364};
inline constexpr Checked<const OrtNode *, size_t *> NodeSubgraphCount{365};
inline constexpr Checked<const OrtNode *, const OrtGraph **, size_t, const char **> NodeSubgraphs{
    366};
inline constexpr Checked<const OrtNode *, const char **> NodeProvider{368};
inline constexpr Checked<const OrtSessionOptions *, OrtKeyValuePairs **> SessionOptions{379};
inline constexpr Entry<void(OrtValue *)> ReleaseValue{96};
inline constexpr Entry<void(OrtMemoryInfo *)> ReleaseMemoryInfo{94};
} // namespace ort

// Places in OrtEpApi.
namespace ort_ep {
inline constexpr Checked<OrtEpFactory *, const OrtHardwareDevice *, const OrtKeyValuePairs *,
                         const OrtKeyValuePairs *, OrtEpDevice **>
    CreateEpDevice{0};
inline constexpr Entry<void(OrtEpDevice *)> ReleaseEpDevice{1};
inline constexpr Checked<OrtEpGraphSupportInfo *, const OrtNode *const *, size_t,
                         const OrtNodeFusionOptions *>
    AddNodesToFuse{2};
inline constexpr Entry<const char *(const OrtNodeComputeContext *)> ComputeNodeName{4};
inline constexpr Checked<OrtEpDevice *, const OrtMemoryInfo *> AddAllocatorInfo{5};
inline constexpr Entry<const OrtMemoryDevice *(const OrtMemoryInfo *)> MemoryDeviceOf{6};
inline constexpr Entry<const OrtMemoryDevice *(const OrtValue *)> ValueDevice{7};
inline constexpr Entry<int(const OrtMemoryDevice *)> MemoryDeviceKind{9};
inline constexpr Entry<int(const OrtMemoryDevice *)> MemoryDeviceMemory{10};
inline constexpr Entry<uint32_t(const OrtMemoryDevice *)> MemoryDeviceVendor{11};
inline constexpr Entry<uint32_t(const OrtMemoryDevice *)> MemoryDeviceNumber{12};
inline constexpr Entry<const OrtSyncStreamImpl *(const OrtSyncStream *)> SyncStreamImpl{13};
inline constexpr Checked<int, uint32_t, uint32_t, const char *, const OrtKeyValuePairs *,
                         OrtHardwareDevice **>
    CreateHardwareDevice{16};
inline constexpr size_t CREATE_HARDWARE_SINCE = 24; // the version of the interface
inline constexpr Checked<int, int32_t, int32_t, const char *, int64_t, int64_t, const char *const *,
                         const char *const *, size_t, OrtProfilingEvent **>
    CreateProfilingEvent{65};
inline constexpr Entry<void(OrtProfilingEvent *)> ReleaseProfilingEvent{66};
inline constexpr Checked<OrtProfilingEventsContainer *, const OrtProfilingEvent *const *, size_t>
    AddProfilingEvents{72};
inline constexpr size_t PROFILER_SINCE = 25;
} // namespace ort_ep

// Places in OrtModelEditorApi.
namespace ort_editor {
inline constexpr Checked<const char *, const char *, const char *, const char *const *, size_t,
                         const char *const *, size_t, OrtOpAttr **, size_t, OrtNode **>
    CreateNode{6};
} // namespace ort_editor

#endif
