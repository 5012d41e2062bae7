/* What the accesses of a kernel cost: how much memory moves for each, and how little could. Week 8.

The lanes of a warp that execute an instruction together make one request: the n-th time that a thread comes
to an instruction goes with the n-th time of the others. A request to global memory moves sectors of 32 bytes;
one to shared memory takes as many wavefronts as the busiest of 32 banks, 4 bytes wide, has words, and lanes of
8 and 16 bytes come in halves and quarters of a warp. The ideal moves the bytes that were asked for, each once. */
#include <algorithm>
#include <map>
#include <unordered_map>

enum { SECTOR = 32, BANKS = 32, BANK = 4, LARGEST = 16 };

struct Cost {
    bool shared, write;
    unsigned size;
    uint64_t requests, moved, ideal;
};

struct Request {
    uint64_t instruction;
    uintptr_t place[WARP];
    uint32_t lanes;
};

static std::map<uintptr_t, Cost> costs;                   /* of an instruction */
static std::unordered_map<uint64_t, uint32_t> times;      /* that a thread has come to an instruction, in this block */
static std::unordered_map<uint64_t, Request> requests;    /* incomplete, of an instruction, warp and time */

/* How many units of memory some lanes touch; with banks, how many of them the busiest bank has. An access
lies within one unit, or is made of whole ones. */
static unsigned touched(const Request &request, unsigned size, unsigned from, unsigned lanes, unsigned unit, bool banks)
{
    uintptr_t units[WARP * LARGEST / BANK];
    unsigned n = 0, words[BANKS] = {}, busiest = 0;
    for (unsigned lane = from; lane < from + lanes; lane++)
        if (request.lanes >> lane & 1)
            for (uintptr_t place = request.place[lane]; place < request.place[lane] + size; place += unit)
                units[n++] = place / unit;
    std::sort(units, units + n);
    n = (unsigned)(std::unique(units, units + n) - units);
    for (unsigned i = 0; banks && i < n; i++)
        busiest = std::max(busiest, ++words[units[i] % BANKS]);
    return banks ? busiest : n;
}

static void settle(const Request &request)
{
    Cost &cost = costs[request.instruction];
    const unsigned most = cost.shared ? BANKS * BANK : SECTOR;
    const unsigned bytes = touched(request, cost.size, 0, WARP, cost.size, false) * cost.size;
    cost.requests++;
    cost.ideal += (bytes + most - 1) / most;
    if (!cost.shared)
        cost.moved += touched(request, cost.size, 0, WARP, SECTOR, false);
    const unsigned lanes = cost.size <= BANK ? (unsigned)WARP : WARP * BANK / cost.size;
    for (unsigned from = 0; cost.shared && from < WARP; from += lanes)
        cost.moved += touched(request, cost.size, from, lanes, BANK, true);
}

static void count_access(uintptr_t place, unsigned size, bool write, bool shared, uintptr_t instruction)
{
    Cost &cost = costs[instruction];
    cost.shared = shared;
    cost.write = write;
    cost.size = size;
    const unsigned warp = current / WARP, last = count - warp * WARP;
    const uint64_t key = (uint64_t)instruction << 10;
    const uint32_t time = times[key | current]++;
    const uint64_t group = (key | warp) * 0x9e3779b97f4a7c15 + time;
    Request &request = requests[group];
    request.instruction = instruction;
    request.place[current % WARP] = place;
    request.lanes |= 1u << current % WARP;
    if (request.lanes == (last >= WARP ? ~0u : (1u << last) - 1)) {
        settle(request);
        requests.erase(group);
    }
}

static void settle_block(void)
{
    for (const auto &request : requests)
        settle(request.second);
    requests.clear();
    times.clear();
}
