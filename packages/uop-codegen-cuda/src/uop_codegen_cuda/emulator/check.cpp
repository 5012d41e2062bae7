/* A kernel that is checked: what the scheduler tells, what Python asks, and what the compiler calls. Week 8.

Each load and store of a kernel compiled with -fsanitize=thread calls a function here, in place of a
library's. */
#include <link.h>

static std::string answer;

/* What the scheduler tells. */
static void check_block(void)
{
    block_number++;
    phase++;
}

static void check_block_end(void) { settle_block(); }

/* All threads that have not ended wait at barriers. */
static void check_barrier(unsigned ended)
{
    unsigned first = 0;
    for (unsigned i = count; i-- > 0;)
        if (threads[i].state == AT_BARRIER)
            first = i;
    current = first;
    emu_thread = threads[first].place;
    const unsigned line = threads[first].line;
    if (ended > 0)
        report("barrier", 0, line, "is reached by %u threads; %u have ended", count - ended, ended);
    for (unsigned i = 0; i < count; i++)
        if (threads[i].state == AT_BARRIER && threads[i].line != line) {
            report("barrier", 0, line, "is reached by some threads, while others wait at line %u", threads[i].line);
            break;
        }
    phase++;
}

/* Lanes of a warp go on together. */
static void check_meeting(unsigned begin, unsigned mask)
{
    unsigned line = 0;
    bool barrier = false;
    for (unsigned lane = 0; lane < WARP && begin + lane < count; lane++) {
        const Thread &t = threads[begin + lane];
        if (!(mask >> lane & 1) || t.state != AT_WARP)
            continue;
        if (line != 0 && t.line != line)
            report("barrier", 0, line, "is reached by some lanes of a warp, while others wait at line %u", t.line);
        line = t.line;
        barrier |= t.barrier;
    }
    if (barrier)
        warp_phases[begin / WARP]++;
}

static void check_stuck(unsigned waiting)
{
    current = waiting;
    emu_thread = threads[waiting].place;
    report("barrier", 0, threads[waiting].line, "waits for lanes %#x of its warp, and not all of them come",
           threads[waiting].mask);
}

static void check_lanes(unsigned mask, unsigned lane, unsigned line)
{
    if (!(mask >> current % WARP & 1))
        report("mask", 0, line, "a mask of %#x, which does not name lane %u that calls", mask, current % WARP);
    if (!(mask >> lane & 1))
        report("mask", 0, line, "the value of lane %u, which the mask %#x does not name", lane, mask);
}

/* A lane that is not there has no value, nor one that has ended; and groups of lanes are powers of two. */
static void check_source(unsigned lane, int width, unsigned line)
{
    const unsigned place = current / WARP * WARP + lane;
    if (place >= count)
        report("mask", 0, line, "the value of lane %u, in a warp of %u lanes", lane, count % WARP);
    else if (threads[place].state == DONE)
        report("mask", 0, line, "the value of lane %u, which has ended", lane);
    if (width < 1 || width > WARP || (width & (width - 1)))
        report("mask", 0, line, "groups of %d lanes, which is no power of two up to %d", width, WARP);
}

/* Lanes that multiply tiles together: a lane that gives none has not come to this instruction. */
static void check_tiles(unsigned lane, unsigned given, unsigned line)
{
    const unsigned place = current / WARP * WARP + lane;
    if (place >= count)
        report("mask", 0, line, "the tile of lane %u, in a warp of %u lanes", lane, count % WARP);
    else if (threads[place].given < given)
        report("mask", 0, line, "the tile of lane %u, which has ended", lane);
}

extern "C" void emu_atomic(int begins) { in_atomic = begins != 0; }

/* What Python asks. */
static int find_image(struct dl_phdr_info *info, size_t, void *inside)
{
    uintptr_t end = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            const uintptr_t stops = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
            end = stops > end ? stops : end;
        }
    if ((uintptr_t)inside < info->dlpi_addr || (uintptr_t)inside >= end)
        return 0;
    image = info->dlpi_addr;
    image_end = end;
    return 1;
}

extern "C" void emu_check_begin(void *function)
{
    regions.clear();
    findings.clear();
    known.clear();
    costs.clear();
    shared_begin = shared_end_ = 0;
    in_atomic = false;
    dl_iterate_phdr(find_image, function);
    checking = true;
}

extern "C" void emu_check_memory(const char *name, uintptr_t begin, uintptr_t size)
{
    regions.push_back(Region{name, begin, size, false, std::vector<Shadow>(size)});
}

extern "C" void emu_check_shared(const char *name, uintptr_t offset, uintptr_t size)
{
    regions.push_back(Region{name, image + offset, size, true, std::vector<Shadow>(size)});
}

static void check_shared_section(const char *begin, const char *end)
{
    shared_begin = (uintptr_t)begin;
    shared_end_ = (uintptr_t)end;
}

extern "C" const char *emu_check_findings(void)
{
    answer.clear();
    for (const std::string &finding : findings)
        answer += finding + "\n";
    return answer.c_str();
}

extern "C" const char *emu_check_costs(void)
{
    char row[200];
    answer.clear();
    for (const auto &[instruction, c] : costs) {
        snprintf(row, sizeof row, "%llx\t%s\t%s\t%llu\t%llu\t%llu\n", (unsigned long long)(instruction - image),
                 c.shared ? "shared" : "global", c.write ? "store" : "load", (unsigned long long)c.requests,
                 (unsigned long long)c.moved, (unsigned long long)c.ideal);
        answer += row;
    }
    return answer.c_str();
}

extern "C" void emu_check_end(void)
{
    checking = false;
    regions.clear();
}

/* What the compiler calls. */
#define HERE (uintptr_t) __builtin_return_address(0)
#define HOOKS(size) \
    extern "C" void __tsan_read##size(void *place) { access((uintptr_t)place, size, false, HERE); } \
    extern "C" void __tsan_write##size(void *place) { access((uintptr_t)place, size, true, HERE); } \
    extern "C" void __tsan_unaligned_read##size(void *place) { access((uintptr_t)place, size, false, HERE); } \
    extern "C" void __tsan_unaligned_write##size(void *place) { access((uintptr_t)place, size, true, HERE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" void __tsan_init(void) {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit(void) {}
/* A structure of another size, which a GPU would take in pieces. */
static void access_range(uintptr_t place, size_t size, bool write, uintptr_t instruction)
{
    const unsigned piece = (place | size) % BANK == 0 ? BANK : 1;
    for (size_t i = 0; i < size; i += piece)
        access(place + i, piece, write, instruction);
}

extern "C" void __tsan_read_range(void *place, size_t size) { access_range((uintptr_t)place, size, false, HERE); }
extern "C" void __tsan_write_range(void *place, size_t size) { access_range((uintptr_t)place, size, true, HERE); }
