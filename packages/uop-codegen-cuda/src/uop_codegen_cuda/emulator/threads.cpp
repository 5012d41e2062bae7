/* Blocks and threads of a GPU on one CPU thread: the order in which they run, barriers, and what a warp
exchanges. Week 7.

Blocks run one after the other. Where a kernel has a barrier or a shuffle, each thread of a block is a fiber
with a stack of its own, and runs to the next one; else a thread is a call. ucontext enters a fiber for the
first time; setjmp and longjmp, which make no system call, go to and fro from then on. */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

extern "C" {
dim3 emu_thread, emu_block, emu_block_size, emu_grid_size;
}

enum { THREADS = 1024, WARP = 32, STACK = 1 << 20, WORDS = 256 };
/* From one stack to the next. At a power of two, what all threads use of theirs would be in one set of each
cache, and a barrier took up to twice as long. */
enum { APART = STACK + 4096 + 5 * 64 };
enum State { READY, AT_BARRIER, AT_WARP, DONE };
enum Order { ASCENDING, DESCENDING, RANDOM };

struct Thread {
    jmp_buf context;
    dim3 place;
    State state;
    bool started, barrier;
    unsigned mask, line;       /* of the collective that it waits at */
    unsigned char value[16];   /* that it gives to its warp */
    alignas(16) unsigned char tiles[2][96]; /* its parts of tiles, of an instruction and of the one before it */
    unsigned given;            /* to how many instructions on tiles it has come */
};

static Thread threads[THREADS];
static unsigned current, count;
static jmp_buf scheduler;
static char *stacks;
static bool checking, stopped; /* the kernel is checked; it has done what ends it */
static void (*the_kernel)(void *const *);
static void *const *the_args;
static char said[WORDS];
static uint64_t random_state;

/* splitmix64 (Steele, Lea, Flood 2014) */
static unsigned draw(unsigned below)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (unsigned)((z ^ (z >> 31)) % below);
}

/* What is told to the checker, where a kernel is checked (check.cpp). */
static void check_shared_section(const char *begin, const char *end);
static void check_block(void);
static void check_block_end(void);
static void check_barrier(unsigned ended);
static void check_meeting(unsigned begin, unsigned mask);
static void check_lanes(unsigned mask, unsigned lane, unsigned line);
static void check_source(unsigned lane, int width, unsigned line);
static void check_tiles(unsigned lane, unsigned given, unsigned line);
static void check_stuck(unsigned waiting);

/* The numbers from 0 in an order. */
static void arrange(unsigned *numbers, unsigned n, int64_t order)
{
    for (unsigned i = 0; i < n; i++)
        numbers[i] = order == DESCENDING ? n - 1 - i : i;
    for (unsigned i = n; order == RANDOM && i > 1; i--) {
        const unsigned j = draw(i), kept = numbers[i - 1];
        numbers[i - 1] = numbers[j];
        numbers[j] = kept;
    }
}

static dim3 place_of(unsigned number, dim3 size)
{
    return dim3{number % size.x, number / size.x % size.y, number / size.x / size.y};
}

/* Fibers. */
static void leave(void)
{
    if (!_setjmp(threads[current].context))
        _longjmp(scheduler, 1);
}

static void finish_thread(void);

static void fiber(void)
{
    for (;;) {
        the_kernel(the_args);
        finish_thread();
        leave();
    }
}

static void run_fiber(unsigned number)
{
    current = number;
    emu_thread = threads[number].place;
    if (_setjmp(scheduler))
        return;
    if (threads[number].started)
        _longjmp(threads[number].context, 1);
    static ucontext_t first;
    threads[number].started = true;
    getcontext(&first);
    first.uc_stack.ss_sp = stacks + (size_t)number * APART;
    first.uc_stack.ss_size = STACK;
    first.uc_link = NULL;
    makecontext(&first, fiber, 0);
    setcontext(&first);
}

/* Lanes of a warp that wait for each other go on when all that the mask names are there; those that have
ended are not missed. */
static void release(unsigned mask)
{
    const unsigned begin = current / WARP * WARP;
    for (unsigned lane = 0; lane < WARP && begin + lane < count; lane++) {
        const Thread *t = &threads[begin + lane];
        if (mask >> lane & 1 && t->state != DONE && (t->state != AT_WARP || t->mask != mask))
            return;
    }
    if (checking)
        check_meeting(begin, mask);
    for (unsigned lane = 0; lane < WARP && begin + lane < count; lane++)
        if (mask >> lane & 1 && threads[begin + lane].state == AT_WARP)
            threads[begin + lane].state = READY;
}

static void finish_thread(void)
{
    const unsigned begin = current / WARP * WARP;
    threads[current].state = DONE;
    for (unsigned i = begin; i < begin + WARP && i < count; i++)
        if (threads[i].state == AT_WARP)
            release(threads[i].mask);
}

static void meet(unsigned mask, unsigned line, bool barrier)
{
    Thread *self = &threads[current];
    self->state = AT_WARP;
    self->barrier = barrier;
    self->mask = mask;
    self->line = line;
    release(mask);
    if (self->state == AT_WARP)
        leave();
}

extern "C" void emu_barrier(unsigned line)
{
    threads[current].state = AT_BARRIER;
    threads[current].line = line;
    leave();
}

extern "C" unsigned emu_lane(void) { return current % WARP; }

extern "C" void emu_warp_barrier(unsigned mask, unsigned line)
{
    if (checking)
        check_lanes(mask, current % WARP, line);
    meet(mask, line, true);
}

extern "C" void emu_give(const void *value, unsigned size, unsigned mask, unsigned line)
{
    memcpy(threads[current].value, value, size);
    meet(mask, line, false);
}

extern "C" void emu_take(void *value, unsigned size, unsigned lane, int width, unsigned mask, unsigned line)
{
    lane %= WARP;
    if (checking) {
        check_lanes(mask, lane, line);
        check_source(lane, width, line);
    }
    memcpy(value, threads[current / WARP * WARP + lane].value, size);
    meet(mask, line, false);
}

/* A lane that gives its part for the next instruction leaves the last one alone, which others may still look
at: so it need not wait for them. */
extern "C" void emu_give_tiles(const void *parts, unsigned size, unsigned line)
{
    Thread *self = &threads[current];
    self->given++;
    memcpy(self->tiles[self->given % 2], parts, size);
    meet(~0u, line, false);
}

extern "C" const void *emu_tiles(unsigned lane, unsigned line)
{
    const unsigned given = threads[current].given;
    if (checking)
        check_tiles(lane, given, line);
    return threads[current / WARP * WARP + lane].tiles[given % 2];
}

extern "C" unsigned emu_ballot(int predicate, unsigned mask, unsigned line)
{
    unsigned found = 0;
    const int given = predicate != 0;
    emu_give(&given, sizeof given, mask, line);
    for (unsigned lane = 0; lane < WARP; lane++) {
        int one = 0;
        if (mask >> lane & 1 && current / WARP * WARP + lane < count)
            memcpy(&one, threads[current / WARP * WARP + lane].value, sizeof one);
        found |= (unsigned)one << lane;
    }
    meet(mask, line, false);
    return found;
}

/* Launch. */
static const char *stuck(unsigned waiting)
{
    const Thread *t = &threads[waiting];
    if (checking) {
        check_stuck(waiting);
        stopped = true;
        return NULL;
    }
    snprintf(said, sizeof said,
             "line %u: thread %u of block (%u, %u, %u) waits for lanes %#x of its warp, and not all of them come", t->line,
             waiting, emu_block.x, emu_block.y, emu_block.z, t->mask);
    return said;
}

/* All threads of a block, from barrier to barrier; what is wrong, or NULL. */
static const char *run_block(unsigned *numbers, int64_t order)
{
    unsigned done = 0;
    for (unsigned i = 0; i < count; i++) {
        threads[i].state = READY;
        threads[i].given = 0;
    }
    while (done < count) {
        bool ran = false;
        arrange(numbers, count, order);
        for (unsigned i = 0; i < count; i++) {
            if (threads[numbers[i]].state != READY)
                continue;
            ran = true;
            run_fiber(numbers[i]);
            if (stopped)
                return NULL;
            done += threads[numbers[i]].state == DONE;
        }
        if (ran)
            continue;
        for (unsigned i = 0; i < count; i++)
            if (threads[i].state == AT_WARP)
                return stuck(i);
        if (checking)
            check_barrier(done);
        for (unsigned i = 0; i < count; i++)
            if (threads[i].state == AT_BARRIER)
                threads[i].state = READY;
    }
    return NULL;
}

/* `launch`: the grid and the block in x, y, z; order, seed, whether threads need fibers. What is wrong, or
NULL. Shared memory begins as NaN, or -1. */
extern "C" const char *emu_launch(void (*kernel)(void *const *), void *const *args, const long long *launch,
                                  char *shared, char *shared_end)
{
    emu_grid_size = dim3{(unsigned)launch[0], (unsigned)launch[1], (unsigned)launch[2]};
    emu_block_size = dim3{(unsigned)launch[3], (unsigned)launch[4], (unsigned)launch[5]};
    const int64_t order = launch[6];
    random_state = (uint64_t)launch[7];
    the_kernel = kernel;
    the_args = args;
    stopped = false;
    if (checking)
        check_shared_section(shared, shared_end);
    count = emu_block_size.x * emu_block_size.y * emu_block_size.z;
    for (unsigned i = 0; i < count; i++) {
        threads[i].place = place_of(i, emu_block_size);
        threads[i].started = false;
    }
    if (launch[8] && stacks == NULL) {
        void *found = mmap(NULL, (size_t)THREADS * APART, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED)
            return "no memory for the stacks of the threads";
        stacks = (char *)found;
    }
    const unsigned blocks = emu_grid_size.x * emu_grid_size.y * emu_grid_size.z;
    unsigned *block_numbers = (unsigned *)malloc(sizeof(unsigned) * blocks);
    static unsigned numbers[THREADS];
    if (block_numbers == NULL)
        return "no memory for the order of the blocks";
    arrange(block_numbers, blocks, order);
    const char *wrong = NULL;
    for (unsigned b = 0; b < blocks && wrong == NULL && !stopped; b++) {
        emu_block = place_of(block_numbers[b], emu_grid_size);
        if (shared != NULL)
            memset(shared, 0xff, (size_t)(shared_end - shared));
        if (launch[8]) {
            if (checking)
                check_block();
            wrong = run_block(numbers, order);
            if (checking)
                check_block_end();
            continue;
        }
        arrange(numbers, count, order);
        for (unsigned i = 0; i < count; i++) {
            emu_thread = threads[numbers[i]].place;
            kernel(args);
        }
    }
    free(block_numbers);
    return wrong;
}
