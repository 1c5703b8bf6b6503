// Kernels of the API tests. Compiled for the device only, without any header.
#define GLOBAL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))

static inline DEVICE unsigned group() { return __builtin_amdgcn_workgroup_id_x(); }
static inline DEVICE unsigned item() { return __builtin_amdgcn_workitem_id_x(); }
static inline DEVICE unsigned index() { return group() * __builtin_amdgcn_workgroup_size_x() + item(); }

// Waits for the group's work-items, and for what they wrote.
static inline DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

struct Mixed {
  char flag;
  double weight;
  short offset;
};

extern "C" DEVICE int counter = 7;
extern "C" DEVICE float table[4] = {1, 2, 3, 4};

GLOBAL add_value(float* out, int n, float value) {
  if (index() < (unsigned)n) out[index()] += value;
}

GLOBAL axpy(float* y, const float* x, float a, int n) {
  if (index() < (unsigned)n) y[index()] += a * x[index()];
}

// Every kind of alignment among the arguments.
GLOBAL mixed(double* out, char a, short b, int c, long long d, float e, Mixed f) {
  if (index() == 0) {
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = (double)d;
    out[4] = e;
    out[5] = f.flag;
    out[6] = f.weight;
    out[7] = f.offset;
  }
}

// The hidden arguments, as the launch set them.
GLOBAL shape(unsigned* out) {
  unsigned x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y(),
           z = __builtin_amdgcn_workgroup_id_z();
  if (x || y || z || __builtin_amdgcn_workitem_id_x() || __builtin_amdgcn_workitem_id_y() ||
      __builtin_amdgcn_workitem_id_z())
    return;
  out[0] = __builtin_amdgcn_workgroup_size_x();
  out[1] = __builtin_amdgcn_workgroup_size_y();
  out[2] = __builtin_amdgcn_workgroup_size_z();
  out[3] = __builtin_amdgcn_grid_size_x();
  out[4] = __builtin_amdgcn_grid_size_y();
  out[5] = __builtin_amdgcn_grid_size_z();
}

GLOBAL mark(unsigned* out, int n) {
  if (index() < (unsigned)n) out[index()] = index() + 1;
}

GLOBAL bump_counter(int* seen) {
  if (index() == 0) seen[0] = counter++;
}

GLOBAL read_table(float* out) {
  if (item() < 4) out[item()] = table[item()];
}

extern SHARED float dynamic_lds[];
GLOBAL reverse_in_lds(float* data, int n) {
  dynamic_lds[item()] = data[item()];
  barrier();
  data[item()] = dynamic_lds[n - 1 - item()];
}

__attribute__((amdgpu_flat_work_group_size(1, 64))) GLOBAL small_blocks(int* out) {
  if (index() == 0) out[0] = 1;
}

GLOBAL static_lds(int* out) {
  SHARED static int buffer[1024];
  buffer[item()] = (int)item();
  barrier();
  out[item()] = buffer[1023 - item()];
}

GLOBAL nothing() {}

GLOBAL store_at(float* out, long long offset) {
  if (index() == 0) out[offset] = 1.0f;
}

GLOBAL spin_forever(int* flag) {
  while (__atomic_load_n(flag, __ATOMIC_RELAXED) == 0) {
  }
}

GLOBAL trap_now() { __builtin_trap(); }

GLOBAL count(int* total) { __atomic_fetch_add(total, 1, __ATOMIC_RELAXED); }

// The factor is the same for all: a scalar load.
GLOBAL scaled(float* y, const float* __restrict__ factor) { y[index()] *= factor[0]; }

// The group that counts last of `most + 1` adds what all wrote.
GLOBAL add_last(unsigned* counter, int* parts, int* sum, unsigned most) {
  parts[item() + 64 * group()] = (int)group();
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  unsigned before = 0;
  if (item() == 0)
    before = __builtin_amdgcn_atomic_inc32(counter, most, __ATOMIC_RELAXED, "agent");
  if (__builtin_amdgcn_readfirstlane(before) != most) return;
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
  int total = 0;
#pragma unroll 1
  for (unsigned i = 0; i <= most; ++i) total += ((volatile int*)parts)[item() + 64 * i];
  sum[item()] = total;
}
