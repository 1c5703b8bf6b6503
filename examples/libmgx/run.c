/* Runs an artifact on a device, with raw files as tensors.
 *
 *   cc run.c -o run $(pkg-config --cflags --libs mgx)
 *   ./run model.mgx cpu x=x.bin:2x24 -o results
 *
 * An input is NAME=FILE:SIZES; its file holds the elements in row-major order. Results are written
 * to the folder, one file each, and their sizes are printed. Code of the artifact runs where this
 * machine made it, a key that MGX_TRUST names signed it, or MGX_TRUST=all.
 */
#include <mgx.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static void check(mgx_error *error) {
  if (!error)
    return;
  fprintf(stderr, "run: %s\n", mgx_error_text(error));
  exit(1);
}

static void stop(const char *what, const char *name) {
  fprintf(stderr, "run: %s %s\n", what, name);
  exit(2);
}

static void *read_file(const char *path, uint64_t *bytes) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0)
    stop("cannot read", path);
  long size = ftell(file);
  rewind(file);
  void *data = aligned_alloc(64, ((size_t)size / 64 + 1) * 64);
  if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
    stop("cannot read", path);
  fclose(file);
  *bytes = (uint64_t)size;
  return data;
}

/* The tensor of NAME=FILE:SIZES. */
static mgx_tensor read_tensor(char *file) {
  mgx_tensor tensor = {0};
  tensor.sizes = calloc(MGX_MOST_DIMENSIONS, sizeof *tensor.sizes);
  char *sizes = strrchr(file, ':');
  if (sizes) {
    *sizes++ = 0;
    while (*sizes && tensor.rank < MGX_MOST_DIMENSIONS) {
      tensor.sizes[tensor.rank++] = strtoll(sizes, &sizes, 10);
      if (*sizes)
        ++sizes; /* x */
    }
  }
  tensor.data = read_file(file, &tensor.bytes);
  tensor.memory = MGX_MEMORY_HOST;
  return tensor;
}

int main(int count, char **words) {
  const char *folder = ".";
  mgx_artifact *artifact;
  mgx_device *device;
  mgx_program *program;
  mgx_artifact_info info = {.struct_bytes = sizeof info};
  mgx_tensor inputs[MOST] = {{0}}, outputs[MOST] = {{0}};

  if (count < 3)
    stop("usage: run MODEL.mgx DEVICE NAME=FILE:SIZES... -o", "FOLDER");
  check(mgx_artifact_open(words[1], NULL, &artifact));
  check(mgx_device_open(words[2], NULL, &device));
  check(mgx_program_create(artifact, device, NULL, &program));
  check(mgx_artifact_get_info(artifact, &info));
  if (info.input_count > MOST || info.output_count > MOST)
    stop("too many tensors in", words[1]);

  for (int i = 3; i < count; ++i) {
    char *equals = strchr(words[i], '=');
    if (!strcmp(words[i], "-o") && i + 1 < count) {
      folder = words[++i];
      continue;
    }
    if (!equals)
      stop("no NAME=FILE:SIZES:", words[i]);
    *equals = 0;
    for (size_t k = 0; k < info.input_count; ++k) {
      mgx_tensor_info tensor = {.struct_bytes = sizeof tensor};
      check(mgx_artifact_tensor(artifact, MGX_INPUT, k, &tensor));
      if (!strcmp(tensor.name, words[i]))
        inputs[k] = read_tensor(equals + 1);
    }
  }

  for (size_t k = 0; k < info.output_count; ++k)
    outputs[k].sizes = calloc(MGX_MOST_DIMENSIONS, sizeof *outputs[k].sizes);
  check(mgx_program_sizes(program, inputs, info.input_count, outputs, info.output_count, NULL));
  for (size_t k = 0; k < info.output_count; ++k)
    outputs[k].data = aligned_alloc(64, (outputs[k].bytes / 64 + 1) * 64);
  check(mgx_run(program, inputs, info.input_count, outputs, info.output_count, NULL));

  for (size_t k = 0; k < info.output_count; ++k) {
    mgx_tensor_info tensor = {.struct_bytes = sizeof tensor};
    char path[4096];
    check(mgx_artifact_tensor(artifact, MGX_OUTPUT, k, &tensor));
    snprintf(path, sizeof path, "%s/%s.bin", folder, tensor.name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(outputs[k].data, 1, outputs[k].bytes, file) != outputs[k].bytes)
      stop("cannot write", path);
    fclose(file);
    printf("%s:", tensor.name);
    for (uint32_t axis = 0; axis < outputs[k].rank; ++axis)
      printf("%c%" PRId64, axis ? 'x' : ' ', outputs[k].sizes[axis]);
    printf("\n");
  }
  mgx_program_release(program);
  mgx_device_release(device);
  mgx_artifact_release(artifact);
  return 0;
}
