#pragma once
// Who may send what: each side grants the other room for so many messages, and for a few words of
// its own (kShown) that always find some. Internal to providers/libfabric.
//
// A kShown needs room too, and that it was taken is told by whatever is sent the other way. The
// last place is kept for a kShown that tells of at least kAnswerFrom taken ones: it gives the other
// side room again, which can then do the same, so both are never stuck.
#include <cstdint>

namespace spindrift {

inline constexpr std::uint16_t kShownRoom = 8;
inline constexpr std::uint16_t kAnswerFrom = kShownRoom / 2;

class OfiRoom {
 public:
  // `own`: messages that we have room for; `theirs`: that the peer has.
  void open(std::uint32_t own, std::uint32_t theirs) {
    own_ = own;
    theirs_ = theirs;
  }

  bool has_room() const { return sent_ - released_by_peer_ < theirs_; }
  std::uint32_t sent() const { return sent_; }
  void on_sent() { ++sent_; }
  std::uint32_t released_by_peer() const { return released_by_peer_; }

  // What the head of anything that comes says. False: no honest peer says that.
  bool on_told(std::uint32_t released, std::uint16_t heard) {
    const std::uint32_t newly_released = released - released_by_peer_;
    const auto newly_heard = static_cast<std::uint16_t>(heard - heard_by_peer_);
    // Heads may overtake each other: an old one says nothing.
    if (newly_released <= sent_ - released_by_peer_)
      released_by_peer_ = released;
    else if (static_cast<std::int32_t>(newly_released) > 0)
      return false;
    if (newly_heard <= static_cast<std::uint16_t>(shown_ - heard_by_peer_))
      heard_by_peer_ = heard;
    else if (static_cast<std::int16_t>(newly_heard) > 0)
      return false;
    return true;
  }
  void on_shown_taken() { ++heard_; }
  // Where some may be lost, or come twice: those before `serial` are not waited for any more.
  void on_shown_taken(std::uint16_t serial) {
    const auto next = static_cast<std::uint16_t>(serial + 1);
    if (static_cast<std::int16_t>(next - heard_) > 0) heard_ = next;
  }
  // Those that were sent may never arrive.
  void forget_shown() { heard_by_peer_ = shown_; }

  // What every head of ours tells, with `released` of the peer's messages.
  std::uint16_t heard() const { return heard_; }
  void on_telling(std::uint32_t released) {
    released_told_ = released;
    heard_told_ = heard_;
  }
  // Whether the peer should hear of it even if there is nothing else to say.
  bool owes_room(std::uint32_t released) const {
    return released - released_told_ >= own_ / 4 || owes_answer();
  }
  bool may_show() const {
    const std::uint16_t limit =
        owes_answer() ? kShownRoom : static_cast<std::uint16_t>(kShownRoom - 1);
    return static_cast<std::uint16_t>(shown_ - heard_by_peer_) < limit;
  }
  std::uint16_t shown() const { return shown_; }
  void on_show() { ++shown_; }

 private:
  bool owes_answer() const {
    return static_cast<std::uint16_t>(heard_ - heard_told_) >= kAnswerFrom;
  }

  std::uint32_t own_ = 0;
  std::uint32_t theirs_ = 0;
  std::uint32_t sent_ = 0;
  std::uint32_t released_by_peer_ = 0;
  std::uint32_t released_told_ = 0;
  std::uint16_t shown_ = 0;          // sent by us
  std::uint16_t heard_by_peer_ = 0;  // of these
  std::uint16_t heard_ = 0;          // the peer's, taken by us
  std::uint16_t heard_told_ = 0;
};

}  // namespace spindrift
