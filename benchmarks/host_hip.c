// The HIP calls of a run of `count` launches, without a compiler or Python around them.
//
//     host_hip CODE_OBJECT FUNCTION COUNT RUNS plain|graph
//
// Prints the best and the median microseconds of a run: launches, then one synchronisation.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// As in hip_runtime_api.h, which this program does without.
typedef void *handle;
typedef struct { uint32_t x, y, z; } dim3;
typedef struct {
  dim3 blockDim;
  void **extra;
  handle func;
  dim3 gridDim;
  void **kernelParams;
  unsigned sharedMemBytes;
} hipKernelNodeParams;
int hipMalloc(void **, size_t);
int hipModuleLoadData(handle *, const void *);
int hipModuleGetFunction(handle *, handle, const char *);
int hipStreamCreateWithFlags(handle *, unsigned);
int hipStreamSynchronize(handle);
int hipModuleLaunchKernel(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, handle, void **, void **);
int hipGraphCreate(handle *, unsigned);
int hipGraphAddKernelNode(handle *, handle, const handle *, size_t, const hipKernelNodeParams *);
int hipGraphInstantiateWithFlags(handle *, handle, unsigned long long);
int hipGraphLaunch(handle, handle);

static void check(int code, const char *what) {
  if (code == 0) return;
  fprintf(stderr, "%s failed: %d\n", what, code);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) exit(2);
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  void *data = malloc(size);
  if (fread(data, 1, size, file) != (size_t)size) exit(2);
  fclose(file);
  return data;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  int count = atoi(argv[3]), runs = atoi(argv[4]), replay = strcmp(argv[5], "graph") == 0;
  handle module, function, stream, graph, executable, before = NULL;
  check(hipModuleLoadData(&module, read_file(argv[1])), "hipModuleLoadData");
  check(hipModuleGetFunction(&function, module, argv[2]), "hipModuleGetFunction");
  check(hipStreamCreateWithFlags(&stream, 1), "hipStreamCreateWithFlags");
  void *memory[2];
  for (int i = 0; i < 2; ++i) check(hipMalloc(&memory[i], 4096), "hipMalloc");
  void *arguments[2] = {&memory[0], &memory[1]};
  if (replay) {
    check(hipGraphCreate(&graph, 0), "hipGraphCreate");
    hipKernelNodeParams params = {{64, 1, 1}, NULL, function, {1, 1, 1}, arguments, 0};
    for (int i = 0; i < count; ++i) {
      handle node;
      check(hipGraphAddKernelNode(&node, graph, &before, i > 0, &params), "hipGraphAddKernelNode");
      before = node;
    }
    check(hipGraphInstantiateWithFlags(&executable, graph, 0), "hipGraphInstantiateWithFlags");
  }
  double *times = malloc(runs * sizeof *times);
  for (int run = 0; run < runs; ++run) {
    double start = now();
    if (replay)
      check(hipGraphLaunch(executable, stream), "hipGraphLaunch");
    else
      for (int i = 0; i < count; ++i)
        check(hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments, NULL),
              "hipModuleLaunchKernel");
    check(hipStreamSynchronize(stream), "hipStreamSynchronize");
    times[run] = now() - start;
  }
  qsort(times, runs, sizeof *times, compare);
  printf("%.3f %.3f\n", times[0], times[runs / 2]);
  return 0;
}
