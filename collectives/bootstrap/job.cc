// Joining a job: who this process is, where rank 0 serves, and the way there.
#include <algorithm>
#include <cstring>

#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include "spindrift/bootstrap.h"

#include "collectives/bootstrap/launch.h"
#include "collectives/bootstrap/meeting_file.h"
#include "collectives/bootstrap/pmi1.h"
#include "collectives/bootstrap/pmix.h"
#include "collectives/bootstrap/served_meeting.h"
#include "collectives/bootstrap/socket.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(20);
// The name under which rank 0 publishes where it serves.
constexpr const char* kPublishedName = "spindrift-meeting";

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

void pause() {
  (void)::poll(nullptr, 0, static_cast<int>(kPause / std::chrono::milliseconds(1)));
}

class JoinedJob final : public Job {
 public:
  JoinedJob(Launch launch, std::unique_ptr<ServedMeeting> served, std::unique_ptr<TcpStore> store,
            std::string file, std::unique_ptr<PmixSession> pmix)
      : launch_(std::move(launch)),
        served_(std::move(served)),
        store_(std::move(store)),
        file_(std::move(file)),
        pmix_(std::move(pmix)) {}
  ~JoinedJob() override {
    if (!file_.empty() && served_ != nullptr) remove_meeting_file(file_);
  }

  const Launch& launch() const override { return launch_; }
  Store& store() override { return *store_; }
  std::string host() const override { return store_->local_host(); }

  Status leave(Duration timeout) override {
    const Result<std::int64_t> gone = store_->add("left", 1);
    if (!gone.ok()) return gone.error();
    if (gone.value() == launch_.ranks) return store_->set("all-left", "yes");
    if (launch_.rank != 0) return ok_status();
    const Result<std::string> all = store_->get("all-left", timeout);
    return all.ok() ? ok_status() : Status(all.error());
  }

 private:
  const Launch launch_;
  const std::unique_ptr<ServedMeeting> served_;  // at rank 0 only
  const std::unique_ptr<TcpStore> store_;
  const std::string file_;
  // What rank 0 published there may go with it.
  const std::unique_ptr<PmixSession> pmix_;
};

// What join() gathers on its way.
class Joining final {
 public:
  explicit Joining(const JobOptions& options)
      : options_(options), deadline_(monotonic_now() + options.timeout) {}

  Result<std::unique_ptr<Job>> run() {
    if (Status status = find_out(); !status.ok()) return status.error();
    const bool serves = launch().rank == 0 && !options_.is_served_elsewhere && !options_.id;
    if (serves) {
      if (Status status = serve(); !status.ok()) return status.error();
    }
    Result<std::unique_ptr<TcpStore>> store = go();
    if (!store.ok()) return store.error();
    return std::unique_ptr<Job>(std::make_unique<JoinedJob>(
        launch(), std::move(served_), std::move(store).value(), detected_.file, std::move(pmix_)));
  }

 private:
  Launch& launch() { return detected_.launch; }

  Status find_out() {
    if (options_.rank.has_value() != options_.ranks.has_value()) {
      return invalid("give both rank and ranks, or none");
    }
    if (options_.rank) {
      launch().launcher = "given";
      launch().rank = *options_.rank;
      launch().ranks = *options_.ranks;
    } else {
      Result<std::optional<DetectedLaunch>> found = detect_launch(process_environment());
      if (!found.ok()) return found.error();
      if (!found.value()) {
        return invalid(
            "no launcher is seen in the environment; start by mpirun, srun or torchrun, set RANK, "
            "WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or give rank, ranks and a rendezvous");
      }
      detected_ = std::move(*found.value());
    }
    if (Status status = choose_way(); !status.ok()) return status;
    if (launch().ranks == 0 || detected_.way == MeetingWay::kPmix) {
      if (Status status = use_pmix(); !status.ok()) return status;
    }
    if (launch().rank < launch().ranks) return ok_status();
    return invalid(
        absl::StrFormat("rank %d of %d ranks; ranks count from 0", launch().rank, launch().ranks));
  }

  Status choose_way() {
    const int given = (options_.rendezvous.empty() ? 0 : 1) + (options_.id ? 1 : 0) +
                      (options_.all_gather ? 1 : 0);
    if (given > 1) return invalid("give one of rendezvous, id and all_gather");
    if (!options_.rendezvous.empty()) return set_rendezvous(options_.rendezvous, detected_);
    if (options_.all_gather) return ok_status();
    if (options_.id) {
      Result<Meeting> meeting = meeting_from_id(*options_.id);
      if (!meeting.ok()) return meeting.error();
      detected_.way = MeetingWay::kKnown;
      detected_.meeting = std::move(meeting).value();
      return ok_status();
    }
    if (!options_.rank) return ok_status();
    if (const auto place = process_environment()("SPINDRIFT_RENDEZVOUS")) {
      return set_rendezvous(*place, detected_);
    }
    return invalid("rank and ranks need a rendezvous, an id or an all_gather");
  }

  Status use_pmix() {
    Result<std::unique_ptr<PmixSession>> session = PmixSession::start();
    if (!session.ok()) return session.error();
    pmix_ = std::move(session).value();
    return launch().ranks == 0 ? pmix_->complete(launch()) : ok_status();
  }

  // Of rank 0.
  Status serve() {
    const bool is_known = detected_.way == MeetingWay::kKnown && !options_.all_gather;
    const bool is_one_host = launch().local_ranks != 0 && launch().local_ranks == launch().ranks;
    Result<std::unique_ptr<ServedMeeting>> served =
        is_known ? ServedMeeting::serve_at(detected_.meeting)
                 : ServedMeeting::serve(is_one_host ? "127.0.0.1" : "");
    if (!served.ok()) return served.error();
    served_ = std::move(served).value();
    return ok_status();
  }

  // The store, by whatever way the meeting is known. Rank 0 has published it before it goes there.
  Result<std::unique_ptr<TcpStore>> go() {
    if (options_.all_gather) return go_by_all_gather();
    if (served_ != nullptr) {
      if (Status status = publish(); !status.ok()) return status.error();
      return go_to(served_->meeting(), deadline_);
    }
    switch (detected_.way) {
      case MeetingWay::kKnown:
        return go_repeatedly([this] { return Result<Meeting>(detected_.meeting); });
      case MeetingWay::kFile:
        // A file of an earlier job may lie there until rank 0 has replaced it.
        return go_repeatedly([this] { return meeting_in_file(); });
      case MeetingWay::kPmi1:
      case MeetingWay::kPmix: {
        const Result<std::string> text = look_up();
        if (!text.ok()) return nobody(text.error());
        return go_repeatedly([&] { return meeting_from_text(text.value()); });
      }
    }
    return invalid("no way to the meeting");
  }

  Status publish() {
    const std::string text = to_text(served_->meeting());
    switch (detected_.way) {
      case MeetingWay::kKnown:
        return ok_status();
      case MeetingWay::kFile:
        return write_meeting_file(detected_.file, text);
      case MeetingWay::kPmi1: {
        Result<Pmi1Session> session = Pmi1Session::start(detected_.pmi_fd, deadline_);
        if (!session.ok()) return session.error();
        return session.value().publish(kPublishedName, text, deadline_);
      }
      case MeetingWay::kPmix:
        return pmix_->publish(kPublishedName, text);
    }
    return ok_status();
  }

  Result<std::string> look_up() {
    if (detected_.way == MeetingWay::kPmix) {
      while (true) {
        // The server may say at once that it knows nothing yet.
        Result<std::string> text = pmix_->look_up(0, kPublishedName, deadline_ - monotonic_now());
        if (text.ok() || monotonic_now() >= deadline_) return text;
        pause();
      }
    }
    Result<Pmi1Session> session = Pmi1Session::start(detected_.pmi_fd, deadline_);
    if (!session.ok()) return session.error();
    return session.value().look_up(kPublishedName, deadline_);
  }

  Result<Meeting> meeting_in_file() const {
    const std::string text = read_meeting_file(detected_.file);
    if (!text.empty()) return meeting_from_text(text);
    return Error(ErrorCode::kNotFound, absl::StrFormat("there is no file %s", detected_.file));
  }

  template <class Find>
  Result<std::unique_ptr<TcpStore>> go_repeatedly(const Find& find) {
    while (true) {
      const Result<Meeting> meeting = find();
      Error refusal(ErrorCode::kNotFound, "");
      if (meeting.ok()) {
        Result<std::unique_ptr<TcpStore>> store = go_to(meeting.value(), deadline_);
        if (store.ok() || store.error().code() == ErrorCode::kInvalidArgument) return store;
        refusal = store.error();
      } else {
        if (meeting.error().code() == ErrorCode::kInvalidArgument) return meeting.error();
        refusal = meeting.error();
      }
      if (monotonic_now() >= deadline_) return nobody(refusal);
      pause();
    }
  }

  Error nobody(const Error& refusal) {
    const std::string place = detected_.way == MeetingWay::kFile ? "by " + detected_.file
                              : detected_.way == MeetingWay::kKnown
                                  ? "at " + detected_.meeting.addresses.front()
                                  : "for this job of " + launch().launcher;
    return {ErrorCode::kTimedOut,
            absl::StrFormat("rank %d waited %.1f s for rank 0, and nobody serves the rendezvous %s "
                            "(%s); start rank 0, look at what it said before it ended, or check "
                            "the address and the firewall",
                            launch().rank, std::chrono::duration<double>(options_.timeout).count(),
                            place, refusal.message())};
  }

  Result<std::unique_ptr<TcpStore>> go_by_all_gather() {
    const UniqueId own = served_ == nullptr ? UniqueId{} : served_->id();
    std::vector<std::byte> all(UniqueId::kBytes * launch().ranks);
    if (Status status = options_.all_gather(std::as_bytes(std::span(own.bytes)), all);
        !status.ok()) {
      return status.error();
    }
    UniqueId first;
    std::memcpy(first.bytes.data(), all.data(), UniqueId::kBytes);
    Result<Meeting> meeting = meeting_from_id(first);
    if (!meeting.ok()) return meeting.error();
    detected_.way = MeetingWay::kKnown;
    detected_.meeting = std::move(meeting).value();
    return go_repeatedly([this] { return Result<Meeting>(detected_.meeting); });
  }

  const JobOptions& options_;
  const Time deadline_;
  DetectedLaunch detected_;
  std::unique_ptr<ServedMeeting> served_;
  std::unique_ptr<PmixSession> pmix_;
};

}  // namespace
}  // namespace spindrift::collectives

namespace spindrift {

Result<std::optional<Launch>> find_launch() {
  using namespace collectives;
  const Result<std::optional<DetectedLaunch>> found = detect_launch(process_environment());
  if (!found.ok()) return found.error();
  if (!found.value()) return std::optional<Launch>();
  return std::optional<Launch>(found.value()->launch);
}

Result<std::unique_ptr<Job>> Job::join(const JobOptions& options) {
  if (options.timeout < std::chrono::milliseconds(1) || options.timeout > std::chrono::hours(1)) {
    return Error(ErrorCode::kInvalidArgument, "the timeout to meet rank 0 must be 1 ms to 1 h");
  }
  return collectives::Joining(options).run();
}

}  // namespace spindrift
