#include "relay/worker/lasting_sessions.h"

#include <utility>

#include "relay/connection/session.h"

namespace fairlead::relay {

void LastingSessions::touch(Session& session) {
  if (session.touched_place) return;
  session.touched_place = touched_.size();
  touched_.push_back(&session);
}

void LastingSessions::forget(Session& session) {
  const auto place = std::exchange(session.touched_place, std::nullopt);
  if (!place) return;
  Session* const last = touched_.back();
  touched_.pop_back();
  if (last == &session) return;
  touched_[*place] = last;
  last->touched_place = place;
}

void LastingSessions::record_rest(TimePoint now) {
  recorded_ = now;
  for (Session* const session : std::exchange(touched_, {})) {
    session->touched_place.reset();
    session->record_rest(now);
  }
}

}  // namespace fairlead::relay
