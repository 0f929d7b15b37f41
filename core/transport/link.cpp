#include "core/transport/link.h"

#include "core/transport/link_events.h"

namespace peerbed {

std::string_view to_string(LinkCloseReason reason) {
  switch (reason) {
    case LinkCloseReason::local: return "local";
    case LinkCloseReason::remote: return "remote";
    case LinkCloseReason::handshake_failed: return "handshake_failed";
    case LinkCloseReason::timed_out: return "timed_out";
    case LinkCloseReason::refused: return "refused";
    case LinkCloseReason::reset: return "reset";
    case LinkCloseReason::duplicate: return "duplicate";
    case LinkCloseReason::protocol_error: return "protocol_error";
  }
  return "unknown";
}

void deliver(TimePoint now, const LinkEvent& event, BytesView payload, Link& link, LinkHandler& handler) {
  switch (event.kind) {
    case LinkEvent::Kind::established: return handler.on_link_established(now, link);
    case LinkEvent::Kind::stream_opened: return handler.on_stream_opened(now, link, event.stream);
    case LinkEvent::Kind::stream_readable: return handler.on_stream_readable(now, link, event.stream);
    case LinkEvent::Kind::stream_writable: return handler.on_stream_writable(now, link, event.stream);
    case LinkEvent::Kind::datagram: return handler.on_datagram(now, link, payload);
    case LinkEvent::Kind::observed_address: return handler.on_observed_address(now, link, event.path.remote);
    case LinkEvent::Kind::path_validated: return handler.on_path_validated(now, link, event.path, event.rtt);
    case LinkEvent::Kind::path_changed: return handler.on_path_changed(now, link, event.path);
    case LinkEvent::Kind::closed: return handler.on_link_closed(now, link, event.reason);
  }
}

}  // namespace peerbed
