/* mgx.h - libmgx, the runtime of mgx-mlir: opens a compiled artifact (.mgx), checks it, runs it.
 *
 * A C interface (C99 and later, C++), with neither Python nor a compiler behind it.
 *
 *   - A function that can fail returns an mgx_error, NULL for success; results come by pointers and
 *     are untouched by a failure. Errors are the caller's to release.
 *   - Objects count references: releasing one whose parts others use is fine. Releasing NULL is
 * too.
 *   - Any number of threads may call any function, with the same objects too. Any number of runs of
 *     a program go at once.
 *   - A struct that may grow starts with `struct_bytes`, which the caller sets to its sizeof, and
 *     all else that it does not use to 0. Elements of arrays (mgx_tensor) stay as they are.
 *   - Texts are UTF-8, and live as long as the object that they were asked of.
 *   - A struct of options may be NULL; fields that are 0 or NULL take the value of the environment
 *     (the variables MGX_... of mgx-mlir's documentation) or the usual one.
 */
#ifndef MGX_H
#define MGX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef MGX_API
#define MGX_API __attribute__((visibility("default")))
#endif

/* Functions are only added within a version of the interface. */
#define MGX_INTERFACE 1

typedef struct mgx_error mgx_error;
typedef struct mgx_artifact mgx_artifact;
typedef struct mgx_device mgx_device;
typedef struct mgx_program mgx_program;
typedef struct mgx_pending mgx_pending;

/* ---- the library and its errors ------------------------------------------------------------ */

/* The kinds of errors, those of mgx-mlir's Python package. */
typedef enum mgx_error_kind {
  MGX_ERROR_USAGE = 1,    /* A call is wrong: a name, a shape, a type, an option. */
  MGX_ERROR_ARTIFACT = 2, /* An artifact is damaged, hostile, or of another version. */
  MGX_ERROR_TARGET = 3,   /* There is no such device, or no code for it in the artifact. */
  MGX_ERROR_RESOURCE = 4, /* Memory or threads ran out. */
  MGX_ERROR_DEVICE = 5,   /* A HIP call failed, or there is no HIP to call. */
  MGX_ERROR_MODEL = 6,    /* The model has no results for these inputs. */
  MGX_ERROR_USER = 7,     /* A file, a key, or consent to machine code is missing. */
  MGX_ERROR_INTERNAL = 8  /* A fault of libmgx. */
} mgx_error_kind;

/* The version of the library as text, "0.1.0", and that of the interface. */
MGX_API const char *mgx_version(void);
MGX_API uint32_t mgx_interface(void);

/* The error in words: the fault and the next step. The text lives as long as the error. */
MGX_API const char *mgx_error_text(const mgx_error *error);
MGX_API mgx_error_kind mgx_error_kind_of(const mgx_error *error);
MGX_API void mgx_error_release(mgx_error *error);

/* The call of HIP that failed; "" each where it was none. */
typedef struct mgx_hip_error {
  size_t struct_bytes;
  const char *name; /* "hipErrorOutOfMemory" */
  const char *call; /* "hipMalloc" */
  const char *kernel; /* Of a launch: its function, its ONNX nodes, its number. */
} mgx_hip_error;

MGX_API void mgx_error_get_hip(const mgx_error *error, mgx_hip_error *info);

typedef enum mgx_level { MGX_LEVEL_INFO = 1, MGX_LEVEL_WARNING = 2 } mgx_level;
typedef void (*mgx_log_function)(void *user, mgx_level level, const char *text);

/* The function hears what the library does in all of the process, from any thread, until
   mgx_log_end with the same two; others that hear it go on. It may call the library, these two
   functions too. */
MGX_API void mgx_log_to(mgx_log_function function, void *user);
MGX_API void mgx_log_end(mgx_log_function function, void *user);

/* ---- artifacts ------------------------------------------------------------------------------ */

typedef struct mgx_open_options {
  size_t struct_bytes;
  int32_t allow_absolute; /* 1: weights may lie outside of the artifact's folder. */
  int32_t borrow;         /* 1: mgx_artifact_open_memory copies nothing: the bytes outlive it */
  const char *folder; /* Of mgx_artifact_open_memory: where weights beside lie; NULL: nowhere */
} mgx_open_options;

/* Opens a file, which is mapped, or the bytes of one, and checks all but the weights, whose hashes
   are checked when a program first uses them. */
MGX_API mgx_error *mgx_artifact_open(const char *path, const mgx_open_options *options,
                                     mgx_artifact **artifact);
MGX_API mgx_error *mgx_artifact_open_memory(const void *data, size_t bytes,
                                            const mgx_open_options *options,
                                            mgx_artifact **artifact);
MGX_API void mgx_artifact_release(mgx_artifact *artifact);

typedef struct mgx_artifact_info {
  size_t struct_bytes;
  const char *name;
  const char *producer; /* "mgx-mlir 0.1.0" */
  const char *content_hash; /* 64 hexadecimal digits: equal programs have equal ones. */
  const char *host_operators; /* Operators between compiled parts, which only mgx-mlir runs: such
                                 an artifact has no program here. NULL: none. */
  size_t target_count;
  size_t input_count;
  size_t output_count;
  size_t dimension_count;
} mgx_artifact_info;

MGX_API mgx_error *mgx_artifact_get_info(const mgx_artifact *artifact, mgx_artifact_info *info);

/* A target that the artifact has code for: "gfx942", "x86-64-v3"; NULL beyond the last. */
MGX_API const char *mgx_artifact_target(const mgx_artifact *artifact, size_t number);

/* The elements of tensors: the numbers of ONNX's TensorProto.DataType. Those of less than 8 bits
   take a byte each. */
typedef enum mgx_type {
  MGX_TYPE_ANY = 0,
  MGX_FLOAT32 = 1,
  MGX_UINT8 = 2,
  MGX_INT8 = 3,
  MGX_UINT16 = 4,
  MGX_INT16 = 5,
  MGX_INT32 = 6,
  MGX_INT64 = 7,
  MGX_BOOL = 9,
  MGX_FLOAT16 = 10,
  MGX_FLOAT64 = 11,
  MGX_UINT32 = 12,
  MGX_UINT64 = 13,
  MGX_BFLOAT16 = 16,
  MGX_FLOAT8E4M3FN = 17,
  MGX_FLOAT8E4M3FNUZ = 18,
  MGX_FLOAT8E5M2 = 19,
  MGX_FLOAT8E5M2FNUZ = 20,
  MGX_UINT4 = 21,
  MGX_INT4 = 22,
  MGX_FLOAT4E2M1 = 23,
  MGX_FLOAT8E8M0 = 24,
  MGX_UINT2 = 25,
  MGX_INT2 = 26
} mgx_type;

typedef enum mgx_direction { MGX_INPUT = 0, MGX_OUTPUT = 1 } mgx_direction;

/* An input or output. */
typedef struct mgx_tensor_info {
  size_t struct_bytes;
  const char *name;
  mgx_type type;
  uint32_t rank; /* at most MGX_MOST_DIMENSIONS */
  const int64_t *sizes; /* `rank` sizes; -1 where a run gives the size. */
  const char *const *size_texts; /* The same as texts: "16", "batch", "4*seq". */
  int32_t may_share; /* Of an output: the input whose memory it may have; -1: none. */
} mgx_tensor_info;

#define MGX_MOST_DIMENSIONS 64

MGX_API mgx_error *mgx_artifact_tensor(const mgx_artifact *artifact, mgx_direction direction,
                                       size_t number, mgx_tensor_info *info);

/* A named dimension, which the inputs' sizes of a run give, and its bounds. */
typedef struct mgx_dimension_info {
  size_t struct_bytes;
  const char *name;
  int64_t least;
  int64_t most; /* -1: no bound */
} mgx_dimension_info;

MGX_API mgx_error *mgx_artifact_dimension(const mgx_artifact *artifact, size_t number,
                                          mgx_dimension_info *info);

/* ---- devices -------------------------------------------------------------------------------- */

typedef struct mgx_device_options {
  size_t struct_bytes;
  const char *hip_library; /* The path of libamdhip64.so. The first device of a GPU chooses it for
                              all of the process; NULL: the usual places. */
} mgx_device_options;

/* "cpu": all cores, or MGX_THREADS; "cpu:4": so many threads; "hip" or "hip:0": that GPU. */
MGX_API mgx_error *mgx_device_open(const char *name, const mgx_device_options *options,
                                   mgx_device **device);
MGX_API void mgx_device_release(mgx_device *device);

/* How many GPUs HIP has. */
MGX_API mgx_error *mgx_device_count(const mgx_device_options *options, size_t *count);

typedef struct mgx_device_info {
  size_t struct_bytes;
  const char *name; /* "cpu", "AMD Instinct MI300X" */
  const char *target; /* "gfx942"; of the CPU the best level that it runs: "x86-64-v3" */
  int32_t is_gpu;
  int32_t number; /* of a GPU */
  int32_t threads; /* of a CPU */
  uint64_t memory_bytes;
} mgx_device_info;

MGX_API mgx_error *mgx_device_get_info(const mgx_device *device, mgx_device_info *info);

typedef enum mgx_memory {
  MGX_MEMORY_ANY = 0, /* HIP is asked whose it is */
  MGX_MEMORY_HOST = 1, /* of the process */
  MGX_MEMORY_DEVICE = 2, /* of the GPU */
  MGX_MEMORY_PINNED = 3 /* of the process, and the GPU copies from it without a pause */
} mgx_memory;

/* Memory for tensors, aligned to 256 bytes. On a CPU all kinds are the process's. */
MGX_API mgx_error *mgx_device_allocate(mgx_device *device, mgx_memory memory, uint64_t bytes,
                                       void **data);
MGX_API mgx_error *mgx_device_free(mgx_device *device, mgx_memory memory, void *data);

/* Copies in the order of a stream, and returns when it is done; with `is_async` at once, where
   the memory allows. */
MGX_API mgx_error *mgx_device_copy(mgx_device *device, void *target, const void *source,
                                   uint64_t bytes, void *stream, int32_t is_async);

/* A stream of a GPU (hipStream_t); NULL on a CPU. */
MGX_API mgx_error *mgx_stream_create(mgx_device *device, void **stream);
MGX_API mgx_error *mgx_stream_synchronize(mgx_device *device, void *stream);
MGX_API mgx_error *mgx_stream_release(mgx_device *device, void *stream);

/* A function of the HIP library that the device uses, such as "hipEventRecord"; NULL for none. */
MGX_API void *mgx_device_symbol(const mgx_device *device, const char *function);

/* ---- programs ------------------------------------------------------------------------------- */

typedef struct mgx_program_options {
  size_t struct_bytes;
  int32_t trust_code; /* 1: consents to the artifact's machine code, whoever made it. */
  int32_t graph; /* -1: launches are not replayed as HIP graphs. */
  const char *const *trusted_keys; /* PEM files of Ed25519 keys whose signature is consent, or
                                      folders of such. NULL: MGX_TRUST. */
  size_t trusted_key_count;
  const char *cache_dir; /* mgx-mlir's cache, which knows the code that this machine made.
                            NULL: MGX_CACHE_DIR; "none": none. */
  int32_t kept_sizes; /* For how many combinations of sizes memory and graphs are kept; 0: 16. */
} mgx_program_options;

/* The artifact's program on a device. Programs of one mgx_artifact on one device share weights and
   code. Machine code runs where this machine made it, a trusted key signed it, or the options
   consent; nothing is compiled: MGX_ERROR_TARGET says which `mgx finalize` adds code. */
MGX_API mgx_error *mgx_program_create(mgx_artifact *artifact, mgx_device *device,
                                      const mgx_program_options *options, mgx_program **program);
MGX_API void mgx_program_release(mgx_program *program);

/* A tensor of a run: row-major, contiguous, aligned to its elements. */
typedef struct mgx_tensor {
  void *data;
  int64_t *sizes; /* `rank` sizes, in the caller's memory; only mgx_program_sizes writes them. */
  uint32_t rank;
  uint32_t type; /* An mgx_type; 0 is not checked. */
  uint32_t memory; /* An mgx_memory. */
  uint32_t flags; /* 0 */
  uint64_t bytes; /* The bytes at `data`; 0 is not checked. */
} mgx_tensor;

typedef struct mgx_sizes {
  size_t struct_bytes;
  uint64_t workspace_bytes; /* Memory that a run of these sizes has beside its tensors. */
  uint64_t launches; /* Launches and copies of a run, those of each body once. */
  int32_t decides; /* 1: the device decides what runs, and a call on a stream may wait for it. */
} mgx_sizes;

/* The outputs' sizes where the inputs have these: reads `sizes` and `rank` of each input, and
   writes `rank`, `type`, `bytes` and the sizes of each output to where `outputs[i].sizes` points,
   which has room for the rank that mgx_artifact_tensor gives. A NULL there is left out. `sizes` may
   be NULL. Makes ready for runs of these sizes what was not: afterwards they allocate nothing. */
MGX_API mgx_error *mgx_program_sizes(mgx_program *program, const mgx_tensor *inputs,
                                     size_t input_count, mgx_tensor *outputs, size_t output_count,
                                     mgx_sizes *sizes);

/* The time that one thread spent on one step of a run. */
typedef struct mgx_span {
  size_t struct_bytes;
  uint64_t thread; /* 0 is the caller, unless its stack is too small to work. */
  uint64_t step; /* As in mgx_profile_row. */
  double start, end; /* Seconds since the run began. */
} mgx_span;

typedef void (*mgx_span_function)(void *user, const mgx_span *span);

typedef struct mgx_run_options {
  size_t struct_bytes;
  void *stream; /* A hipStream_t of the caller, which the work is enqueued on. */
  int32_t on_stream; /* 1: `stream` is given; NULL is then the legacy default stream. 0: a stream of
                        the program's, and the call returns when the results are there. */
  int32_t graph; /* -1: this run launches one by one. */
  int32_t (*interrupted)(void *user); /* Asked now and then between the trips of a loop, where the
                                         caller waits: not 0 ends the run with MGX_ERROR_USAGE. */
  void *user;
  mgx_span_function span; /* Gets the spans of a run on a CPU at its end, thread by thread. On a GPU
                             those of the calling thread: step 0 is the copies of inputs, 1 giving
                             the launches to the stream, 2 the wait for them. */
  void *const *events; /* hipEvent_t's that the run's work waits for, on a GPU. */
  size_t event_count;
} mgx_run_options;

/* Runs the program: inputs and outputs in the order of mgx_artifact_tensor. With a stream of the
   caller, tensors of the device are read and written in its order, and the call returns when all is
   enqueued; where an output is on the host, when it is there. Outputs overlap neither inputs nor
   each other, but for an output that may have the memory of an input. */
MGX_API mgx_error *mgx_run(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                           const mgx_tensor *outputs, size_t output_count,
                           const mgx_run_options *options);

/* Starts a run, and returns when its work is enqueued; where the device decides what runs, and on a
   CPU, another thread goes on with it. Tensors stay as they are until mgx_wait, which waits for the
   results, releases `pending` and gives the run's error. mgx_done: whether that waits no more. */
MGX_API mgx_error *mgx_run_async(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                                 const mgx_tensor *outputs, size_t output_count,
                                 const mgx_run_options *options, mgx_pending **pending);
MGX_API mgx_error *mgx_done(mgx_pending *pending, int32_t *done);
MGX_API mgx_error *mgx_wait(mgx_pending *pending);

/* One launch or copy of a profiled run. */
typedef struct mgx_profile_row {
  size_t struct_bytes;
  const char *nodes; /* The ONNX nodes that it comes from. */
  const char *function; /* "" for a copy. */
  double seconds;
  uint64_t bytes; /* Read and written. */
  uint64_t operations;
  uint64_t step; /* Its number among the plan's launches of kernels and copies, */
  int64_t kernel; /* and that of its kernel; -1 for a copy. */
} mgx_profile_row;

typedef void (*mgx_profile_function)(void *user, const mgx_profile_row *row);

/* Runs the program once as mgx_run does, step by step, and gives the time of each. */
MGX_API mgx_error *mgx_profile(mgx_program *program, const mgx_tensor *inputs, size_t input_count,
                               const mgx_tensor *outputs, size_t output_count,
                               mgx_profile_function function, void *user);

/* The launches and copies of a run of these sizes in order, without times: those of each body
   once. */
MGX_API mgx_error *mgx_program_launches(mgx_program *program, const mgx_tensor *inputs,
                                        size_t input_count, mgx_profile_function function,
                                        void *user);

typedef struct mgx_program_info {
  size_t struct_bytes;
  const char *target; /* The target whose code runs: "gfx11-generic" */
  uint64_t weight_bytes; /* Weights on the device, or mapped, and what launches made of them. */
  uint64_t kept_bytes; /* Memory of the sizes that are kept now. */
  uint64_t bindings; /* How often memory was made ready for sizes. */
  uint64_t runs; /* How often it ran. */
} mgx_program_info;

MGX_API mgx_error *mgx_program_get_info(mgx_program *program, mgx_program_info *info);

/* ---- programs of a compiler in this process ------------------------------------------------ */

typedef enum mgx_weight_flags {
  MGX_WEIGHT_SPLAT = 1, /* `data` has one element, which the weight repeats. */
  MGX_WEIGHT_MAPPED = 2 /* `data` is mapped from a file, whose pages the system may take back. */
} mgx_weight_flags;

typedef struct mgx_weight {
  const char *key;
  const void *data;
  uint64_t bytes; /* Of the whole weight. */
  uint32_t type; /* An mgx_type. */
  uint32_t flags; /* Some mgx_weight_flags. */
  const char *sha256; /* In hexadecimal: equal weights are the same memory on a GPU. NULL: alone. */
} mgx_weight;

typedef struct mgx_code {
  const char *record; /* As the manifest of an artifact has it. */
  const void *data;
  uint64_t bytes;
} mgx_code;

/* The parts of a program, whose records docs/artifact.md describes, as canonical JSON. */
typedef struct mgx_assembly {
  size_t struct_bytes;
  const char *plan;
  const mgx_code *code; /* One a kernel, all for one target. */
  size_t code_count;
  const mgx_weight *weights;
  size_t weight_count;
} mgx_assembly;

/* An artifact of parts in memory, which outlive it and its programs. The caller vouches for the
   code: a program of it needs no consent, and runs it on any device. That parts fit together is
   checked; hashes are not. */
MGX_API mgx_error *mgx_artifact_assemble(const mgx_assembly *assembly, mgx_artifact **artifact);

/* Whether a plan points into what it has, and, where `check_code` is 1, gives the code, whose
   `data` may be NULL here, the memory that it touches: for the plan's own sizes, or some of
   symbolic ones. */
MGX_API mgx_error *mgx_artifact_check(const mgx_assembly *assembly, int32_t check_code);

typedef void (*mgx_text_function)(void *user, const char *text);

/* The plan of a run of these sizes, as the manifest of an artifact has one. */
MGX_API mgx_error *mgx_program_plan(mgx_program *program, const mgx_tensor *inputs,
                                    size_t input_count, mgx_text_function function, void *user);

/* The figures of a GPU for estimates of time. */
typedef struct mgx_rates {
  size_t struct_bytes;
  double bytes_per_second;
  double flops_per_second;
  double compute_units;
} mgx_rates;

/* The program for inputs of these sizes as an executor on a GPU of these rates needs it, in JSON:
   "steps", the launches and copies in order, [step, kernel (-1: a copy), function, grid, block,
   pointers, node, bytes of a copy, 1 where it fills a row] each, and a pointer [memory, offset or
   number, bytes]; "parts", the order they run in, sections [first, end] between decisions;
   "schedules", of each section for which several streams pay [its first step, the steps that each
   waits for, the stream of each]; "arena" and "scratch" bytes, with "counts" 1 where
   scratch ends with counters, which begin with 0; and the "plan" where its sizes are
   symbolic. Weights and code may be without data. */
MGX_API mgx_error *mgx_artifact_bind(const mgx_artifact *artifact, const mgx_tensor *inputs,
                                     size_t input_count, const mgx_rates *rates,
                                     mgx_text_function function, void *user);

/* The address of a function of code for this process's CPU, which stays loaded while the code
   is held. */
typedef struct mgx_loaded mgx_loaded;
MGX_API mgx_error *mgx_code_load(const void *data, size_t bytes, mgx_loaded **code);
MGX_API mgx_error *mgx_code_function(const mgx_loaded *code, const char *name, void **function);
MGX_API void mgx_code_release(mgx_loaded *code);

#ifdef __cplusplus
}
#endif

#endif /* MGX_H */
