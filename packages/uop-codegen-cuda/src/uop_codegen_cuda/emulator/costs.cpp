/* What the accesses of a kernel cost: how much memory moves for each, and how little could. Week 8.

The lanes of a warp that execute an instruction together make one request: the n-th time that a thread comes to an
instruction goes with the n-th time of the others. A request to global memory moves sectors of 32 bytes; one to shared
memory takes as many rounds as the busiest of 32 banks, 4 bytes wide, has words, and lanes of 8 and 16 bytes come in
halves and quarters of a warp. The ideal moves the bytes that were asked for, each once. */
#include <map>
#include <set>
#include <string>
#include <unordered_map>

enum { SECTOR = 32, BANKS = 32, BANK = 4 };

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
static std::unordered_map<uint64_t, Request> requests;    /* that are not complete, of an instruction, a warp and a time */

/* Units of memory that some lanes touch, by what holds them: of sectors all in one, of words the bank. */
static std::map<uintptr_t, std::set<uintptr_t>> touched(const Request &request, unsigned size, unsigned from,
                                                        unsigned lanes, unsigned unit, unsigned holders)
{
    std::map<uintptr_t, std::set<uintptr_t>> found;
    for (unsigned lane = from; lane < from + lanes; lane++)
        if (request.lanes >> lane & 1)
            for (uintptr_t u = request.place[lane] / unit; u <= (request.place[lane] + size - 1) / unit; u++)
                found[u % holders].insert(u);
    return found;
}

static void settle(const Request &request)
{
    Cost &cost = costs[request.instruction];
    const size_t bytes = touched(request, cost.size, 0, WARP, 1, 1)[0].size();
    const unsigned most = cost.shared ? BANKS * BANK : SECTOR;
    cost.requests++;
    cost.ideal += (bytes + most - 1) / most;
    if (!cost.shared) {
        cost.moved += touched(request, cost.size, 0, WARP, SECTOR, 1)[0].size();
        return;
    }
    const unsigned lanes = cost.size <= BANK ? (unsigned)WARP : WARP * BANK / cost.size;
    for (unsigned from = 0; from < WARP; from += lanes) {
        size_t rounds = 0;
        for (const auto &bank : touched(request, cost.size, from, lanes, BANK, BANKS))
            rounds = bank.second.size() > rounds ? bank.second.size() : rounds;
        cost.moved += rounds;
    }
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
