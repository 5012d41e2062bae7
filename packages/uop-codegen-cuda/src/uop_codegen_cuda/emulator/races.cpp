/* What the accesses of a kernel do wrong: races, bounds, alignment, memory that nobody has written. Week 8.

For each byte there is a record of who wrote it last, and who has read it since: accesses of two threads to
one byte, one of them a write, race unless something orders them, in whatever order they have come here.
Barriers order the threads of a block, __syncwarp those of a warp, and nothing orders blocks. (Epochs in place
of vector clocks: Flanagan and Freund, FastTrack, 2009.) */
#include <set>
#include <stdarg.h>
#include <string>
#include <vector>

enum { FINDINGS = 1000, NEAR = 4096 };

/* When an access was: the block, and how many barriers of the block and of the warp had been. Blocks count
from 1. */
struct Access {
    uint32_t block, phase, warp_phase;
    uint16_t thread;
    bool atomic;
};

struct Shadow {
    Access write, read;
    bool lanes, warps, blocks; /* more than one of these has read */
};

struct Region {
    std::string name;
    uintptr_t begin, size;
    bool shared;
    std::vector<Shadow> shadow;
};

static std::vector<Region> regions;
static std::vector<std::string> findings;
static std::set<std::pair<std::string, uintptr_t>> known;
static uint32_t block_number, phase, warp_phases[THREADS / WARP];
static uintptr_t image, image_end, shared_begin, shared_end_;
static bool in_atomic;

/* A finding, once for each kind and place: the place is an instruction, or else a line. */
static void report(const char *kind, uintptr_t instruction, unsigned line, const char *format, ...)
{
    if (findings.size() == FINDINGS || !known.insert({kind, instruction ? instruction : line}).second)
        return;
    char words[400], whole[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof whole, "%s\t%llx\t%u\t%s [block (%u, %u, %u), thread (%u, %u, %u)]", kind,
             (unsigned long long)(instruction ? instruction - image : 0), line, words, emu_block.x, emu_block.y,
             emu_block.z, emu_thread.x, emu_thread.y, emu_thread.z);
    findings.push_back(whole);
}

/* A GPU ends the kernel here. */
[[noreturn]] static void stop(void)
{
    stopped = true;
    _longjmp(scheduler, 1);
}

static Access now(void)
{
    return Access{block_number, phase, warp_phases[current / WARP], (uint16_t)current, in_atomic};
}

/* Whether nothing orders an earlier access and one of the thread that runs. */
static bool unordered(const Access &earlier)
{
    if (earlier.block == 0 || (earlier.atomic && in_atomic))
        return false;
    if (earlier.block != block_number)
        return true;
    if (earlier.phase != phase || earlier.thread == current)
        return false;
    return earlier.thread / WARP != current / WARP || earlier.warp_phase == warp_phases[current / WARP];
}

static bool unordered_readers(const Shadow &s)
{
    if (s.read.block == 0)
        return false;
    if (s.blocks || s.read.block != block_number)
        return true;
    if (s.read.phase != phase)
        return false;
    if (s.warps || s.read.thread / WARP != current / WARP)
        return true;
    return s.read.warp_phase == warp_phases[current / WARP] && (s.lanes || s.read.thread != current);
}

static void note_read(Shadow &s)
{
    const Access last = s.read;
    const bool same_phase = last.block == block_number && last.phase == phase;
    const bool same_warp = same_phase && last.thread / WARP == current / WARP;
    const bool same_moment = same_warp && last.warp_phase == warp_phases[current / WARP];
    s.blocks |= last.block != 0 && last.block != block_number;
    s.warps = same_phase && (s.warps || !same_warp);
    s.lanes = same_moment && (s.lanes || last.thread != current);
    s.read = now();
}

static void check_race(Region &region, Shadow &s, uintptr_t byte, bool write, uintptr_t instruction)
{
    const char *between = "";
    const Access *other = NULL;
    if (unordered(s.write))
        other = &s.write;
    else if (write && unordered_readers(s))
        other = &s.read;
    if (other != NULL && other->block != block_number)
        between = " of another block";
    if (other != NULL)
        report(*between ? "race between blocks" : "race", instruction, 0,
               "%s byte %zu of %s, which thread %u%s has %s, and nothing orders them", write ? "writes" : "reads",
               (size_t)byte, region.name.c_str(), other->thread, between, other == &s.write ? "written" : "read");
    if (write)
        s.write = now();
    else if (!in_atomic)
        note_read(s);
}

/* Memory that is the thread's own or constant: its stack, its indices, the data of the compiled kernel. */
static bool is_private(uintptr_t place)
{
    const dim3 *indices[] = {&emu_thread, &emu_block, &emu_block_size, &emu_grid_size};
    for (const dim3 *i : indices)
        if (place >= (uintptr_t)i && place < (uintptr_t)(i + 1))
            return true;
    if (place >= (uintptr_t)stacks && place < (uintptr_t)stacks + (uintptr_t)THREADS * APART)
        return true;
    return place >= image && place < image_end && !(place >= shared_begin && place < shared_end_);
}

static void out_of_bounds(uintptr_t place, unsigned size, bool write, uintptr_t instruction)
{
    for (const Region &r : regions)
        if (place + NEAR >= r.begin && place < r.begin + r.size + NEAR) {
            report("out of bounds", instruction, 0, "%s %u bytes at byte %lld of %s, which has %zu; the kernel ends here",
                   write ? "writes" : "reads", size, (long long)(place - r.begin), r.name.c_str(), (size_t)r.size);
            stop();
        }
    report("out of bounds", instruction, 0, "%s %u bytes far from all memory that it was given; the kernel ends here",
           write ? "writes" : "reads", size);
    stop();
}

static void access(uintptr_t place, unsigned size, bool write, uintptr_t instruction)
{
    if (!checking)
        return;
    Region *region = NULL;
    for (Region &r : regions)
        if (place >= r.begin && place + size <= r.begin + r.size)
            region = &r;
    if (region == NULL) {
        if (!is_private(place))
            out_of_bounds(place, size, write, instruction);
        return;
    }
    if (place % size != 0) {
        report("misaligned", instruction, 0, "%s %u bytes at byte %zu of %s, at no multiple of %u; the kernel ends here",
               write ? "writes" : "reads", size, (size_t)(place - region->begin), region->name.c_str(), size);
        stop();
    }
    for (uintptr_t byte = place - region->begin; byte < place - region->begin + size; byte++) {
        Shadow &s = region->shadow[byte];
        if (region->shared && s.write.block != block_number && s.read.block != block_number)
            s = Shadow{};
        if (region->shared && !write && s.write.block == 0)
            report("uninitialised", instruction, 0, "reads byte %zu of %s, which nobody has written", (size_t)byte,
                   region->name.c_str());
        check_race(*region, s, byte, write, instruction);
    }
    count_access(place, size, write, region->shared, instruction);
}
