// What the upload stage computes on a GPU. `convert/cpu.rs` is the reference: the same bits.
//
// Ships as PTX, so that a user needs no compiler: `tests/cuda_kernels.rs` compiles this file again and compares, and says
// how to write `kernels.ptx` anew. Parameters are the structures of `kernels.rs`, field by field.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// 16-bit results are bits of their own types here, so that no header is needed.
struct f16 { u16 bits; };
struct bf16 { u16 bits; };

template <typename T> struct Four;
template <> struct __align__(16) Four<float> { float of[4]; };
template <> struct __align__(8) Four<f16> { f16 of[4]; };
template <> struct __align__(8) Four<bf16> { bf16 of[4]; };
template <> struct __align__(4) Four<u8> { u8 of[4]; };
template <> struct __align__(4) Four<signed char> { signed char of[4]; };
template <> struct __align__(8) Four<u16> { u16 of[4]; };
template <> struct __align__(8) Four<short> { short of[4]; };

// Rounds to the nearest, ties to even.
template <typename T> __device__ T round_to(float number);
template <> __device__ float round_to<float>(float number) { return number; }
template <> __device__ f16 round_to<f16>(float number) {
    f16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(number));
    return result;
}
template <> __device__ bf16 round_to<bf16>(float number) {
    // An instruction does it from compute capability 8.0 on; the arithmetic is free where memory is the limit.
    u32 bits = __float_as_uint(number);
    bf16 result;
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    result.bits = is_nan ? (u16)((bits >> 16) | 0x40u) : (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    return result;
}

struct Image {
    const u8 *input;
    // One byte an image: not 0 mirrors it. Null for none.
    const u8 *flags;
    void *output;
    u32 images, height, width, channels;
    // 0: one plane a channel; 1: channels side by side.
    u32 from_interleaved, to_interleaved;
    float scale[4];
    float bias[4];
};

// A thread takes four pixels of a row, in all channels: whole words in, and 16 or 8 bytes at a time out.
template <typename T, int CHANNELS> __device__ void image_of(const Image &p) {
    const u32 groups = (p.width + 3) / 4;
    const u32 total = p.images * p.height * groups;
    const bool whole = p.width % 4 == 0;
    T *output = (T *)p.output;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (u64)gridDim.x * blockDim.x) {
        const u32 row = (u32)at / groups;
        const u32 x = ((u32)at - row * groups) * 4;
        const u32 image = row / p.height;
        const u32 y = row - image * p.height;
        const bool flips = p.flags != 0 && p.flags[image] != 0;
        const u32 count = min(4u, p.width - x);

        u8 pixels[CHANNELS][4];
        if (whole) {
            const u32 start = flips ? p.width - 4 - x : x;
            if (p.from_interleaved) {
                const u32 *words = (const u32 *)(p.input + ((u64)row * p.width + start) * CHANNELS);
                u32 word[CHANNELS];
#pragma unroll
                for (int i = 0; i < CHANNELS; i++) word[i] = words[i];
#pragma unroll
                for (int i = 0; i < 4 * CHANNELS; i++) {
                    pixels[i % CHANNELS][i / CHANNELS] = (u8)(word[i / 4] >> (8 * (i % 4)));
                }
            } else {
#pragma unroll
                for (int c = 0; c < CHANNELS; c++) {
                    const u64 plane = (u64)image * CHANNELS + c;
                    const u32 word = *(const u32 *)(p.input + (plane * p.height + y) * p.width + start);
#pragma unroll
                    for (int i = 0; i < 4; i++) pixels[c][i] = (u8)(word >> (8 * i));
                }
            }
            if (flips) {
#pragma unroll
                for (int c = 0; c < CHANNELS; c++) {
                    u8 first = pixels[c][0], second = pixels[c][1];
                    pixels[c][0] = pixels[c][3];
                    pixels[c][1] = pixels[c][2];
                    pixels[c][2] = second;
                    pixels[c][3] = first;
                }
            }
        } else {
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const u32 column = flips ? p.width - 1 - (x + i) : x + i;
                    const u64 plane = (u64)image * CHANNELS + c;
                    const u64 from = p.from_interleaved ? ((u64)row * p.width + column) * CHANNELS + c
                                                        : (plane * p.height + y) * p.width + column;
                    pixels[c][i] = i < count ? p.input[from] : 0;
                }
            }
        }

        T numbers[CHANNELS][4];
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                numbers[c][i] = round_to<T>(fmaf((float)pixels[c][i], p.scale[c], p.bias[c]));
            }
        }

        if (p.to_interleaved) {
            T *to = output + ((u64)row * p.width + x) * CHANNELS;
            if (whole) {
#pragma unroll
                for (int part = 0; part < CHANNELS; part++) {
                    Four<T> four;
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        four.of[i] = numbers[(part * 4 + i) % CHANNELS][(part * 4 + i) / CHANNELS];
                    }
                    ((Four<T> *)to)[part] = four;
                }
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++) {
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++) {
                        if (i < count) to[i * CHANNELS + c] = numbers[c][i];
                    }
                }
            }
        } else {
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) {
                T *to = output + (((u64)image * CHANNELS + c) * p.height + y) * p.width + x;
                if (whole) {
                    Four<T> four;
#pragma unroll
                    for (int i = 0; i < 4; i++) four.of[i] = numbers[c][i];
                    *(Four<T> *)to = four;
                } else {
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        if (i < count) to[i] = numbers[c][i];
                    }
                }
            }
        }
    }
}

template <typename T> __device__ void image(const Image &p) {
    switch (p.channels) {
    case 1: image_of<T, 1>(p); break;
    case 2: image_of<T, 2>(p); break;
    case 3: image_of<T, 3>(p); break;
    case 4: image_of<T, 4>(p); break;
    }
}

// Element types of integers, by number.
enum { U8 = 0, I8 = 1, U16 = 2, I16 = 3, U32 = 4, I32 = 5, I64 = 6 };

struct Scale {
    const void *input;
    void *output;
    u64 count;
    u32 from;
    float scale, bias;
};

// A thread takes four numbers.
template <typename T, typename S> __device__ void scale_of(const Scale &p) {
    const S *input = (const S *)p.input;
    T *output = (T *)p.output;
    for (u64 at = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 4; at < p.count;
         at += (u64)gridDim.x * blockDim.x * 4) {
        if (at + 4 <= p.count) {
            const Four<S> values = *(const Four<S> *)(input + at);
            Four<T> four;
#pragma unroll
            for (int i = 0; i < 4; i++) four.of[i] = round_to<T>(fmaf((float)values.of[i], p.scale, p.bias));
            *(Four<T> *)(output + at) = four;
        } else {
            for (u64 i = at; i < p.count; i++) output[i] = round_to<T>(fmaf((float)input[i], p.scale, p.bias));
        }
    }
}

template <typename T> __device__ void scale(const Scale &p) {
    switch (p.from) {
    case U8: scale_of<T, u8>(p); break;
    case I8: scale_of<T, signed char>(p); break;
    case U16: scale_of<T, u16>(p); break;
    case I16: scale_of<T, short>(p); break;
    }
}

__device__ long long integer(const void *input, u32 type, u64 at) {
    switch (type) {
    case U8: return ((const u8 *)input)[at];
    case I8: return ((const signed char *)input)[at];
    case U16: return ((const u16 *)input)[at];
    case I16: return ((const short *)input)[at];
    case U32: return ((const u32 *)input)[at];
    case I32: return ((const int *)input)[at];
    default: return ((const long long *)input)[at];
    }
}

struct OneHot {
    const void *input;
    void *output;
    u64 count, classes;
    u32 from;
};

template <typename T> __device__ void one_hot(const OneHot &p) {
    const u64 total = p.count * p.classes;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (u64)gridDim.x * blockDim.x) {
        const u64 row = at / p.classes;
        const long long place = integer(p.input, p.from, row);
        const bool is_here = place >= 0 && (u64)place == at - row * p.classes;
        ((T *)p.output)[at] = round_to<T>(is_here ? 1.0f : 0.0f);
    }
}

struct Dense {
    const float *values;
    const void *indices;
    // One byte an entry: 0 leaves it out. Null for none.
    const u8 *mask;
    void *output;
    u64 rows, entries, columns;
    u32 index_type;
};

// A block takes a row: zeros first, then its entries.
template <typename T> __device__ void dense(const Dense &p) {
    for (u64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        T *output = (T *)p.output + row * p.columns;
        for (u64 column = threadIdx.x; column < p.columns; column += blockDim.x) output[column] = round_to<T>(0.0f);
        __syncthreads();
        for (u64 entry = threadIdx.x; entry < p.entries; entry += blockDim.x) {
            const u64 at = row * p.entries + entry;
            const long long column = integer(p.indices, p.index_type, at);
            const bool is_there = column >= 0 && (u64)column < p.columns && (p.mask == 0 || p.mask[at] != 0);
            if (is_there) output[column] = round_to<T>(p.values[at]);
        }
    }
}

#define KERNELS(NAME, TYPE)                                                                                            \
    extern "C" __global__ void ringfeed_image_##NAME(const Image p) { image<TYPE>(p); }                                \
    extern "C" __global__ void ringfeed_scale_##NAME(const Scale p) { scale<TYPE>(p); }                                \
    extern "C" __global__ void ringfeed_one_hot_##NAME(const OneHot p) { one_hot<TYPE>(p); }                           \
    extern "C" __global__ void ringfeed_dense_##NAME(const Dense p) { dense<TYPE>(p); }

KERNELS(f32, float)
KERNELS(f16, f16)
KERNELS(bf16, bf16)
