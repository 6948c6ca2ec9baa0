#include "tools/sim/pcap_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include <pcap/pcap.h>

#include "providers/wrap/frame.h"
#include "sim/sim_io.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

constexpr std::size_t kEthernetBytes = 14;
constexpr std::size_t kLeastFrameBytes = 60;  // without the check sequence
constexpr std::uint32_t kLongestFrameBytes = 65535;
constexpr std::uint16_t kFirstEntropyPort = 49152;
constexpr sim::Picoseconds kPicosecondsPerSecond = sim::kSecond;

void put16(std::vector<std::byte>& frame, std::size_t at, unsigned value) {
  frame[at] = static_cast<std::byte>(value >> 8U);
  frame[at + 1] = static_cast<std::byte>(value & 0xffU);
}

// Locally administered: 02:00:00 and the NIC's number.
void put_mac(std::vector<std::byte>& frame, std::size_t at, std::uint32_t nic) {
  frame[at] = std::byte{2};
  put16(frame, at + 2, nic >> 16U);
  put16(frame, at + 4, nic & 0xffffU);
}

// IEEE 802.1Qbb: one priority, for as long as can be said, or for no time.
std::vector<std::byte> pause_frame(bool pauses) {
  constexpr unsigned kDataPriority = 0;
  std::vector<std::byte> frame(kLeastFrameBytes);
  constexpr unsigned char kDestination[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};
  std::memcpy(frame.data(), kDestination, sizeof(kDestination));
  frame[6] = std::byte{2};
  put16(frame, 12, 0x8808);
  put16(frame, 14, 0x0101);
  put16(frame, 16, 1U << kDataPriority);
  if (pauses) put16(frame, 18 + 2 * std::size_t{kDataPriority}, 0xffff);
  return frame;
}

}  // namespace

struct PcapFile::Capture {
  struct Close {
    void operator()(pcap_t* one) const { pcap_close(one); }
    void operator()(pcap_dumper_t* one) const { pcap_dump_close(one); }
  };
  std::unique_ptr<pcap_t, Close> pcap;
  std::unique_ptr<pcap_dumper_t, Close> dump;
};

PcapFile::PcapFile(std::string link, std::string path, std::unique_ptr<Capture> capture)
    : link_(std::move(link)), path_(std::move(path)), capture_(std::move(capture)) {}
PcapFile::~PcapFile() = default;

Result<std::unique_ptr<PcapFile>> PcapFile::open(const std::string& link, const std::string& path) {
  auto capture = std::make_unique<Capture>();
  capture->pcap.reset(pcap_open_dead_with_tstamp_precision(
      DLT_EN10MB, static_cast<int>(kLongestFrameBytes), PCAP_TSTAMP_PRECISION_NANO));
  if (capture->pcap == nullptr) return Error(ErrorCode::kNoMemory, "libpcap has no memory");
  capture->dump.reset(pcap_dump_open(capture->pcap.get(), path.c_str()));
  if (capture->dump == nullptr)
    return Error(ErrorCode::kIo,
                 cat("cannot write the capture: ", pcap_geterr(capture->pcap.get())));
  return std::unique_ptr<PcapFile>(new PcapFile(link, path, std::move(capture)));
}

std::optional<sim::Complaint> PcapFile::begin(const sim::NetworkPlan& plan,
                                              std::span<const sim::FlowRecord> /*flows*/) {
  for (const std::string& name : link_names(plan))
    ports_.push_back(name == link_);
  return std::nullopt;
}

void PcapFile::on_packet(const sim::PacketEvent& event) {
  if (event.kind != sim::EventKind::kDequeue || !ports_[event.port] || error_ != 0) return;
  const sim::Packet& packet = *event.packet;
  if (packet.traffic == sim::TrafficClass::kPause) {
    frame_ = pause_frame(packet.pauses);
    write(event.at);
    return;
  }
  NetAddress source = sim::address_of_nic(packet.source);
  source.port = static_cast<std::uint16_t>(kFirstEntropyPort + packet.entropy);
  const std::size_t before = kEthernetBytes + frame_header_bytes(source);
  const std::size_t bytes = sim::udp_payload_bytes(packet);
  frame_.assign(before + bytes, std::byte{0});
  const std::size_t kept = std::min(event.payload.size(), bytes);
  std::memcpy(frame_.data() + before, event.payload.data(), kept);
  put_mac(frame_, 0, packet.destination);
  put_mac(frame_, 6, packet.source);
  put16(frame_, 12, 0x0800);
  write_frame_headers(std::span(frame_).subspan(kEthernetBytes),
                      {.source = source,
                       .destination = sim::address_of_nic(packet.destination),
                       .dscp = packet.dscp,
                       .ecn = packet.ecn});
  frame_.resize(std::max(frame_.size(), kLeastFrameBytes));
  write(event.at);
}

void PcapFile::write(sim::Picoseconds at) {
  pcap_pkthdr header{};
  header.ts.tv_sec = at / kPicosecondsPerSecond;
  header.ts.tv_usec = at % kPicosecondsPerSecond / sim::kNanosecond;  // by the precision asked for
  header.caplen = static_cast<bpf_u_int32>(frame_.size());
  header.len = header.caplen;
  errno = 0;
  pcap_dump(reinterpret_cast<u_char*>(capture_->dump.get()), &header,
            reinterpret_cast<const u_char*>(frame_.data()));
  if (std::ferror(pcap_dump_file(capture_->dump.get())) != 0) error_ = errno == 0 ? EIO : errno;
}

Status PcapFile::finish() {
  errno = 0;
  if (error_ == 0 && pcap_dump_flush(capture_->dump.get()) != 0) error_ = errno == 0 ? EIO : errno;
  capture_->dump.reset();
  if (error_ == 0) return ok_status();
  return Error(ErrorCode::kIo, cat("cannot write the capture of ", link_, " to ", path_, ": ",
                                   std::system_category().message(error_)));
}

}  // namespace spindrift::simtool
