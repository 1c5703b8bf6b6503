// Time of a run by libmgx of an artifact with one input and one output, which lie on the device.
//
//     host_libmgx MODEL.mgx DEVICE BYTES RUNS plain|graph
//
// Prints the best and the median microseconds of a run, with its synchronisation.
#include <mgx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(mgx_error *error) {
  if (!error)
    return;
  fprintf(stderr, "%s\n", mgx_error_text(error));
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

int main(int argc, char **argv) {
  mgx_artifact *artifact;
  mgx_device *device;
  mgx_program *program;
  mgx_program_options options = {.struct_bytes = sizeof options, .trust_code = 1};
  mgx_tensor tensors[2] = {{0}};
  int64_t sizes[2][MGX_MOST_DIMENSIONS];
  if (argc != 6)
    return 2;
  int runs = atoi(argv[4]);
  options.graph = strcmp(argv[5], "graph") == 0 ? 0 : -1;
  check(mgx_artifact_open(argv[1], NULL, &artifact));
  check(mgx_device_open(argv[2], NULL, &device));
  check(mgx_program_create(artifact, device, &options, &program));
  for (int way = 0; way < 2; ++way) {
    mgx_tensor_info info = {.struct_bytes = sizeof info};
    check(mgx_artifact_tensor(artifact, (mgx_direction)way, 0, &info));
    memcpy(sizes[way], info.sizes, info.rank * sizeof(int64_t));
    tensors[way].sizes = sizes[way];
    tensors[way].rank = info.rank;
    tensors[way].memory = MGX_MEMORY_DEVICE;
    check(mgx_device_allocate(device, MGX_MEMORY_DEVICE, strtoull(argv[3], NULL, 10),
                              &tensors[way].data));
  }
  double *times = malloc((size_t)runs * sizeof *times);
  for (int run = 0; run < runs; ++run) {
    double start = now();
    check(mgx_run(program, &tensors[0], 1, &tensors[1], 1, NULL));
    times[run] = now() - start;
  }
  qsort(times, (size_t)runs, sizeof *times, compare);
  printf("%.3f %.3f\n", times[0], times[runs / 2]);
  mgx_program_release(program);
  mgx_device_release(device);
  mgx_artifact_release(artifact);
  return 0;
}
