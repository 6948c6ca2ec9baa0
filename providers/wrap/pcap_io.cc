#include "providers/wrap/pcap_io.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>
#include <vector>

#include <pcap/pcap.h>
#include <sys/time.h>

#include "providers/wrap/forwarding_io.h"
#include "providers/wrap/frame.h"

namespace spindrift {
namespace {

constexpr std::size_t kMaxFrameBytes = 65535 + 40;
constexpr std::uint16_t kFirstEntropyPort = 49152;

struct ClosePcap {
  void operator()(pcap_t* pcap) const { pcap_close(pcap); }
};
struct CloseDump {
  void operator()(pcap_dumper_t* dump) const { pcap_dump_close(dump); }
};

// The file. Never disturbs its caller.
class Capture {
 public:
  Status open(const std::string& path, Duration offset);
  void write(Time at, const FrameAddresses& addresses, const TxPacket& packet);
  void write(Time at, const FrameAddresses& addresses, std::span<const std::byte> payload);
  ~Capture();
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  bool is_open() const { return dump_ != nullptr; }
  // What waits in memory goes to the file: errors() is right then.
  void flush();
  std::uint64_t packets() const { return packets_; }
  std::uint64_t errors() const { return errors_; }

 private:
  bool begin(const FrameAddresses& addresses, std::size_t payload_bytes);
  void append(std::span<const std::byte> bytes);
  void finish(Time at, const FrameAddresses& addresses);
  void stop_if_failed();

  std::string path_;
  Duration offset_{};
  std::unique_ptr<pcap_t, ClosePcap> pcap_;
  std::unique_ptr<pcap_dumper_t, CloseDump> dump_;
  std::vector<std::byte> frame_;
  std::size_t frame_bytes_ = 0;
  std::uint64_t packets_ = 0;
  std::uint64_t errors_ = 0;
};

Status Capture::open(const std::string& path, Duration offset) {
  path_ = path;
  offset_ = offset;
  pcap_.reset(pcap_open_dead_with_tstamp_precision(DLT_RAW, static_cast<int>(kMaxFrameBytes),
                                                   PCAP_TSTAMP_PRECISION_NANO));
  if (pcap_ == nullptr) return Error(ErrorCode::kNoMemory, "libpcap has no memory");
  dump_.reset(pcap_dump_open(pcap_.get(), path.c_str()));
  if (dump_ == nullptr) {
    return Error(ErrorCode::kIo,
                 std::string("the capture cannot be written: ") + pcap_geterr(pcap_.get()));
  }
  frame_.resize(kMaxFrameBytes);
  return ok_status();
}

Capture::~Capture() {
  flush();
}

void Capture::flush() {
  if (dump_ == nullptr) return;
  pcap_dump_flush(dump_.get());
  stop_if_failed();
}

void Capture::write(Time at, const FrameAddresses& addresses, const TxPacket& packet) {
  if (!begin(addresses, packet.total_bytes())) return;
  append(packet.header);
  for (std::size_t i = 0; i < packet.payload_pieces; ++i)
    append(packet.payload[i]);
  append(std::span(packet.trailer).first(packet.trailer_bytes));
  finish(at, addresses);
}

void Capture::write(Time at, const FrameAddresses& addresses, std::span<const std::byte> payload) {
  if (!begin(addresses, payload.size())) return;
  append(payload);
  finish(at, addresses);
}

bool Capture::begin(const FrameAddresses& addresses, std::size_t payload_bytes) {
  frame_bytes_ = frame_header_bytes(addresses.source);
  const std::size_t limit = addresses.source.family == 6 ? kMaxFrameBytes : 65535;
  return addresses.source.family == addresses.destination.family &&
         frame_bytes_ + payload_bytes <= limit;
}

void Capture::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::memcpy(frame_.data() + frame_bytes_, bytes.data(), bytes.size());
  frame_bytes_ += bytes.size();
}

void Capture::finish(Time at, const FrameAddresses& addresses) {
  write_frame_headers(std::span(frame_).first(frame_bytes_), addresses);
  const std::int64_t ns = (at.time_since_epoch() + offset_).count();
  pcap_pkthdr header{};
  header.ts.tv_sec = ns / 1'000'000'000;
  header.ts.tv_usec = ns % 1'000'000'000;  // nanoseconds, by the precision asked for
  header.caplen = static_cast<bpf_u_int32>(frame_bytes_);
  header.len = header.caplen;
  pcap_dump(reinterpret_cast<u_char*>(dump_.get()), &header,
            reinterpret_cast<const u_char*>(frame_.data()));
  ++packets_;
  stop_if_failed();
}

void Capture::stop_if_failed() {
  if (std::ferror(pcap_dump_file(dump_.get())) == 0) return;
  std::fprintf(stderr, "spindrift: the capture %s ends after %llu packets: writing failed (%s)\n",
               path_.c_str(), static_cast<unsigned long long>(packets_),
               std::generic_category().message(errno).c_str());
  ++errors_;
  dump_.reset();
}

class PcapIo final : public ForwardingIo<PacketIo> {
 public:
  explicit PcapIo(std::unique_ptr<PacketIo> wrapped) : ForwardingIo(std::move(wrapped)) {
    refresh_caps();
  }
  Status open(const std::string& path, bool has_date);

  const PacketIoCaps& caps() const override { return caps_; }
  Result<std::uint16_t> add_rail(const NetAddress& local) override {
    auto rail = inner().add_rail(local);
    refresh_caps();
    return rail;
  }
  std::size_t receive(std::span<RxPacket> out) override;
  std::size_t reserve(std::span<TxPacket> out) override { return inner().reserve(out); }
  void send(std::span<const TxPacket> packets) override;
  std::uint64_t released() const override { return inner().released(); }
  bool has_unsent() const override { return inner().has_unsent(); }
  void counters(CounterWriter& out) const override;

 private:
  void refresh_caps() { caps_ = inner().caps(); }

  PacketIoCaps caps_;
  mutable Capture capture_;  // whoever asks for the counters brings it up to date
};

Status PcapIo::open(const std::string& path, bool has_date) {
  Duration offset{};
  if (has_date) {
    timespec date{};
    clock_gettime(CLOCK_REALTIME, &date);
    offset = std::chrono::seconds(date.tv_sec) + std::chrono::nanoseconds(date.tv_nsec) -
             inner().now().time_since_epoch();
  }
  return capture_.open(path, offset);
}

std::size_t PcapIo::receive(std::span<RxPacket> out) {
  const std::size_t count = inner().receive(out);
  for (const RxPacket& packet : out.first(count)) {
    if (!capture_.is_open()) break;
    capture_.write(packet.arrival,
                   FrameAddresses{packet.source, rails()[packet.rail], packet.dscp, packet.ecn},
                   packet.bytes);
  }
  return count;
}

// Before the packets are the inner provider's.
void PcapIo::send(std::span<const TxPacket> packets) {
  if (capture_.is_open() && !packets.empty()) {
    const Time now = inner().now();
    for (const TxPacket& packet : packets) {
      NetAddress source = rails()[packet.rail];
      source.port = static_cast<std::uint16_t>(kFirstEntropyPort + packet.entropy);
      capture_.write(now, FrameAddresses{source, *packet.to, packet.dscp, packet.ecn}, packet);
      if (!capture_.is_open()) break;
    }
  }
  inner().send(packets);
}

void PcapIo::counters(CounterWriter& out) const {
  inner().counters(out);
  capture_.flush();
  out.counter("capture_packets", capture_.packets());
  out.counter("capture_write_errors", capture_.errors());
}

}  // namespace

Result<std::unique_ptr<PacketIo>> wrap_with_capture(std::unique_ptr<PacketIo> inner,
                                                    const std::string& path, bool has_date) {
  auto io = std::make_unique<PcapIo>(std::move(inner));
  const auto opened = io->open(path, has_date);
  if (!opened.ok()) return opened.error();
  return std::unique_ptr<PacketIo>(std::move(io));
}

}  // namespace spindrift
