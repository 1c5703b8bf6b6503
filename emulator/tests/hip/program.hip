// A HIP program of any origin: what clang makes of host and device code in one file, with its
// own declarations in place of HIP's headers.
extern "C" int printf(const char*, ...);

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

typedef int hipError_t;
typedef struct ihipStream_t* hipStream_t;
struct dim3 {
  unsigned x, y, z;
  __attribute__((host)) __attribute__((device)) dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
};
extern "C" {
hipError_t hipMalloc(void**, unsigned long);
hipError_t hipFree(void*);
hipError_t hipMemcpy(void*, const void*, unsigned long, int);
hipError_t hipMemcpyToSymbol(const void*, const void*, unsigned long, unsigned long, int);
hipError_t hipMemcpyFromSymbol(void*, const void*, unsigned long, unsigned long, int);
hipError_t hipGetSymbolSize(unsigned long*, const void*);
hipError_t hipDeviceSynchronize();
hipError_t hipSetDevice(int);
hipError_t hipGetDeviceCount(int*);
hipError_t hipGetLastError();
hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, hipStream_t);
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int*, const void*, int, unsigned long);
unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, hipStream_t = 0);
unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, hipStream_t*);
}

__device__ float scale = 1.0f;

template <class T>
__global__ void scale_all(T* data, int n) {
  int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() +
          __builtin_amdgcn_workitem_id_x();
  if (i < n) data[i] = data[i] * (T)scale;
}

__global__ void sum(const float* data, float* out, int n) {
  __shared__ float part[64];
  int i = __builtin_amdgcn_workitem_id_x();
  float mine = 0;
  for (int k = i; k < n; k += 64) mine += data[k];
  part[i] = mine;
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  if (i) return;
  float all = 0;
  for (int k = 0; k < 64; ++k) all += part[k];
  *out = all;
}

#define CHECK(call)                                             \
  if (int error = (call)) {                                     \
    printf("line %d: error %d\n", __LINE__, error);             \
    return 1;                                                   \
  }

int main() {
  int devices = 0;
  CHECK(hipGetDeviceCount(&devices));
  for (int device = 0; device < devices; ++device) {
    CHECK(hipSetDevice(device));
    float host[1000], total = 0, factor = 2.5f, *data, *out;
    for (int i = 0; i < 1000; ++i) host[i] = float(i % 7);
    CHECK(hipMalloc((void**)&data, sizeof host));
    CHECK(hipMalloc((void**)&out, sizeof(float)));
    CHECK(hipMemcpy(data, host, sizeof host, 1));
    unsigned long size = 0;
    CHECK(hipGetSymbolSize(&size, (const void*)&scale));
    CHECK(hipMemcpyToSymbol((const void*)&scale, &factor, size, 0, 1));
    scale_all<float><<<dim3(4), dim3(256)>>>(data, 1000);
    CHECK(hipGetLastError());
    sum<<<dim3(1), dim3(64)>>>(data, out, 1000);
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpy(&total, out, sizeof total, 2));
    float expected = 0;
    for (int i = 0; i < 1000; ++i) expected += host[i] * factor;
    printf("device %d: %g %s\n", device, total, total == expected ? "right" : "wrong");
    sum<<<dim3(1), dim3(2048)>>>(data, out, 1000);
    printf("too large a block: %d\n", hipGetLastError());
    int blocks = 0;
    CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void*)sum, 64, 0));
    printf("blocks: %s\n", blocks > 0 ? "some" : "none");
    CHECK(hipFree(data));
    CHECK(hipFree(out));
  }
  return 0;
}
