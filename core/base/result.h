// Result: a value, or one sentence for the operator that says what was wrong.
#pragma once

#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace peerbed {

enum class ErrorKind : unsigned char {
  bad_input,    // the user's file, flag or value: exit code 2
  unavailable,  // the system refuses: address in use, no such file, no permission
  unsupported,  // this backend or build cannot do it: exit code 127
  protocol,     // a peer broke the protocol
};

struct Error {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message;
};

/// Called by boost::system::result when a caller takes the value of an error: that is our bug.
[[noreturn]] inline void throw_exception_from_error(const Error& error, const boost::source_location& where) {
  throw std::logic_error(error.message + " (unchecked Result at " + where.file_name() + ":" +
                         std::to_string(where.line()) + ")");
}

template <class T>
using Result = boost::system::result<T, Error>;

[[nodiscard]] inline Error bad_input(std::string message) { return {ErrorKind::bad_input, std::move(message)}; }
[[nodiscard]] inline Error unavailable(std::string message) { return {ErrorKind::unavailable, std::move(message)}; }
[[nodiscard]] inline Error unsupported(std::string message) { return {ErrorKind::unsupported, std::move(message)}; }
[[nodiscard]] inline Error protocol_error(std::string message) { return {ErrorKind::protocol, std::move(message)}; }

}  // namespace peerbed
