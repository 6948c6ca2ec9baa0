#include "tools/sim/watch.h"

#include <algorithm>

#include "tools/sim/text.h"

namespace spindrift::simtool {

namespace {

struct CaptureName {
  std::string link{};
  std::string file{};
};

Result<std::vector<CaptureName>> parse_captures(std::span<const std::string> words,
                                                std::span<const std::string> links) {
  std::vector<CaptureName> out;
  for (const std::string& word : words) {
    const std::size_t sign = word.find('=');
    if (sign == std::string::npos || sign == 0 || sign + 1 == word.size())
      return Error(ErrorCode::kInvalidArgument,
                   cat("--pcap ", word, ": write it as LINK=FILE, for example leaf0>host1=x.pcap"));
    out.push_back({.link = word.substr(0, sign), .file = word.substr(sign + 1)});
    if (std::find(links.begin(), links.end(), out.back().link) == links.end())
      return Error(ErrorCode::kInvalidArgument,
                   cat("--pcap ", word, ": ", no_such_link(out.back().link, links)));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::open(const WatchOptions& options,
                                           std::span<const std::string> links) {
  auto out = std::make_unique<Watch>();
  auto filter = parse_event_filter(options.events_of);
  if (!filter.ok()) return filter.error();
  for (const std::string& link : filter.value().links)
    if (std::find(links.begin(), links.end(), link) == links.end())
      return Error(ErrorCode::kInvalidArgument,
                   cat("--events-of ", link, ": ", no_such_link(link, links)));
  const auto names = parse_captures(options.captures, links);
  if (!names.ok()) return names.error();
  for (const auto& [link, file] : names.value()) {
    auto capture = PcapFile::open(link, file);
    if (!capture.ok()) return capture.error();
    out->captures_.push_back(std::move(capture).value());
    out->all_.push_back(out->captures_.back().get());
  }
  if (!options.events.empty()) {
    auto events = EventFile::open(options.events, std::move(filter).value(), options.events_max);
    if (!events.ok()) return events.error();
    out->events_ = std::move(events).value();
    out->all_.push_back(out->events_.get());
  }
  return out;
}

std::optional<sim::Complaint> Watch::begin(const sim::NetworkPlan& plan,
                                           std::span<const sim::FlowRecord> flows) {
  for (sim::RunObserver* one : all_)
    if (auto complaint = one->begin(plan, flows)) return complaint;
  return std::nullopt;
}

void Watch::on_packet(const sim::PacketEvent& event) {
  for (sim::RunObserver* one : all_)
    one->on_packet(event);
}

void Watch::on_port(const sim::PortEvent& event) {
  for (sim::RunObserver* one : all_)
    one->on_port(event);
}

void Watch::on_flow(const sim::FlowEvent& event) {
  for (sim::RunObserver* one : all_)
    one->on_flow(event);
}

Status Watch::finish() {
  Status first = ok_status();
  const auto note = [&first](const Status& status) {
    if (first.ok() && !status.ok()) first = status;
  };
  for (const auto& capture : captures_)
    note(capture->finish());
  if (events_) note(events_->finish());
  return first;
}

}  // namespace spindrift::simtool
