#pragma once
// The processes of one check: forked ranks that meet in shared memory, as NCCL's bootstrap brings
// its ranks together.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tools/nccl/net.h"

namespace spindrift::nccl_check {

inline constexpr int kMaxRanks = 4;
inline constexpr int kMaxChannels = 64;

// A check that did not hold; the text says which.
class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// The plugin does not offer what the check is about.
class Skipped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void require(bool holds, const std::string& sentence);
void require_ok(NcclResult result, const std::string& call);

// What all ranks of a check share.
struct Arena {
  std::atomic<int> arrived{0};
  std::atomic<int> round{0};
  std::atomic<int> pids[kMaxRanks];
  std::atomic<int> signals[8];     // of the checks' own
  std::atomic<double> figures[8];  // measurements, by the checks' own numbers
  char handles[kMaxRanks][kMaxRanks][kMaxChannels][nccl::kHandleBytes];
  char words[kMaxRanks][1024];  // how a rank ended: "" well, "skip: ..." or why it failed
};

// Ends of one channel of this rank; null: not wanted.
struct Channel {
  void* send = nullptr;
  void* recv = nullptr;
  int device = 0;
};

class Rank {
 public:
  Rank(Arena& arena, int rank, int ranks, std::string plugin, int version);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int next() const { return (rank_ + 1) % ranks_; }
  int previous() const { return (rank_ + ranks_ - 1) % ranks_; }
  Arena& arena() { return arena_; }
  const std::string& plugin() const { return plugin_; }
  int version() const { return version_; }
  // Loads and initialises on first use.
  Net& net();
  void unload();
  void barrier();
  // Waits until another rank has set it at least that high.
  void wait_signal(int signal, int value);

  // A channel to `to` and from `from`, made as NCCL makes it: connect and accept in turns, both
  // polled, neither may block. -1: no such end. All ranks of the check call it together.
  Channel open_channel(int to, int from, int number, int device = 0);
  void close(Channel& channel);

 private:
  Arena& arena_;
  const int rank_;
  const int ranks_;
  const std::string plugin_;
  const int version_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Net> net_;
};

// Memory as NCCL's buffers are: aligned to pages.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  unsigned char* data() { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  unsigned char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Until test() says done; the sizes go to `sizes` (at least 8) if given. `what` names it in errors.
void finish(Net& net, void* request, int* sizes, const std::string& what);
// Repeats a post until it is taken.
void* send_until_taken(Net& net, void* comm, void* data, std::size_t bytes, int tag, void* handle);
void* receive_until_taken(Net& net, void* comm, const std::vector<Receive>& group);

struct Outcome {
  enum class Kind { kHeld, kSkipped, kFailed };
  Kind kind = Kind::kHeld;
  std::string words;
  std::vector<double> figures;  // Arena::figures
};
struct RunOptions {
  std::string plugin;
  int version = 0;
  int ranks = 1;
  std::vector<std::string> environment;       // "NAME=value"
  std::vector<std::string> rank_environment;  // "RANK:NAME=value", of that rank alone
  std::vector<std::string> namespaces;   // of the network (ip netns), rank by rank; empty: this one
  std::chrono::milliseconds stagger{0};  // each rank starts so much later than the one before
  std::chrono::seconds time_limit{60};
  bool is_log_shown = false;
  // A rank that is expected to die, or -1.
  int victim = -1;
};
// Forks the ranks and waits; those that have not ended in time are killed, and the check failed.
Outcome run_ranks(const RunOptions& options, const std::function<void(Rank&)>& body);

}  // namespace spindrift::nccl_check
