// "flow.bulk.goodput >= pftk(loss=links.path.loss, rtt=100 ms, mss=1200 B, b=2) / 1.3": what a scenario expects of a run.
//
//   comparison := sum ("==" | "!=" | "<" | "<=" | ">" | ">=") sum
//   sum        := product (("+" | "-") product)*          product := factor (("*" | "/") factor)*
//   factor     := number [unit] | name | 'text' | name "(" [name "="] sum, … ")" | "(" sum ")" | "-" factor
//
// A name with a hyphen inside is one name ("link.alice-wan.drops"): write spaces round a minus.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "scenarios/measure/metrics.h"
#include "scenarios/measure/quantity.h"

namespace peerbed {

using ExpectationValue = std::variant<Quantity, std::string>;

/// What a name stands for besides metrics: a scenario key ("links.wan.loss"), or a value given with the expectation.
using NameLookup = std::function<std::optional<ExpectationValue>(std::string_view)>;

struct ExpectationOutcome {
  bool ok = false;
  std::optional<ExpectationValue> value, bound;  ///< the two sides, where they could be worked out
  std::string reason;  ///< why nothing could be compared: "there is no metric …"; empty otherwise
};

class Expectation {
 public:
  struct Expression;

  /// Errors are one sentence that quotes the text and says where in it.
  [[nodiscard]] static Result<Expectation> parse(std::string_view text);
  Expectation(Expectation&&) noexcept;
  Expectation& operator=(Expectation&&) noexcept;
  ~Expectation();

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] ExpectationOutcome evaluate(const Metrics& metrics, const NameLookup& lookup = {}) const;

 private:
  Expectation();
  std::string text_, operation_;
  std::unique_ptr<Expression> left_, right_;
};

[[nodiscard]] std::string to_string(const ExpectationValue& value);

/// A quantity with its unit if the text is one, else the text.
[[nodiscard]] ExpectationValue parse_value(std::string_view text);

}  // namespace peerbed
