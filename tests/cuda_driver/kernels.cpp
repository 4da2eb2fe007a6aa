// The kernels that ship, compiled for the processor: every thread of a launch runs, one after the other.
//
// Given: KERNEL_SOURCE, the path of `kernels.cu`. Wrong alignment and overflow trap (see the compiler's flags in `simulated.rs`).

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

using std::fmaf;

struct Index {
    unsigned x, y, z;
};
static thread_local Index threadIdx, blockIdx, blockDim, gridDim;
static void __syncthreads();

static unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }

static unsigned __float_as_uint(float number) {
    unsigned bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

// cvt.rn.f16.f32: to the nearest, ties to even; numbers below the smallest normal one keep the bits that fit.
static unsigned short to_f16(float number) {
    unsigned bits = __float_as_uint(number), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return 0x7fff;
    if (size >= 0x477ff000) return (unsigned short)(sign | 0x7c00);
    if (size < 0x38800000) return (unsigned short)(sign | (unsigned)std::nearbyint(std::fabs(number) * 16777216.0));
    return (unsigned short)(sign | ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13));
}

#define __global__
#define __device__
#define __align__(bytes) __attribute__((aligned(bytes)))
// The one instruction that the source writes by hand.
#define asm(...) result.bits = to_f16(number)
#include KERNEL_SOURCE
#undef asm

struct Kernel {
    const char *name;
    unsigned long long bytes;
    void (*thread)(const void *);
    bool has_barrier;
};

#define KERNEL(NAME, PARAM, HAS_BARRIER)                                                                               \
    { #NAME, sizeof(PARAM), [](const void *p) { NAME(*(const PARAM *)p); }, HAS_BARRIER }
#define KERNELS_TO(TYPE)                                                                                               \
    KERNEL(ringfeed_image_##TYPE, Image, false), KERNEL(ringfeed_scale_##TYPE, Scale, false),                          \
        KERNEL(ringfeed_one_hot_##TYPE, OneHot, false), KERNEL(ringfeed_dense_##TYPE, Dense, true)
static const Kernel ALL[] = {KERNELS_TO(f32), KERNELS_TO(f16), KERNELS_TO(bf16)};

// The threads of a block that meet at barriers: each has a stack of its own.
struct Block {
    const Kernel *kernel;
    const void *param;
    ucontext_t driver;
    std::vector<ucontext_t> threads;
    std::vector<std::vector<char>> stacks;
    std::vector<bool> has_ended;
};
static thread_local Block *meeting;

static void __syncthreads() {
    if (!meeting) {
        fputs("simulated CUDA driver: a barrier in a kernel that is not known to have one\n", stderr);
        abort();
    }
    swapcontext(&meeting->threads[threadIdx.x], &meeting->driver);
}

static void thread_of_block() {
    meeting->kernel->thread(meeting->param);
    meeting->has_ended[threadIdx.x] = true;
}

static void run_with_barriers(Block &block) {
    unsigned count = blockDim.x;
    block.threads.resize(count);
    block.stacks.resize(count, std::vector<char>(32 << 10));
    block.has_ended.assign(count, false);
    meeting = &block;
    for (unsigned i = 0; i < count; i++) {
        getcontext(&block.threads[i]);
        block.threads[i].uc_stack.ss_sp = block.stacks[i].data();
        block.threads[i].uc_stack.ss_size = block.stacks[i].size();
        block.threads[i].uc_link = &block.driver;
        makecontext(&block.threads[i], thread_of_block, 0);
    }
    for (unsigned ended = 0; ended < count;) {
        ended = 0;
        for (threadIdx.x = 0; threadIdx.x < count; threadIdx.x++) {
            swapcontext(&block.driver, &block.threads[threadIdx.x]);
            ended += block.has_ended[threadIdx.x];
        }
        if (ended != 0 && ended != count) {
            fputs("simulated CUDA driver: some threads of a block miss a barrier\n", stderr);
            abort();
        }
    }
    meeting = nullptr;
}

// The kernel of this name and its parameter's size; null if there is none.
extern "C" const void *simulated_kernel(const char *name, unsigned long long *bytes) {
    for (const Kernel &kernel : ALL) {
        if (strcmp(kernel.name, name) == 0) {
            *bytes = kernel.bytes;
            return &kernel;
        }
    }
    return nullptr;
}

extern "C" void simulated_run(const void *which, unsigned blocks, unsigned threads, const void *param) {
    const Kernel *kernel = (const Kernel *)which;
    Block block = {kernel, param, {}, {}, {}, {}};
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    threadIdx = {0, 0, 0};
    for (blockIdx = {0, 0, 0}; blockIdx.x < blocks; blockIdx.x++) {
        if (kernel->has_barrier) {
            run_with_barriers(block);
        } else {
            for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) kernel->thread(param);
        }
    }
}
