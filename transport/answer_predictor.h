#pragma once
// Whether the program answers what arrives at once, as in a ping-pong: then its answer goes first
// and what the transport itself owes (acknowledgements) follows a turn later, off the critical
// path. A wrong guess delays them until the program's next call, once.
//
//   turn: data arrives --answered within kPrompt?--> kTrusted times in a row: data first
#include "spindrift/types.h"

namespace spindrift {

class AnswerPredictor {
 public:
  // At the end of a turn's receive half. True: leave the transmissions of this turn out.
  bool defers_after(bool has_data, Time now) {
    if (had_data_) answers_in_row_ = has_answered_ ? answers_in_row_ + 1 : 0;
    has_answered_ = false;
    had_data_ = has_data;
    last_turn_ = now;
    // Never twice in a row: a stream of data must not hold back its acknowledgements.
    has_deferred_ = has_data && !has_deferred_ && is_prompt();
    return has_deferred_;
  }
  void on_post(Time now) { has_answered_ = had_data_ && now - last_turn_ <= kPrompt; }
  // An answer left at once, and what was deferred with it.
  void on_answer_sent() { has_deferred_ = false; }
  bool is_prompt() const { return answers_in_row_ >= kTrusted; }

 private:
  static constexpr Duration kPrompt = std::chrono::microseconds(20);
  static constexpr std::uint32_t kTrusted = 3;

  Time last_turn_{};
  std::uint32_t answers_in_row_ = 0;
  bool had_data_ = false;
  bool has_answered_ = false;
  bool has_deferred_ = false;
};

}  // namespace spindrift
