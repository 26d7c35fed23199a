#include "relay/connection/session_resources.h"

#include <cerrno>

namespace fairlead::relay {

SessionResources::SessionResources(SessionServices& own_services, StageHost& own_host,
                                   std::uint64_t own_number, Direction to,
                                   const SocketAddress& where, SocketMemory paid, TimePoint now)
    : services(own_services),
      host(own_host),
      number(own_number),
      direction(to),
      destination(where),
      memory(std::move(paid)),
      report(own_services, own_number, to, now),
      deadlines(services.timers, [this] { handle_deadline(); }) {}

void SessionResources::handle_deadline() {
  const DeadlineKind kind = deadlines.take_earliest();
  switch (row_of(kind).effect) {
    case DeadlineEffect::kEvent:
      return host.handle(DeadlineDue{kind}, now());
    case DeadlineEffect::kTurn:
      return mark_ready();
    case DeadlineEffect::kSession:
      if (outbound() && net) services.network.probe_peer(*net);
      return reset_if_lost();
  }
}

void SessionResources::provide_for_lasting() {
  deadlines.set(DeadlineKind::kLasting, now() + kLastingFrom);
}

void SessionResources::reset_if_lost() {
  for (event::Stream* const stream : {app.get(), net.get()})
    if (stream != nullptr) stream->reset_if_lost();
}

void SessionResources::pay_for_growth(std::size_t ahead_bytes, bool net_carries) {
  memory.moved(report.bytes(), *app, net_carries ? net.get() : nullptr);
  memory.keep_ahead(ahead_bytes);
}

End SessionResources::lose_net(int error) {
  if (!means_vanished(error)) return End{"reset"};
  report.peer_vanished(peer(), to_string(system_error("the peer's host", error)));
  return End{"the peer's host no longer answers"};
}

End SessionResources::refuse_for_memory() {
  services.admission.note_refusal(outbound() ? *app : *net, Admission::Refusal::kMemory);
  return End{"memory.limit is spent"};
}

StageResult SessionResources::close_in_order(TimePoint now) {
  if (close_order.may_close(*net, now)) return End{};
  deadlines.set(DeadlineKind::kFin, close_order.next_deadline());
  return Stay{};
}

bool means_vanished(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

}  // namespace fairlead::relay
