// Operation lists over the sending half of one connection: work is posted and sent, time passes,
// and a peer answers with acknowledgements, NACKs and responses of any content. After each step the
// engine's accounts agree; in the end every operation completes exactly once, by an honest peer or
// by an abort.
#include <cstddef>
#include <cstdint>
#include <set>

#include "spindrift/version.h"

#include "tests/explore/forge.h"
#include "tests/explore/loose_engine.h"
#include "tests/fuzz/input.h"
#include "transport/base/check.h"
#include "transport/completions.h"
#include "transport/wire/request_codec.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using test::Bytes;

constexpr std::uint16_t kPeerPdcid = 5;
constexpr std::uint32_t kPeerStartPsn = 0x20000;
constexpr std::uint32_t kMtu = 512;
constexpr std::uint64_t kPeerNonce = 77;

struct Operation {
  OpKind kind = OpKind::kSend;
  bool is_unsignaled = false;
  std::uint32_t length = 0;
  std::uint32_t completions = 0;
};

EndpointConfig config_of(FuzzInput& in) {
  EndpointConfig config;
  config.max_connections = 1;
  config.max_regions = 1;
  config.completion_queue = 4U << (in.u8() % 3);
  config.send_queue = 1U << (in.u8() % 4);
  config.receive_queue = 2;
  config.window_packets = 128;
  config.inline_buffers = 2;
  config.max_reads = 2;
  return config;
}

ConnectOptions options_of(FuzzInput& in) {
  constexpr const char* kAlgorithms[] = {
      "fixed_window", "nscc",   "dcqcn",           "dctcp",
      "swift",        "timely", "receiver_credit", "nscc+receiver_credit"};
  ConnectOptions options;
  options.congestion_control = kAlgorithms[in.u8() % std::size(kAlgorithms)];
  options.path_selector = "round_robin";
  options.path_count = 1 + in.u8() % 4;
  options.burst_bytes = in.u8() % 2 == 0 ? 0 : 4096;
  options.max_payload_mtu = kMtu;
  options.crc = CrcChoice::kOff;
  options.silence_limit = 1s;
  options.silence_limit_passive = 2s;
  return options;
}

class Pipeline {
 public:
  explicit Pipeline(FuzzInput& in)
      : in_(in), config_(config_of(in)), engine_(1, config_, 1), memory_(16384) {
    region_ = engine_.context().memory.add(memory_, kAllAccess, {}, 7).value();
    open();
  }
  void step() {
    switch (in_.u8() % 12) {
      case 0:
      case 1:
      case 2:
        post();
        break;
      case 3:
        now_ += Duration(1LL << (in_.u8() % 32));
        break;
      case 4:
        advance();
        break;
      case 5:
        acknowledge(sent_end_ - 1 - in_.u8() % 8);
        break;
      case 6:
      case 7:
        deliver(lying_ack());
        break;
      case 8:
        deliver(nack());
        break;
      case 9:
        respond();
        break;
      case 10:
        deliver(control());
        break;
      default:
        end_by_choice();
    }
    turn();
  }
  // From here on the peer is honest.
  void finish() {
    for (int i = 0; i < 2000 && !is_over(c_->phase) && !is_all_done(); ++i) {
      const std::uint64_t before = sent_end_;
      turn();
      if (sent_end_ != before || c_->send->log.in_flight_packets() != 0 || i % 64 == 0)
        acknowledge(sent_end_ - 1);
      answer_reads();
      if (sent_end_ == before) advance();
    }
    SPINDRIFT_CHECK(is_over(c_->phase) || is_all_done() || has_lied_in_response_);
    engine_.engine().abort(*c_);
    turn();
    check_ended();
  }

 private:
  void open() {
    const ConnectOptions options = options_of(in_);
    c_ = engine_.connect(test::host_address(2), options, now_);
    SPINDRIFT_CHECK(c_ != nullptr);
    std::vector<test::Datagram> out;
    engine_.turn(now_, out);
    const auto hello = test::parse_hello(out.at(0).bytes);
    wire::Hello accept;
    accept.kind = wire::HelloKind::kAccept;
    accept.version_min = kWireVersionMin;
    accept.version_max = kWireVersionMax;
    accept.nonce = kPeerNonce;
    accept.peer_nonce = hello->hello.nonce;
    accept.peer_start_psn = hello->pds.psn;
    accept.payload_mtu = kMtu;
    accept.path_count = 1;
    accept.crc = static_cast<std::uint8_t>(CrcChoice::kOff);
    accept.window_packets = 128;
    accept.max_reads = static_cast<std::uint16_t>(1 + in_.u8() % 2);
    accept.receive_credits = in_.u8() % 8;
    accept.progresses_alone = in_.u8() % 2 == 0;
    credits_ = accept.receive_credits;
    now_ += 20us;
    deliver(test::forge_hello({.psn = kPeerStartPsn, .spdcid = kPeerPdcid, .dpdcid = c_->pdcid},
                              accept));
    SPINDRIFT_CHECK(c_->phase == Phase::kOpen);
    sent_end_ = static_cast<std::uint32_t>(c_->send->log.next().value);
    turn();
  }

  void post() {
    constexpr OpKind kKinds[] = {OpKind::kSend, OpKind::kWrite,    OpKind::kWriteImm,
                                 OpKind::kRead, OpKind::kFetchAdd, OpKind::kCompareSwap};
    WorkRequest work;
    work.user_data = operations_.size();
    work.conn = c_->id;
    work.kind = kKinds[in_.u8() % 6];
    const std::uint8_t flags = in_.u8();
    work.is_unsignaled = (flags & 1) != 0;
    work.has_fence = (flags & 2) != 0;
    const bool is_atomic = work.kind == OpKind::kFetchAdd || work.kind == OpKind::kCompareSwap;
    work.is_inline = (flags & 4) != 0 && !is_atomic && work.kind != OpKind::kRead;
    if ((flags & 8) != 0) work.timeout = Duration(1LL << (in_.u8() % 34));
    std::uint32_t length = in_.u16() % 4096;
    if (work.is_inline) length %= kMaxInlineBytes;
    if (is_atomic) length = 8;
    const Sge piece = sge_of(region_, 0, length);
    work.local = {&piece, 1};
    if (engine_.post(work, now_).accepted == 0) return;
    operations_.push_back(
        {.kind = work.kind, .is_unsignaled = work.is_unsignaled, .length = length});
  }

  void deliver(Bytes bytes) {
    engine_.deliver({.bytes = std::move(bytes), .source = test::host_address(2)}, now_);
  }
  void advance() {
    const Time next = engine_.engine().next_deadline();
    now_ = next == kNever ? now_ + 1ms : std::max(now_, next);
  }

  void turn() {
    std::vector<test::Datagram> out;
    engine_.turn(now_, out);
    for (const test::Datagram& datagram : out)
      note_sent(datagram.bytes);
    std::vector<Completion> done;
    engine_.take_completions(done);
    for (const Completion& one : done)
      note_done(one);
    const std::string broken = test::broken_invariant(engine_.context(), now_);
    if (!broken.empty()) std::fprintf(stderr, "%s\n", broken.c_str());
    SPINDRIFT_CHECK(broken.empty());
    if (carries_data(c_->phase))
      SPINDRIFT_CHECK(static_cast<std::uint32_t>(c_->send->log.next().value) == sent_end_);
  }
  // PSNs leave in order, none is passed over.
  void note_sent(std::span<const std::byte> packet) {
    wire::Pds pds;
    SPINDRIFT_CHECK(wire::parse_pds(packet, pds) == wire::ParseError::kOk);
    std::uint32_t psn = 0;
    bool is_retransmit = false;
    if (const auto* request = std::get_if<wire::RudRequest>(&pds.header)) {
      psn = request->psn;
      is_retransmit = request->is_retransmit;
    } else if (const auto* control = std::get_if<wire::Control>(&pds.header)) {
      if (control->type != wire::ControlType::kCloseCommand) return;
      psn = control->psn;
      is_retransmit = control->is_retransmit;
    } else {
      return;
    }
    if (is_retransmit)
      SPINDRIFT_CHECK(static_cast<std::int32_t>(psn - sent_end_) < 0);
    else
      SPINDRIFT_CHECK(psn == sent_end_++);
    wire::StandardRequest ses;
    std::size_t bytes = 0;
    if (wire::parse(packet.subspan(pds.bytes), ses, bytes) == wire::ParseError::kOk && ses.is_eom &&
        !is_retransmit)
      ++wholly_sent_;
  }
  void note_done(const Completion& one) {
    SPINDRIFT_CHECK(one.user_data < operations_.size());
    SPINDRIFT_CHECK(one.conn == c_->id);
    Operation& operation = operations_[one.user_data];
    SPINDRIFT_CHECK(operation.kind == one.kind);
    SPINDRIFT_CHECK(++operation.completions == 1);
    for (; next_done_ < one.user_data; ++next_done_)  // passed over: it succeeded without a word
      SPINDRIFT_CHECK(operations_[next_done_].is_unsignaled);
    SPINDRIFT_CHECK(one.user_data == next_done_++);
    if (one.status != OpStatus::kOk) return;
    SPINDRIFT_CHECK(!operation.is_unsignaled);
    SPINDRIFT_CHECK(one.bytes == operation.length);
    SPINDRIFT_CHECK(++succeeded_ <= wholly_sent_);
  }

  wire::Ack honest_ack(std::uint32_t cumulative) const {
    wire::Ack ack;
    ack.next = wire::NextHeader::kResponse;
    ack.has_cc = true;
    ack.mpr = 1;
    ack.cack_psn = cumulative;
    ack.spdcid = kPeerPdcid;
    ack.dpdcid = c_->pdcid;
    ack.sack_psn_offset = 1;
    wire::NsccState state;
    state.service_time = 1;
    state.received_quanta = carries_data(c_->phase) ? c_->send->peer_received_quanta + 2 : 0;
    state.received_quanta &= 0xffffff;
    ack.ack_cc_state = wire::pack(state);
    return ack;
  }
  // Everything up to `cumulative`, and more credits than anybody needs.
  void acknowledge(std::uint32_t cumulative) {
    if (!c_->send) return;
    wire::Response response;
    response.return_code = static_cast<std::uint8_t>(wire::ReturnCode::kOk);
    response.modified_length = c_->send->queue.next_receive_sequence + 100;
    if (static_cast<std::int32_t>(c_->send->peer_credits - response.modified_length) > 0)
      response.modified_length = c_->send->peer_credits;
    response.message_id = c_->send->peer_duplicates;
    deliver(test::forge_ack(honest_ack(cumulative), response));
  }
  std::uint32_t near_sent() {
    const std::uint8_t how = in_.u8();
    return how < 240 ? sent_end_ + how % 32 - 24 : in_.u32();
  }
  Bytes lying_ack() {
    wire::Ack ack = honest_ack(near_sent());
    const std::uint8_t flags = in_.u8();
    if ((flags & 1) != 0) ack.next = wire::NextHeader::kNone;
    ack.is_marked = (flags & 2) != 0;
    ack.is_retransmit = (flags & 4) != 0;
    ack.is_probe = (flags & 8) != 0;
    ack.has_cc = (flags & 0x70) != 0;
    if (ack.is_probe)
      ack.probe_opaque = in_.u8() % 32;
    else
      ack.ack_psn_offset = static_cast<std::int16_t>(in_.u8() < 250 ? in_.u8() % 16 : in_.u16());
    ack.mpr = in_.u8();
    ack.sack_psn_offset = static_cast<std::int16_t>(in_.u8() < 250 ? in_.u8() % 16 - 4 : in_.u16());
    ack.sack_bitmap = in_.u64();
    if ((flags & 0x80) != 0) ack.ack_cc_state = in_.u64();
    wire::Response response;
    response.message_id = static_cast<std::uint16_t>(in_.u8() % 8);
    credits_ += in_.u8() % 4;
    response.modified_length = in_.u8() < 250 ? credits_ : in_.u32();
    const bool has_closed = in_.u8() % 32 == 31;
    response.return_code = static_cast<std::uint8_t>(has_closed ? wire::ReturnCode::kNoMoreReceives
                                                                : wire::ReturnCode::kOk);
    return test::forge_ack(ack, response);
  }
  Bytes nack() {
    constexpr std::uint8_t kCodes[] = {1, 2, 4, 7, 9, 9, 9, 10, 0x0e, 0x10, 0x11, 0x17, 0xfe, 0xfe};
    wire::Nack nack;
    const std::uint8_t which = in_.u8();
    nack.code = which < 240 ? kCodes[which % 14] : which;
    nack.psn = near_sent();
    nack.payload = in_.u8() % 64;
    nack.spdcid = in_.u8() < 250 ? kPeerPdcid : std::uint16_t{0};
    nack.dpdcid = c_->pdcid;
    Bytes packet = test::forge_nack(nack);
    if (nack.spdcid == 0) test::append_crc(packet);
    return packet;
  }
  Bytes control() {
    wire::Control control;
    control.type = in_.u8() % 4 == 0 ? static_cast<wire::ControlType>(in_.u8() % 10)
                                     : wire::ControlType::kProbe;
    control.probe_opaque = in_.u16();
    control.psn = kPeerStartPsn + 1 + in_.u8();
    control.payload = control.psn;
    control.spdcid = kPeerPdcid;
    control.dpdcid = c_->pdcid;
    // A farewell out of turn leaves a hole that no honest peer fills.
    has_lied_in_response_ = true;
    return test::forge_control(control);
  }

  // The oldest READ or atomic without its whole answer, if any has left.
  Request* oldest_read() {
    if (!c_->send) return nullptr;
    SendQueue& queue = c_->send->queue;
    for (std::size_t i = 0; i < queue.reads.size(); ++i) {
      Request& request = queue.requests.at_serial(queue.reads[i]);
      if (!request.is_answered) return &request;
    }
    return nullptr;
  }
  void send_response(Request& read, std::uint32_t offset, std::uint32_t bytes) {
    wire::RudRequest pds;
    pds.next = wire::NextHeader::kResponseData;
    pds.psn = kPeerStartPsn + 1 + responses_++;
    pds.spdcid = kPeerPdcid;
    pds.dpdcid = c_->pdcid;
    wire::ResponseData ses;
    ses.read_message_id = static_cast<std::uint16_t>(read.sequence);
    ses.payload_length = static_cast<std::uint16_t>(bytes);
    ses.modified_length = read.length;
    ses.message_offset = offset;
    const Bytes payload(bytes, std::byte{1});
    deliver(test::forge_response_data(pds, ses, payload));
  }
  void answer_reads() {
    if (has_lied_in_response_ || !carries_data(c_->phase)) return;
    if (Request* read = oldest_read())
      send_response(*read, read->response_bytes,
                    std::min(kMtu, read->length - read->response_bytes));
  }
  void respond() {
    Request* read = oldest_read();
    if (read == nullptr || !carries_data(c_->phase)) return;
    const std::uint8_t how = in_.u8();
    if (how < 200) {
      send_response(*read, read->response_bytes,
                    std::min<std::uint32_t>(how + 1, read->length - read->response_bytes));
      return;
    }
    has_lied_in_response_ = true;
    if (how < 210) responses_ += in_.u8() % 4;
    send_response(*read, in_.u16(), in_.u8());
  }

  void end_by_choice() {
    const std::uint8_t how = in_.u8();
    if (how < 16) engine_.engine().close(*c_, now_);
    if (how == 16) engine_.engine().abort(*c_);
    if (how >= 17 && how <= 20)
      engine_.engine().on_io_error({.kind = how == 17   ? IoError::Kind::kPortUnreachable
                                            : how == 18 ? IoError::Kind::kTooBig
                                            : how == 19 ? IoError::Kind::kLinkDown
                                                        : IoError::Kind::kLinkUp,
                                    .to = test::host_address(2),
                                    .max_packet_bytes = in_.u16()},
                                   now_);
  }

  bool is_all_done() const { return c_->send->queue.requests.is_empty(); }
  void check_ended() {
    EngineContext& ctx = engine_.context();
    SPINDRIFT_CHECK(is_over(c_->phase));
    SPINDRIFT_CHECK(!c_->send || c_->send->queue.requests.is_empty());
    for (const Operation& operation : operations_)
      SPINDRIFT_CHECK(operation.completions == 1 || operation.is_unsignaled);
    SPINDRIFT_CHECK(ctx.free_inline.size() == config_.inline_buffers);
    SPINDRIFT_CHECK(ctx.memory.remove(region_, UINT64_MAX).ok());
    std::vector<ConnEvent> events;
    engine_.take_events(events);
    SPINDRIFT_CHECK(events.size() == 2);  // established, and its end
    engine_.engine().release(*c_);
    SPINDRIFT_CHECK(ctx.free_slots.size() == 1);
  }

  FuzzInput& in_;
  EndpointConfig config_;
  test::LooseEngine engine_;
  std::vector<std::byte> memory_;
  MemoryRegion region_;
  Connection* c_ = nullptr;
  Time now_{std::chrono::hours(1)};
  std::vector<Operation> operations_;
  std::uint64_t next_done_ = 0;    // completions of requests come in posting order
  std::uint32_t sent_end_ = 0;     // one past the newest PSN that left
  std::uint64_t wholly_sent_ = 0;  // messages whose last packet has left
  std::uint64_t succeeded_ = 0;
  std::uint32_t responses_ = 0;  // PSNs of ours
  std::uint32_t credits_ = 0;
  bool has_lied_in_response_ = false;
};

void run(FuzzInput in) {
  Pipeline pipeline(in);
  for (int i = 0; i < 256 && !in.is_empty(); ++i)
    pipeline.step();
  pipeline.finish();
}

}  // namespace
}  // namespace spindrift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  spindrift::run(spindrift::FuzzInput(std::span(data, bytes)));
  return 0;
}
