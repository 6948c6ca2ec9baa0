#include "tools/sim/event_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "sim/packet_pool.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

using sim::EventKind;

// In the order of EventKind.
constexpr std::array<std::string_view, 11> kKinds = {
    "enqueue", "mark",      "dequeue", "trim",       "drop",    "pause",
    "resume",  "link_down", "link_up", "flow_start", "flow_end"};
constexpr std::array<std::string_view, 4> kCauses = {"full", "loss", "down", "no_route"};

std::string_view name_of(EventKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

Error not_written(const std::string& path, int error) {
  return Error(ErrorCode::kIo, cat("cannot write the events to ", path, ": ",
                                   std::system_category().message(error == 0 ? EIO : error)));
}

}  // namespace

Result<EventFilter> parse_event_filter(std::span<const std::string> words) {
  EventFilter out;
  for (const std::string& word : words) {
    const auto kind = std::find(kKinds.begin(), kKinds.end(), word);
    std::uint32_t flow = 0;
    if (kind != kKinds.end()) {
      out.kinds.insert(static_cast<EventKind>(kind - kKinds.begin()));
    } else if (word.find('>') != std::string::npos) {
      out.links.insert(word);
    } else if (const char* end = word.data() + word.size();
               word.starts_with("flow=") &&
               std::from_chars(word.data() + 5, end, flow) == std::from_chars_result{end, {}}) {
      out.flows.insert(flow);
    } else {
      return Error(ErrorCode::kInvalidArgument,
                   cat("--events-of ", word, ": must be a link (leaf0>host1), a flow (flow=3), or ",
                       absl::StrJoin(kKinds, ", ", [](std::string* to, std::string_view one) {
                         to->append(one);
                       })));
    }
  }
  return out;
}

Result<std::unique_ptr<EventFile>> EventFile::open(const std::string& path, EventFilter filter,
                                                   std::uint64_t events_max) {
  std::unique_ptr<EventFile> out(new EventFile(path, std::move(filter), events_max));
  errno = 0;
  out->file_.reset(std::fopen(path.c_str(), "w"));
  if (out->file_ == nullptr) return not_written(path, errno);
  return out;
}

std::optional<sim::Complaint> EventFile::begin(const sim::NetworkPlan& plan,
                                               std::span<const sim::FlowRecord> flows) {
  links_ = link_names(plan);
  for (const std::uint32_t flow : filter_.flows)
    if (flow >= flows.size())
      return sim::Complaint{.key = "--events-of",
                            .value = cat("flow=", flow),
                            .limit = cat("this run has the flows 0..", flows.size() - 1)};
  for (const std::string& link : links_)
    wanted_ports_.push_back(filter_.links.empty() || filter_.links.contains(link));
  for (std::uint32_t host = 0; host < plan.hosts; ++host)
    hosts_.push_back(plan.nodes[host].name);
  names_.begin(plan, flows);
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    const sim::FlowRecord& flow = flows[i];
    flows_.push_back(
        {.text = absl::StrFormat(R"("flow":%d,"from":"%s","to":"%s","bytes":%d)", i,
                                 hosts_[flow.source], hosts_[flow.destination], flow.bytes),
         .is_wanted = filter_.flows.empty() || filter_.flows.contains(i)});
    if (filter_.flows.contains(i))
      wanted_connections_.insert(names_.first_flow(flow.source, flow.destination));
  }
  return std::nullopt;
}

void EventFile::on_packet(const sim::PacketEvent& event) {
  const PacketNames::Named named = names_.name(event);
  if (!wants(event.kind, event.port) || !wants_connection(named.flow)) return;
  const sim::Packet& packet = *event.packet;
  std::string rest =
      absl::StrFormat(R"("link":"%s","packet":"%s")", links_[event.port], named.type);
  if (packet.traffic != sim::TrafficClass::kPause)
    absl::StrAppendFormat(&rest, R"(,"from":"%s","to":"%s","path":%d)",
                          hosts_[names_.host_of_nic(packet.source)],
                          hosts_[names_.host_of_nic(packet.destination)], packet.entropy);
  if (named.flow != PacketNames::kNoFlow) append(rest, ",\"flow\":", named.flow);
  if (named.has_psn) append(rest, ",\"psn\":", named.psn);
  absl::StrAppendFormat(&rest, R"(,"bytes":%d,"queue_bytes":%d)", packet.wire_bytes,
                        event.queue_bytes);
  if (packet.is_trimmed) rest += ",\"is_trimmed\":true";
  if (packet.ecn == Ecn::kCe) rest += ",\"is_marked\":true";
  if (event.kind == EventKind::kDrop)
    append(rest, ",\"cause\":\"", kCauses[static_cast<std::size_t>(event.cause)], "\"");
  write(event.at, event.kind, rest);
}

void EventFile::on_port(const sim::PortEvent& event) {
  if (!wants(event.kind, event.port) || !filter_.flows.empty()) return;
  write(event.at, event.kind, cat("\"link\":\"", links_[event.port], "\""));
}

void EventFile::on_flow(const sim::FlowEvent& event) {
  const bool is_wanted_kind = filter_.kinds.empty() || filter_.kinds.contains(event.kind);
  if (!is_wanted_kind || !filter_.links.empty() || !flows_[event.flow].is_wanted) return;
  write(event.at, event.kind,
        cat(flows_[event.flow].text, event.has_failed ? ",\"has_failed\":true" : ""));
}

void EventFile::write(sim::Picoseconds at, EventKind kind, std::string_view rest) {
  if (error_ != 0) return;
  if (written_ == events_max_) {
    ++left_out_;
    return;
  }
  ++written_;
  const std::string line =
      absl::StrFormat("{\"at_ps\":%d,\"event\":\"%s\",%s}\n", at, name_of(kind), rest);
  errno = 0;
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size())
    error_ = errno == 0 ? EIO : errno;
}

Status EventFile::finish() {
  if (error_ == 0 && left_out_ != 0)
    absl::FPrintF(file_.get(), "{\"event\":\"left_out\",\"events\":%d}\n", left_out_);
  errno = 0;
  if (std::fclose(file_.release()) != 0 && error_ == 0) error_ = errno == 0 ? EIO : errno;
  return error_ == 0 ? ok_status() : Status(not_written(path_, error_));
}

}  // namespace spindrift::simtool
