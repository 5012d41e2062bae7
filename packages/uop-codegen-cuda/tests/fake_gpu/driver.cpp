// A driver of a GPU that is not there: what cuda.bindings asks libcuda.so.1 for, as far as the backend does.
//
// It takes nothing on trust: what a driver would refuse is an error, as there, and what it would not notice, a
// kernel that gets freed memory, is a problem that `fake_problems` tells. Memory is host memory that nobody can
// touch but copies and kernels, at addresses that are used once. What is put into a stream runs as late as it
// may: when somebody waits for it. A kernel that runs is the function that `fake_register` has given for its
// name; how many arguments it takes, and of which sizes, is read from the machine code of NVRTC.

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

enum Code {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY = 209, INVALID_HANDLE = 400, NOT_FOUND = 500,
    NOT_READY = 600, ILLEGAL_ADDRESS = 700
};

// All handles. None is deleted, so that one that has been destroyed is known; `era` counts resets.
struct Handle {
    std::string kind;
    int era;
    bool live = true;
};
struct Context : Handle {};
struct Stream : Handle {
    std::vector<std::function<Code()>> waiting;
};
struct Event : Handle {
    bool recorded = false, reached = false;
    double time = 0;
};
struct Param {
    unsigned ordinal, size;
};
struct Module : Handle {
    std::string image;
};
struct Function : Handle {
    Module *module;
    std::string name;
    std::vector<Param> params;
    unsigned threads = 1024, shared = 0, allowed;
};
struct Emulated {
    const char *(*function)(void *const *, const long long *);
    std::string kinds;  // of each argument: p a pointer, s a scalar
};
struct Launch {
    Function *function;
    unsigned grid[3], block[3], shared;
    std::vector<uint64_t> arguments;
};
struct Node : Handle {
    Launch launch;
    std::vector<Node *> before;
};
struct Graph : Handle {
    std::vector<Node *> nodes;
};
struct Executable : Handle {
    std::vector<Node *> nodes;
    std::map<Node *, Launch> launches;
    int waiting = 0;
};
// CUDA_KERNEL_NODE_PARAMS, version 2
struct NodeParams {
    Function *function;
    unsigned grid[3], block[3], shared;
    void **arguments, **extra;
    void *kernel, *context;
};

struct Memory {
    uint64_t size;
    bool freed = false;  // by a call; until the stream comes to it, it is there
};

constexpr uint64_t SPACE = 1ull << 36, PAGE = 4096, MARGIN = 512;
constexpr unsigned char CANARY = 0xA5, UNSET = 0xFF;
const std::map<std::string, long> DEFAULTS = {
    {"devices", 1}, {"driver", 13000}, {"major", 9}, {"minor", 0}, {"memory", 1 << 26}, {"pools", 1}};

int era = 0;
char *space = nullptr;
uint64_t used = 0;
std::map<std::string, long> settings = DEFAULTS;
std::map<uint64_t, Memory> memories;
std::vector<Handle *> handles;
std::map<std::string, Emulated> emulated;
std::map<std::string, std::pair<int, Code>> failures;
std::vector<std::string> calls, problems;
std::string answer;
Code lost = SUCCESS;
bool initialized = false;
double now = 0;
thread_local Context *current = nullptr;

template <class T> T *made(const char *kind)
{
    T *handle = new T;
    handle->kind = kind, handle->era = era;
    handles.push_back(handle);
    return handle;
}

void problem(const std::string &text) { problems.push_back(text); }

// What an injected failure says of a call, or of the run of a kernel.
Code failure(const std::string &name)
{
    auto found = failures.find(name);
    if (found == failures.end() || --found->second.first > 0)
        return SUCCESS;
    Code code = found->second.second;
    failures.erase(found);
    return code;
}

// Before each call: it is written down, and fails where it has to.
Code enter(const std::string &name, bool needs_context = true, const std::string &detail = "")
{
    calls.push_back(name + detail);
    if (Code code = failure(name))
        return code;
    if (name != "cuInit" && !initialized)
        return NOT_INITIALIZED;
    if (lost)
        return lost;
    if (needs_context && (!current || current->era != era))
        return INVALID_CONTEXT;
    return SUCCESS;
}

// Of a handle from before the last reset nobody wants to hear; one that was destroyed is a problem.
#define ENTER(...) if (Code code = enter(__VA_ARGS__)) return code
#define OLD(handle) if ((handle) && (handle)->era != era) return SUCCESS
#define LIVE(handle, name) \
    if (!(handle) || !(handle)->live) { problem(std::string(name) + " of what is no more"); return INVALID_HANDLE; }

std::map<uint64_t, Memory>::iterator memory_at(uint64_t address, uint64_t size)
{
    auto found = memories.upper_bound(address);
    if (found == memories.begin())
        return memories.end();
    --found;
    return address + size <= found->first + found->second.size ? found : memories.end();
}

uint64_t end_of(uint64_t size) { return (MARGIN + size) / PAGE * PAGE + 2 * PAGE; }

// Open memory for a copy or a kernel.
struct Opened {
    Opened() { if (used) mprotect(space, used, PROT_READ | PROT_WRITE); }
    ~Opened() { if (used) mprotect(space, used, PROT_NONE); }
};

void check_margins(const std::string &after)
{
    for (auto &[address, memory] : memories) {
        auto *start = (unsigned char *)address - MARGIN;
        auto *end = start + end_of(memory.size);
        auto wrong = [](unsigned char byte) { return byte != CANARY; };
        if (std::any_of(start, start + MARGIN, wrong) || std::any_of(start + MARGIN + memory.size, end, wrong)) {
            problem(after + " has written outside of memory");
            memset(start, CANARY, MARGIN);
            memset(start + MARGIN + memory.size, CANARY, end - start - MARGIN - memory.size);
        }
    }
}

Code run(const Launch &launch)
{
    Function &function = *launch.function;
    calls.push_back("run " + function.name);
    now += 1;
    if (Code code = failure("run"))
        return lost = code;
    if (!function.module->live)
        problem(function.name + " runs, and its module has been unloaded");
    auto found = emulated.find(function.name);
    if (found == emulated.end()) {
        problem("nothing is registered for " + function.name);
        return SUCCESS;
    }
    std::vector<uint64_t> arguments = launch.arguments;
    if (found->second.kinds.size() != arguments.size())
        problem(function.name + " takes " + std::to_string(arguments.size()) + " arguments");
    std::vector<void *> pointers;
    for (size_t i = 0; i < arguments.size(); i++) {
        pointers.push_back(&arguments[i]);
        if (found->second.kinds[i] == 'p' && memory_at(arguments[i], 1) == memories.end()) {
            problem(function.name + " runs with memory that is not there, argument " + std::to_string(i));
            return lost = ILLEGAL_ADDRESS;
        }
    }
    long long numbers[9] = {0, 0, 0, 0, 0, 0, 0, 1, 1};
    for (int i = 0; i < 3; i++)
        numbers[i] = launch.grid[i], numbers[3 + i] = launch.block[i];
    Opened opened;
    if (const char *wrong = found->second.function(pointers.data(), numbers))
        problem(function.name + ": " + wrong);
    check_margins(function.name);
    return SUCCESS;
}

Code finish(Stream *stream)
{
    auto waiting = std::move(stream->waiting);
    stream->waiting.clear();
    for (auto &work : waiting)
        if (Code code = work())
            return code;
    return SUCCESS;
}

Code check_launch(Function *function, const unsigned *grid, const unsigned *block, unsigned shared)
{
    uint64_t threads = 1ull * block[0] * block[1] * block[2];
    bool fits = grid[0] >= 1 && grid[0] <= 0x7fffffffu && block[2] <= 64 && threads >= 1;
    for (int i = 1; i < 3; i++)
        fits = fits && grid[i] >= 1 && grid[i] <= 65535;
    fits = fits && threads <= function->threads && shared + function->shared <= function->allowed;
    return fits ? SUCCESS : INVALID_VALUE;
}

// A launch with its arguments as they are now.
Code take_launch(Launch &launch, Function *function, const unsigned *grid, const unsigned *block, unsigned shared,
                 void **arguments, void **extra)
{
    LIVE(function, "launch");
    if (extra)
        return INVALID_VALUE;
    if (Code code = check_launch(function, grid, block, shared))
        return code;
    launch.function = function, launch.shared = shared;
    std::copy(grid, grid + 3, launch.grid), std::copy(block, block + 3, launch.block);
    launch.arguments.assign(function->params.size(), 0);
    for (const Param &param : function->params)
        memcpy(&launch.arguments[param.ordinal], arguments[param.ordinal], param.size);
    return SUCCESS;
}

std::string shown(const Function *function, const unsigned *grid, const unsigned *block, unsigned shared)
{
    std::string text = function ? " " + function->name : " nothing";
    for (const unsigned *sizes : {grid, block})
        for (int i = 0; i < 3; i++)
            text += (i ? " x " : " ") + std::to_string(sizes[i]);
    return text + " " + std::to_string(shared);
}

// The machine code of NVRTC is an ELF file: its sections by name.
template <class T> T read(const char *from) { T value; memcpy(&value, from, sizeof value); return value; }

std::map<std::string, std::string> sections(const std::string &image)
{
    std::map<std::string, std::string> found;
    const char *data = image.data(), *table = data + read<uint64_t>(data + 40);
    int count = read<uint16_t>(data + 60), names = read<uint16_t>(data + 62);
    auto offset = [&](int i) { return read<uint64_t>(table + 64 * i + 24); };
    for (int i = 0; i < count; i++) {
        uint64_t size = read<uint64_t>(table + 64 * i + 32);
        bool empty = read<uint32_t>(table + 64 * i + 4) == 8;  // SHT_NOBITS
        std::string name = data + offset(names) + read<uint32_t>(table + 64 * i);
        found[name] = empty ? std::string(size, '\0') : std::string(data + offset(i), size);
    }
    return found;
}

void read_attributes(Function *function, const std::string &info)
{
    for (size_t at = 0; at + 4 <= info.size();) {
        unsigned format = (unsigned char)info[at], attribute = (unsigned char)info[at + 1];
        unsigned size = format == 4 ? read<uint16_t>(&info[at + 2]) : 0;
        const char *value = info.data() + at + 4;
        if (format == 4 && attribute == 0x17)  // EIATTR_KPARAM_INFO
            function->params.push_back({read<uint16_t>(value + 4), read<uint32_t>(value + 8) >> 18});
        if (format == 4 && attribute == 0x05)  // EIATTR_MAX_THREADS
            function->threads = read<uint32_t>(value) * read<uint32_t>(value + 4) * read<uint32_t>(value + 8);
        at += 4 + size;
    }
}

}  // namespace

extern "C" {

// for the tests

void fake_reset()
{
    era++;
    if (used)
        madvise(space, used, MADV_DONTNEED);
    settings = DEFAULTS;
    memories.clear(), handles.clear(), failures.clear(), calls.clear(), problems.clear();
    lost = SUCCESS, initialized = false, current = nullptr, now = 0;
}

void fake_set(const char *name, long value) { settings[name] = value; }

// The call with this number, counted from 1, of a function fails, or, by the name `run`, the run of a kernel.
void fake_fail(const char *name, int number, int code) { failures[name] = {number, (Code)code}; }

void fake_register(const char *name, void *function, const char *kinds)
{
    emulated[name] = {(const char *(*)(void *const *, const long long *))function, kinds};
}

const char *fake_calls()
{
    answer.clear();
    for (auto &call : calls)
        answer += call + "\n";
    calls.clear();
    return answer.c_str();
}

const char *fake_problems()
{
    answer.clear();
    for (auto &text : problems)
        answer += text + "\n";
    problems.clear();
    return answer.c_str();
}

// What is there still, a line a kind with its count.
const char *fake_alive()
{
    std::map<std::string, int> counts;
    for (Handle *handle : handles)
        counts[handle->kind] += handle->live;
    for (auto &[address, memory] : memories)
        counts["memory"] += !memory.freed;
    answer.clear();
    for (auto &[kind, count] : counts)
        if (count)
            answer += kind + " " + std::to_string(count) + "\n";
    return answer.c_str();
}

// the driver

// NVRTC looks for this one by its name, and would then ask for tables inside of a driver. It compiles without.
Code cuInit(unsigned) { return NO_DEVICE; }

Code init(unsigned)
{
    ENTER("cuInit", false);
    if (!settings["devices"])
        return NO_DEVICE;
    initialized = true;
    return SUCCESS;
}

Code cuGetErrorString(Code code, const char **text)
{
    *text = code == INVALID_HANDLE ? "invalid resource handle" : "what the driver says";
    return SUCCESS;
}

Code cuDriverGetVersion(int *version)
{
    ENTER("cuDriverGetVersion", false);
    *version = settings["driver"];
    return SUCCESS;
}

Code cuDeviceGet(int *device, int number)
{
    ENTER("cuDeviceGet", false);
    *device = 40 + number;
    return number < settings["devices"] ? SUCCESS : INVALID_DEVICE;
}

Code cuDeviceGetName(char *name, int length, int device)
{
    ENTER("cuDeviceGetName", false);
    strncpy(name, "Fake GPU", length);
    return device == 40 ? SUCCESS : INVALID_DEVICE;
}

Code cuDeviceTotalMem(size_t *bytes, int)
{
    ENTER("cuDeviceTotalMem", false);
    *bytes = settings["memory"];
    return SUCCESS;
}

Code cuDeviceGetAttribute(int *value, int attribute, int)
{
    ENTER("cuDeviceGetAttribute", false);
    const std::map<int, long> values = {
        {75, settings["major"]}, {76, settings["minor"]}, {97, 227 * 1024}, {115, settings["pools"]}};
    auto found = values.find(attribute);
    if (found == values.end())
        return INVALID_VALUE;
    *value = found->second;
    return SUCCESS;
}

Code cuDevicePrimaryCtxRetain(Context **context, int device)
{
    ENTER("cuDevicePrimaryCtxRetain", false);
    *context = made<Context>("context");
    return device == 40 ? SUCCESS : INVALID_DEVICE;
}

Code cuCtxSetCurrent(Context *context)
{
    ENTER("cuCtxSetCurrent", false);
    current = context;
    return SUCCESS;
}

Code cuDeviceGetDefaultMemPool(void **pool, int)
{
    ENTER("cuDeviceGetDefaultMemPool", false);
    *pool = &memories;
    return SUCCESS;
}

Code cuMemPoolSetAttribute(void *pool, int attribute, void *)
{
    ENTER("cuMemPoolSetAttribute");
    return pool == &memories && attribute == 4 ? SUCCESS : INVALID_VALUE;
}

Code cuStreamCreate(Stream **stream, unsigned)
{
    ENTER("cuStreamCreate");
    *stream = made<Stream>("stream");
    return SUCCESS;
}

Code cuStreamSynchronize(Stream *stream)
{
    OLD(stream);
    ENTER("cuStreamSynchronize");
    LIVE(stream, "cuStreamSynchronize");
    return finish(stream);
}

Code cuMemAllocAsync(uint64_t *address, size_t size, Stream *stream)
{
    OLD(stream);
    ENTER("cuMemAllocAsync", true, " " + std::to_string(size));
    LIVE(stream, "cuMemAllocAsync");
    uint64_t taken = size;
    for (auto &[_, memory] : memories)
        taken += memory.freed ? 0 : memory.size;
    if (!size)
        return INVALID_VALUE;
    if (taken > (uint64_t)settings["memory"] || used + end_of(size) > SPACE)
        return OUT_OF_MEMORY;
    if (!space)
        space = (char *)mmap(nullptr, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *start = space + used;
    used += end_of(size);
    Opened opened;
    memset(start, CANARY, end_of(size));
    memset(start + MARGIN, UNSET, size);
    *address = (uint64_t)start + MARGIN;
    memories[*address] = {size};
    return SUCCESS;
}

Code cuMemFreeAsync(uint64_t address, Stream *stream)
{
    OLD(stream);
    ENTER("cuMemFreeAsync");
    LIVE(stream, "cuMemFreeAsync");
    auto found = memories.find(address);
    if (found == memories.end() || found->second.freed) {
        problem("free of what is no memory");
        return INVALID_VALUE;
    }
    found->second.freed = true;
    stream->waiting.push_back([address] {
        uint64_t start = address - MARGIN, size = end_of(memories[address].size);
        madvise((void *)start, size, MADV_DONTNEED);
        memories.erase(address);
        return SUCCESS;
    });
    return SUCCESS;
}

Code copy(const char *name, uint64_t device, void *host, size_t size, Stream *stream, bool in)
{
    OLD(stream);
    ENTER(name, true, " " + std::to_string(size));
    LIVE(stream, name);
    auto found = memory_at(device, size);
    if (found == memories.end() || found->second.freed) {
        problem(std::string(name) + " outside of memory");
        return INVALID_VALUE;
    }
    stream->waiting.push_back([=] {
        Opened opened;
        in ? memcpy((void *)device, host, size) : memcpy(host, (void *)device, size);
        return SUCCESS;
    });
    return SUCCESS;
}

Code cuMemcpyHtoDAsync(uint64_t device, void *host, size_t size, Stream *stream)
{
    return copy("cuMemcpyHtoDAsync", device, host, size, stream, true);
}

Code cuMemcpyDtoHAsync(void *host, uint64_t device, size_t size, Stream *stream)
{
    return copy("cuMemcpyDtoHAsync", device, host, size, stream, false);
}

Code cuModuleLoadData(Module **module, const char *image)
{
    ENTER("cuModuleLoadData");
    if (memcmp(image, "\177ELF", 4))
        return INVALID_IMAGE;
    long arch = read<uint32_t>(image + 48) >> 8 & 0xff;
    if (arch != settings["major"] * 10 + settings["minor"])
        return NO_BINARY;
    *module = made<Module>("module");
    (*module)->image.assign(image, read<uint64_t>(image + 40) + 64 * read<uint16_t>(image + 60));
    return SUCCESS;
}

Code cuModuleGetFunction(Function **function, Module *module, const char *name)
{
    ENTER("cuModuleGetFunction");
    LIVE(module, "cuModuleGetFunction");
    auto found = sections(module->image);
    if (!found.count(std::string(".text.") + name))
        return NOT_FOUND;
    *function = made<Function>("function");
    (*function)->module = module, (*function)->name = name;
    read_attributes(*function, found[std::string(".nv.info.") + name]);
    // from sm_90 on the system has 1 KB of it
    unsigned shared = found[std::string(".nv.shared.") + name].size();
    (*function)->shared = shared > 1024 ? shared - 1024 : 0;
    (*function)->allowed = 48 * 1024;
    return SUCCESS;
}

Code cuModuleUnload(Module *module)
{
    OLD(module);
    ENTER("cuModuleUnload");
    LIVE(module, "cuModuleUnload");
    module->live = false;
    for (Handle *handle : handles)
        if (auto *function = handle->kind == "function" ? static_cast<Function *>(handle) : nullptr)
            function->live = function->live && function->module != module;
    return SUCCESS;
}

Code cuFuncSetAttribute(Function *function, int attribute, int value)
{
    ENTER("cuFuncSetAttribute", true, " " + std::to_string(value));
    LIVE(function, "cuFuncSetAttribute");
    if (attribute != 8 || value < 0 || value + function->shared > 227 * 1024)
        return INVALID_VALUE;
    function->allowed = value + function->shared;
    return SUCCESS;
}

Code cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                    unsigned shared, Stream *stream, void **arguments, void **extra)
{
    OLD(stream);
    unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    ENTER("cuLaunchKernel", true, shown(function, grid, block, shared));
    LIVE(stream, "cuLaunchKernel");
    Launch launch;
    if (Code code = take_launch(launch, function, grid, block, shared, arguments, extra))
        return code;
    stream->waiting.push_back([launch] { return run(launch); });
    return SUCCESS;
}

Code cuGraphCreate(Graph **graph, unsigned)
{
    ENTER("cuGraphCreate");
    *graph = made<Graph>("graph");
    return SUCCESS;
}

Code cuGraphAddKernelNode(Node **node, Graph *graph, Node *const *before, size_t count, const NodeParams *params)
{
    ENTER("cuGraphAddKernelNode", true, shown(params->function, params->grid, params->block, params->shared));
    LIVE(graph, "cuGraphAddKernelNode");
    Launch launch;
    if (Code code = take_launch(launch, params->function, params->grid, params->block, params->shared,
                                params->arguments, params->extra))
        return code;
    *node = made<Node>("node");
    (*node)->launch = launch;
    (*node)->before.assign(before, before + count);
    graph->nodes.push_back(*node);
    return SUCCESS;
}

Code cuGraphInstantiateWithFlags(Executable **executable, Graph *graph, unsigned long long)
{
    ENTER("cuGraphInstantiate");
    LIVE(graph, "cuGraphInstantiate");
    *executable = made<Executable>("executable");
    std::set<Node *> done;
    while (done.size() < graph->nodes.size())  // of those that may be next the last one
        for (size_t i = graph->nodes.size(); i-- > 0;) {
            Node *node = graph->nodes[i];
            auto missing = [&](Node *other) { return !done.count(other); };
            if (done.count(node) || std::any_of(node->before.begin(), node->before.end(), missing))
                continue;
            done.insert(node);
            (*executable)->nodes.push_back(node);
            (*executable)->launches[node] = node->launch;
            break;
        }
    return SUCCESS;
}

Code cuGraphExecKernelNodeSetParams(Executable *executable, Node *node, const NodeParams *params)
{
    ENTER("cuGraphExecKernelNodeSetParams", true,
          shown(params->function, params->grid, params->block, params->shared));
    LIVE(executable, "cuGraphExecKernelNodeSetParams");
    if (!executable->launches.count(node))
        return INVALID_VALUE;
    return take_launch(executable->launches[node], params->function, params->grid, params->block, params->shared,
                       params->arguments, params->extra);
}

Code cuGraphLaunch(Executable *executable, Stream *stream)
{
    OLD(stream);
    ENTER("cuGraphLaunch");
    LIVE(executable, "cuGraphLaunch");
    LIVE(stream, "cuGraphLaunch");
    executable->waiting++;
    stream->waiting.push_back([executable, launches = executable->launches, nodes = executable->nodes] {
        executable->waiting--;
        for (Node *node : nodes)
            if (Code code = run(launches.at(node)))
                return code;
        return SUCCESS;
    });
    return SUCCESS;
}

Code cuGraphExecDestroy(Executable *executable)
{
    OLD(executable);
    ENTER("cuGraphExecDestroy");
    LIVE(executable, "cuGraphExecDestroy");
    if (executable->waiting)
        problem("cuGraphExecDestroy of what is under way");
    executable->live = false;
    return SUCCESS;
}

Code cuGraphDestroy(Graph *graph)
{
    OLD(graph);
    ENTER("cuGraphDestroy");
    LIVE(graph, "cuGraphDestroy");
    graph->live = false;
    for (Node *node : graph->nodes)
        node->live = false;
    return SUCCESS;
}

Code cuEventCreate(Event **event, unsigned)
{
    ENTER("cuEventCreate");
    *event = made<Event>("event");
    return SUCCESS;
}

Code cuEventRecord(Event *event, Stream *stream)
{
    OLD(stream);
    ENTER("cuEventRecord");
    LIVE(event, "cuEventRecord");
    LIVE(stream, "cuEventRecord");
    event->recorded = true, event->reached = false;
    stream->waiting.push_back([event] {
        event->reached = true, event->time = now;
        return SUCCESS;
    });
    return SUCCESS;
}

// A kernel takes a millisecond.
Code cuEventElapsedTime(float *milliseconds, Event *first, Event *last)
{
    ENTER("cuEventElapsedTime");
    LIVE(first, "cuEventElapsedTime");
    LIVE(last, "cuEventElapsedTime");
    if (!first->recorded || !last->recorded)
        return INVALID_HANDLE;
    *milliseconds = last->time - first->time;
    return first->reached && last->reached ? SUCCESS : NOT_READY;
}

Code cuEventDestroy(Event *event)
{
    OLD(event);
    ENTER("cuEventDestroy");
    LIVE(event, "cuEventDestroy");
    event->live = false;
    return SUCCESS;
}

// Where the bindings find a function: only what is above, and nothing newer than the driver.
Code cuGetProcAddress_v2(const char *name, void **function, int, uint64_t, int *status)
{
#define ROW(name) {#name, (void *)name}
    static const std::map<std::string, void *> table = {
        {"cuInit", (void *)init}, ROW(cuGetErrorString), ROW(cuDriverGetVersion), ROW(cuDeviceGet), ROW(cuDeviceGetName),
        ROW(cuDeviceTotalMem), ROW(cuDeviceGetAttribute), ROW(cuDevicePrimaryCtxRetain), ROW(cuCtxSetCurrent),
        ROW(cuDeviceGetDefaultMemPool), ROW(cuMemPoolSetAttribute), ROW(cuStreamCreate), ROW(cuStreamSynchronize),
        ROW(cuMemAllocAsync), ROW(cuMemFreeAsync), ROW(cuMemcpyHtoDAsync), ROW(cuMemcpyDtoHAsync),
        ROW(cuModuleLoadData), ROW(cuModuleGetFunction), ROW(cuModuleUnload), ROW(cuFuncSetAttribute),
        ROW(cuLaunchKernel), ROW(cuGraphCreate), ROW(cuGraphAddKernelNode), ROW(cuGraphInstantiateWithFlags),
        ROW(cuGraphExecKernelNodeSetParams), ROW(cuGraphLaunch), ROW(cuGraphExecDestroy), ROW(cuGraphDestroy),
        ROW(cuEventCreate), ROW(cuEventRecord), ROW(cuEventElapsedTime), ROW(cuEventDestroy),
        ROW(cuGetProcAddress_v2),
    };
    auto found = table.find(std::string(name) == "cuGetProcAddress" ? "cuGetProcAddress_v2" : name);
    *function = found == table.end() ? nullptr : found->second;
    if (status)
        *status = *function ? 0 : 1;
    return *function ? SUCCESS : NOT_FOUND;
}

Code cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"
