#include "tools/sim/record.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "spindrift/open.h"

#include "tools/exit_codes.h"
#include "tools/sim/files.h"
#include "tools/sim/replay.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

constexpr std::uint64_t kMessageBytes = 1U << 20U;
constexpr std::uint64_t kMessagesInFlight = 8;
constexpr Duration kOpenLimit = std::chrono::seconds(5);

// Empty, and writable.
Status make_file(const std::string& name) {
  errno = 0;
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (file == nullptr || std::fclose(file) != 0)
    return Error(ErrorCode::kIo, cat("cannot write the record to ", name, ": ",
                                     std::system_category().message(errno == 0 ? EIO : errno)));
  if (!std::filesystem::is_regular_file(name))  // it is read again, to see that all is there
    return Error(ErrorCode::kIo, cat("cannot write the record to ", name, ": it is no file"));
  return ok_status();
}

class Transfer {
 public:
  explicit Transfer(const RecordOptions& options) : options_(options) {}

  Status run() {
    Status status = open();
    if (status.ok()) status = connect();
    if (status.ok()) status = write_all();
    if (!status.ok()) return status;
    sender_->close(conn_);
    const Time limit = sender_->now() + kOpenLimit;
    ConnEvent event;
    while (!sender_->take_event(ConnEvent::Kind::kClosed, event) && sender_->now() < limit)
      turn();
    return ok_status();
  }
  double seconds() const { return seconds_; }

 private:
  Status open() {
    OpenOptions open;
    open.faults = options_.faults;
    open.endpoint.cc_record = options_.file;
    auto receiver = open_endpoint(options_.address);
    if (!receiver.ok()) return receiver.error();
    auto sender = open_endpoint(options_.address.substr(0, options_.address.find("://") + 3), open);
    if (!sender.ok()) return sender.error();
    receiver_ = std::move(receiver).value();
    sender_ = std::move(sender).value();
    const auto listener = receiver_->listen(options_.address);
    if (!listener.ok()) return listener.error();
    memory_.resize(2 * kMessageBytes);
    const std::span<std::byte> all(memory_);
    auto source = sender_->register_memory(all.first(kMessageBytes), Access::kLocalRead);
    if (!source.ok()) return source.error();
    auto sink = receiver_->register_memory(all.last(kMessageBytes), kAllAccess);
    if (!sink.ok()) return sink.error();
    source_ = source.value();
    sink_ = sink.value();
    return ok_status();
  }

  Status connect() {
    ConnectOptions options;
    options.congestion_control = options_.congestion_control;
    const auto conn = sender_->connect(receiver_->local_addresses().front(), options);
    if (!conn.ok()) return conn.error();
    conn_ = conn.value();
    ConnEvent event;
    while (!sender_->take_event(ConnEvent::Kind::kEstablished, event)) {
      turn();
      if (receiver_->take_event(ConnEvent::Kind::kRequest, event))
        if (Status accepted = receiver_->accept(event.conn, options); !accepted.ok())
          return accepted;
      if (Status fine = check(); !fine.ok()) return fine;
    }
    return ok_status();
  }

  Status write_all() {
    const Time start = sender_->now();
    std::uint64_t posted = 0;
    std::uint64_t in_flight = 0;
    while (posted < options_.bytes || in_flight != 0) {
      while (posted < options_.bytes && in_flight < kMessagesInFlight) {
        const std::uint64_t bytes = std::min(kMessageBytes, options_.bytes - posted);
        const Sge piece = sge_of(source_, 0, static_cast<std::uint32_t>(bytes));
        const WorkRequest work{.conn = conn_,
                               .kind = OpKind::kWrite,
                               .local = {&piece, 1},
                               .remote_key = sink_.remote.key};
        if (sender_->post({&work, 1}).accepted == 0) break;
        posted += bytes;
        ++in_flight;
      }
      std::array<Completion, 16> done;
      const std::size_t count = sender_->poll(done);
      for (const Completion& one : std::span(done).first(count))
        if (one.status != OpStatus::kOk)
          return Error(ErrorCode::kUnavailable,
                       cat("the transfer failed: ", sender_->last_error(conn_)));
      in_flight -= count;
      turn();
      if (Status fine = check(); !fine.ok()) return fine;
    }
    seconds_ = std::chrono::duration<double>(sender_->now() - start).count();
    return ok_status();
  }

  void turn() {
    receiver_->progress();
    sender_->progress();
  }
  Status check() {
    ConnEvent event;
    if (tools::was_interrupted()) return Error(ErrorCode::kUnavailable, "interrupted");
    if (sender_->take_event(ConnEvent::Kind::kFailed, event))
      return Error(ErrorCode::kUnavailable,
                   cat("the connection failed: ", sender_->last_error(event.conn)));
    return ok_status();
  }

  const RecordOptions& options_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Endpoint> receiver_;
  std::unique_ptr<Endpoint> sender_;  // writes the record when it ends
  MemoryRegion source_{};
  MemoryRegion sink_{};
  ConnId conn_{};
  double seconds_ = 0;
};

}  // namespace

Result<Recorded> record_transfer(const RecordOptions& options) {
  const auto choice = builtin_registry().find_congestion_control(options.congestion_control);
  if (!choice.ok()) return choice.error();
  if (const Status made = make_file(options.file); !made.ok()) return made.error();
  Recorded out{.algorithm = std::string(choice.value().info->name)};
  {
    Transfer transfer(options);
    if (const Status status = transfer.run(); !status.ok()) return status.error();
    out.seconds = transfer.seconds();
  }
  const auto text = read_file(options.file);
  if (!text.ok()) return text.error();
  const auto recordings = parse_recordings(text.value(), options.file);
  if (!recordings.ok()) return Error(ErrorCode::kIo, recordings.error().message());
  const Recording& record = recordings.value().front();
  if (record.events.size() != record.announced)
    return Error(ErrorCode::kIo, cat(options.file, " holds ", record.events.size(), " of ",
                                     record.announced, " events; write it where there is room"));
  out.events = record.events.size();
  out.left_out = record.left_out;
  return out;
}

}  // namespace spindrift::simtool
