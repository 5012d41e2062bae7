/* What the text of a CUDA kernel stands on where it is C++ for a CPU: words, indices, barriers, shuffles,
vectors. Week 7. */
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("gpu_shared"), used))
#define __int_as_float(bits) __builtin_bit_cast(float, bits)
#define __float_as_int(x) __builtin_bit_cast(int, x)

typedef struct { unsigned x, y, z; } dim3;
typedef dim3 uint3;
struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
static inline float2 make_float2(float x, float y) { return float2{x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return int2{x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return int4{x, y, z, w}; }

extern "C" {
float sqrtf(float), truncf(float), fmaf(float, float, float), fmodf(float, float), copysignf(float, float);
float expf(float), exp2f(float), logf(float), log2f(float), sinf(float), cosf(float), tanhf(float), fabsf(float);
float fmaxf(float, float), fminf(float, float), floorf(float);
double sqrt(double), trunc(double), fma(double, double, double), fmod(double, double), copysign(double, double);
void *memcpy(void *, const void *, decltype(sizeof 0)) noexcept;
/* The thread that runs, and the launch. */
extern dim3 emu_thread, emu_block, emu_block_size, emu_grid_size;
void emu_barrier(unsigned line);
void emu_warp_barrier(unsigned mask, unsigned line);
unsigned emu_lane(void);
/* All lanes of the mask give a value; then each takes that of a lane, and none goes on before all have. */
void emu_give(const void *value, unsigned size, unsigned mask, unsigned line);
void emu_take(void *value, unsigned size, unsigned lane, int width, unsigned mask, unsigned line);
/* All lanes of a warp give their parts of tiles, of at most 96 bytes; then each looks at those of others. */
void emu_give_tiles(const void *parts, unsigned size, unsigned line);
const void *emu_tiles(unsigned lane, unsigned line);
unsigned emu_ballot(int predicate, unsigned mask, unsigned line);
void emu_atomic(int begins);
const char *emu_launch(void (*kernel)(void *const *), void *const *args, const long long *launch,
                       char *shared, char *shared_end);
extern char __start_gpu_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_gpu_shared[] __attribute__((weak, visibility("hidden")));
}

#define threadIdx emu_thread
#define blockIdx emu_block
#define blockDim emu_block_size
#define gridDim emu_grid_size
#define warpSize 32
#define EMU_LINE unsigned line = __builtin_LINE()

static inline void __syncthreads(EMU_LINE) { emu_barrier(line); }
static inline void __syncwarp(unsigned mask = ~0u, EMU_LINE) { emu_warp_barrier(mask, line); }
static inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_LINE) { return emu_ballot(predicate, mask, line); }
static inline int __any_sync(unsigned mask, int predicate, EMU_LINE) { return emu_ballot(predicate, mask, line) != 0; }
static inline int __all_sync(unsigned mask, int predicate, EMU_LINE) { return emu_ballot(!predicate, mask, line) == 0; }
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
template <class T> static inline T __ldg(const T *place) { return *place; }

/* A group of `width` lanes begins at a multiple of it; a lane that looks past its group gets its own value. */
template <class T> static inline T emu_exchange(unsigned mask, T value, int lane, int width, unsigned line)
{
    T found;
    emu_give(&value, sizeof value, mask, line);
    emu_take(&found, sizeof found, lane, width, mask, line);
    return found;
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMU_LINE)
{
    return emu_exchange(mask, value, ((int)emu_lane() & ~(width - 1)) | (lane & (width - 1)), width, line);
}

template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, EMU_LINE)
{
    const int self = (int)emu_lane(), from = self - (int)by;
    return emu_exchange(mask, value, from < (self & ~(width - 1)) ? self : from, width, line);
}

template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, EMU_LINE)
{
    const int self = (int)emu_lane(), from = self + (int)by;
    return emu_exchange(mask, value, from > (self | (width - 1)) ? self : from, width, line);
}

template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMU_LINE)
{
    const int self = (int)emu_lane(), from = self ^ bits;
    return emu_exchange(mask, value, from > (self | (width - 1)) ? self : from, width, line);
}

/* Products of tiles, as mma.sync computes them: a of 16 x K, b of K x 8, c of 16 x 8, K = 8 * W. Lane 4 * g + q has
W neighbours in each 32 bits of a register: of a in rows g and g + 8, of b in column g, of c in columns 2 * q and
2 * q + 1. Terms are added one after another; a tensor core adds them in an order, and rounds, as it likes. */
template <int W, class S, class A, class B, class C>
__attribute__((no_sanitize("thread"), noinline))
static C emu_mma(A a, B b, C c, S (*widen)(decltype(a.at[0] + 0)), unsigned line)
{
    S mine[6][W]; /* row g, row g + 8, column g; of each the first half of the terms, then the second */
    for (int i = 0; i < 4 * W; i++)
        mine[i / W % 2 * 2 + i / W / 2][i % W] = widen(a.at[i]);
    for (int i = 0; i < 2 * W; i++)
        mine[4 + i / W][i % W] = widen(b.at[i]);
    emu_give_tiles(mine, sizeof mine, line);
    const int row = (int)emu_lane() / 4 * 4, column = (int)emu_lane() % 4 * 8;
    typedef const S (*Given)[W];
    Given rows[4], columns[2][4];
    for (int q = 0; q < 4; q++) {
        rows[q] = (Given)emu_tiles(row + q, line);
        columns[0][q] = (Given)emu_tiles(column + q, line);
        columns[1][q] = (Given)emu_tiles(column + 4 + q, line);
    }
    S sums[4] = {(S)c.at[0], (S)c.at[1], (S)c.at[2], (S)c.at[3]};
    for (int half = 0; half < 2; half++)
        for (int q = 0; q < 4; q++)
            for (int k = 0; k < W; k++) {
                const S upper = rows[q][half][k], lower = rows[q][2 + half][k];
                const S left = columns[0][q][4 + half][k], right = columns[1][q][4 + half][k];
                sums[0] += upper * left;
                sums[1] += upper * right;
                sums[2] += lower * left;
                sums[3] += lower * right;
            }
    for (int i = 0; i < 4; i++)
        c.at[i] = sums[i];
    return c;
}

/* Elements as what they are added up in: of f16 and bf16 the bits are given, and tf32 leaves 13 bits of an f32 out. */
static inline float emu_f16(int bits)
{
    const int rest = bits & 0x7fff;
    const float size = rest < 0x400 ? (float)rest * 0x1p-24f
                                    : __int_as_float((rest << 13) + (rest < 0x7c00 ? 0x38000000 : 0x70000000));
    return copysignf(size, bits & 0x8000 ? -1.0f : 1.0f);
}
static inline float emu_bf16(int bits) { return __int_as_float(bits << 16); }
static inline float emu_tf32(float x) { return __int_as_float(__float_as_int(x) & ~0x1fff); }
static inline unsigned emu_s8(int x) { return (unsigned)x; }

#define EMU_MMA(name, W, widen) \
    template <class A, class B, class C> static inline C name(A a, B b, C c, EMU_LINE) \
    { \
        return emu_mma<W>(a, b, c, widen, line); \
    }
EMU_MMA(mma_m16n8k16_f16, 2, emu_f16)
EMU_MMA(mma_m16n8k16_bf16, 2, emu_bf16)
EMU_MMA(mma_m16n8k8_tf32, 1, emu_tf32)
EMU_MMA(mma_m16n8k32_s8, 4, emu_s8)

/* Atomic operations: one thread runs at a time, so that each is a plain one that says what it is. */
#define EMU_ATOMIC(name, result) \
    template <class T> static inline T name(T *place, T value) \
    { \
        emu_atomic(1); \
        const T old = *place; \
        *place = result; \
        emu_atomic(0); \
        return old; \
    }
EMU_ATOMIC(atomicAdd, old + value)
EMU_ATOMIC(atomicMax, old < value ? value : old)
EMU_ATOMIC(atomicMin, value < old ? value : old)
EMU_ATOMIC(atomicExch, value)

/* A kernel of any parameters, its arguments given as a driver takes them: a pointer to each. */
template <unsigned... I> struct emu_places {};
template <class... T, unsigned... I>
__attribute__((no_sanitize("thread")))
static inline void emu_call(void (*kernel)(T...), void *const *args, emu_places<I...>)
{
    kernel(*(T *)args[I]...);
}

template <class... T> static inline void emu_call(void (*kernel)(T...), void *const *args)
{
    emu_call(kernel, args, emu_places<__integer_pack(sizeof...(T))...>{});
}
