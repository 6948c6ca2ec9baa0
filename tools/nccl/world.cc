#include "tools/nccl/world.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace spindrift::nccl_check {
namespace {

using std::chrono::steady_clock;

constexpr std::string_view kSkipMark = "skip: ";

void keep_words(Arena& arena, int rank, const std::string& words) {
  std::snprintf(arena.words[rank], sizeof(arena.words[rank]), "%s", words.c_str());
}

// What a plugin writes to standard output lands in a file that nobody may find anything in.
int make_silence() {
  return ::memfd_create("stdout", MFD_CLOEXEC);
}

void enter_namespace(const std::string& name) {
  const int fd = ::open(("/var/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0, "there is no network namespace " + name + "; ip netns add makes one");
  require(::setns(fd, CLONE_NEWNET) == 0, "cannot enter the network namespace " + name);
  ::close(fd);
}

void set_environment(const RunOptions& options, int rank) {
  const std::string own = std::to_string(rank) + ":";
  for (const std::string& entry : options.environment)
    ::putenv(::strdup(entry.c_str()));  // NOLINT(concurrency-mt-unsafe): one thread yet
  for (const std::string& entry : options.rank_environment)
    if (entry.starts_with(own))
      ::putenv(::strdup(entry.c_str() + own.size()));  // NOLINT(concurrency-mt-unsafe): the same
}

[[noreturn]] void run_rank(Arena& arena, const RunOptions& options, int rank, int silence,
                           const std::function<void(Rank&)>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(silence, STDOUT_FILENO);
  set_environment(options, rank);
  show_log(options.is_log_shown);
  std::this_thread::sleep_for(options.stagger * rank);
  int status = 1;
  // Never destroyed: after a failure connections are open, and the plugin must not be unloaded.
  auto* const me = new Rank(arena, rank, options.ranks, options.plugin, options.version);
  try {
    if (!options.namespaces.empty())
      enter_namespace(
          options.namespaces[static_cast<std::size_t>(rank) % options.namespaces.size()]);
    body(*me);
    status = 0;
  } catch (const Skipped& skipped) {
    keep_words(arena, rank, std::string(kSkipMark) + skipped.what());
  } catch (const std::exception& failed) {
    keep_words(arena, rank, failed.what());
  }
  std::fflush(stdout);
  std::exit(status);  // as a program ends: static objects of the plugin are destroyed
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status))
    return std::string("killed by signal ") + std::to_string(WTERMSIG(status)) + " (" +
           ::sigdescr_np(WTERMSIG(status)) + ")";
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

void judge(const Arena& arena, int rank, int status, Outcome& out) {
  const std::string words = arena.words[rank];
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (words.starts_with(kSkipMark)) {
    out = {.kind = Outcome::Kind::kSkipped, .words = words.substr(kSkipMark.size()), .figures = {}};
    return;
  }
  out = {.kind = Outcome::Kind::kFailed,
         .words =
             "rank " + std::to_string(rank) + ": " + (words.empty() ? describe_end(status) : words),
         .figures = {}};
}

}  // namespace

void require(bool holds, const std::string& sentence) {
  if (!holds) throw Failed(sentence);
}

void require_ok(NcclResult result, const std::string& call) {
  if (result == nccl::kSuccess) return;
  const std::string warning = said().last_warning;
  throw Failed(call + " returned " + std::to_string(result) +
               (warning.empty() ? "" : "; its last warning: " + warning));
}

Rank::Rank(Arena& arena, int rank, int ranks, std::string plugin, int version)
    : arena_(arena), rank_(rank), ranks_(ranks), plugin_(std::move(plugin)), version_(version) {}

Net& Rank::net() {
  if (net_ != nullptr) return *net_;
  library_ = std::make_unique<Library>(plugin_);
  net_ = library_->net(version_);
  if (net_ == nullptr) throw Skipped("it has no ncclNetPlugin_v" + std::to_string(version_));
  require_ok(net_->init(), "init");
  return *net_;
}

void Rank::unload() {
  net_.reset();
  library_.reset();
}

void Rank::barrier() {
  const int round = arena_.round.load();
  if (arena_.arrived.fetch_add(1) + 1 == ranks_) {
    arena_.arrived.store(0);
    arena_.round.fetch_add(1);
    return;
  }
  while (arena_.round.load() == round)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void Rank::wait_signal(int signal, int value) {
  while (arena_.signals[signal].load() < value)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

Channel Rank::open_channel(int to, int from, int number, int device) {
  Net& plugin = net();
  Channel channel{.device = device};
  void* listener = nullptr;
  if (from >= 0) {
    char* handle = arena_.handles[rank_][from][number];
    std::memset(handle, 0, nccl::kHandleBytes);
    require_ok(plugin.listen(device, handle, &listener), "listen");
  }
  barrier();
  char handle[nccl::kHandleBytes];
  if (to >= 0) std::memcpy(handle, arena_.handles[to][rank_][number], sizeof(handle));
  while ((to >= 0 && channel.send == nullptr) || (from >= 0 && channel.recv == nullptr)) {
    if (to >= 0 && channel.send == nullptr)
      require_ok(plugin.connect(device, handle, &channel.send), "connect");
    if (from >= 0 && channel.recv == nullptr)
      require_ok(plugin.accept(listener, &channel.recv), "accept");
    std::this_thread::yield();
  }
  if (listener != nullptr) require_ok(plugin.close_listen(listener), "closeListen");
  return channel;
}

void Rank::close(Channel& channel) {
  if (channel.send != nullptr) require_ok(net().close_send(channel.send), "closeSend");
  if (channel.recv != nullptr) require_ok(net().close_recv(channel.recv), "closeRecv");
  channel = {};
}

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<unsigned char*>(mapped);
}

Buffer::~Buffer() {
  ::munmap(data_, bytes_);
}

void finish(Net& net, void* request, int* sizes, const std::string& what) {
  for (;;) {
    int done = 0x5a5a5a5a;  // NCCL does not initialise it
    require_ok(net.test(request, &done, sizes), "test of " + what);
    require(done == 0 || done == 1, "test of " + what + " left done at neither 0 nor 1");
    if (done == 1) return;
  }
}

// NOLINTNEXTLINE(readability-function-size): the parameters are NCCL's
void* send_until_taken(Net& net, void* comm, void* data, std::size_t bytes, int tag, void* handle) {
  for (;;) {
    void* request = reinterpret_cast<void*>(std::uintptr_t{0xdead});  // stale, as NCCL leaves it
    require_ok(net.isend(comm, data, bytes, tag, handle, &request), "isend");
    if (request != nullptr) return request;
  }
}

void* receive_until_taken(Net& net, void* comm, const std::vector<Receive>& group) {
  for (;;) {
    void* request = nccl::kOptionalCompletion;
    require_ok(net.irecv(comm, group, &request), "irecv");
    if (request != nullptr) return request;
  }
}

Outcome run_ranks(const RunOptions& options, const std::function<void(Rank&)>& body) {
  void* shared =
      ::mmap(nullptr, sizeof(Arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  auto* arena = new (shared) Arena();
  const int silence = make_silence();
  std::fflush(nullptr);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) run_rank(*arena, options, rank, silence, body);
    arena->pids[rank].store(pid);
    pids.push_back(pid);
  }
  Outcome out;
  const auto give_up = steady_clock::now() + options.time_limit;
  std::size_t left = pids.size();
  while (left != 0) {
    for (std::size_t i = 0; i < pids.size(); ++i) {
      int status = 0;
      if (pids[i] == 0 || ::waitpid(pids[i], &status, WNOHANG) != pids[i]) continue;
      pids[i] = 0;
      --left;
      // Later ones were killed for the first one's sake.
      if (out.kind == Outcome::Kind::kHeld && static_cast<int>(i) != options.victim)
        judge(*arena, static_cast<int>(i), status, out);
    }
    const bool is_late = steady_clock::now() > give_up;
    if (is_late && left != 0 && out.kind != Outcome::Kind::kFailed)
      out = {.kind = Outcome::Kind::kFailed,
             .words = "did not end within " + std::to_string(options.time_limit.count()) + " s",
             .figures = {}};
    // The others wait for one that has failed.
    if (is_late || out.kind != Outcome::Kind::kHeld)
      for (const pid_t pid : pids)
        if (pid != 0) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  struct stat written {};
  if (out.kind == Outcome::Kind::kHeld && ::fstat(silence, &written) == 0 && written.st_size != 0)
    out = {.kind = Outcome::Kind::kFailed,
           .words = "it wrote to standard output, which belongs to the application",
           .figures = {}};
  ::close(silence);
  for (const auto& figure : arena->figures)
    out.figures.push_back(figure.load());
  ::munmap(shared, sizeof(Arena));
  return out;
}

}  // namespace spindrift::nccl_check
