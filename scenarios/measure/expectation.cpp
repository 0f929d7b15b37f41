#include "scenarios/measure/expectation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "core/base/check.h"
#include "scenarios/measure/formulas.h"
#include "scenarios/measure/statistics.h"
#include "topologies/suggest.h"

namespace peerbed {

struct Expectation::Expression {
  enum class Kind : std::uint8_t { constant, text, name, call, negate, binary };
  struct Argument {
    std::string name;  ///< empty: by position
    std::unique_ptr<Expression> value;
  };
  Kind kind = Kind::constant;
  Quantity constant;
  std::string word;  ///< the text, the name, the function, or the operator
  std::vector<Argument> arguments;
};

namespace {

using Expression = Expectation::Expression;
using Evaluated = Result<ExpectationValue>;

constexpr std::array<std::string_view, 6> kFormulaArguments{"mss", "rtt", "loss", "b", "rto", ""};
constexpr std::array<std::string_view, 4> kFunctions{"mathis", "pftk", "min", "max"};
constexpr int kMaxDepth = 64;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.' || c == '*'; }

std::unique_ptr<Expression> make_expression(Expression::Kind kind, std::string word = {}) {
  auto out = std::make_unique<Expression>();
  out->kind = kind;
  out->word = std::move(word);
  return out;
}

/// Recursive descent over the text of one expectation; the first error ends it.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::unique_ptr<Expression> sum() {
    const Depth depth(*this);
    auto left = product();
    while (left && !failed()) {
      skip_space();
      if (at_ >= text_.size() || (text_[at_] != '+' && text_[at_] != '-')) break;
      std::string word(1, text_[at_++]);  // before the right side is read, and not in the same expression
      left = join(std::move(left), std::move(word), product());
    }
    return left;
  }

  std::string comparison_operator() {
    skip_space();
    for (const std::string_view word : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return std::string(word);
    }
    fail("a comparison (==, !=, <, <=, >, >=) is missing");
    return {};
  }

  void end() {
    skip_space();
    if (!failed() && at_ < text_.size()) fail("there is text after the comparison");
  }

  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const std::optional<std::string>& error() const { return error_; }

 private:
  /// Text from a file must not be able to exhaust the stack.
  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxDepth) parser.fail("it is nested too deeply");
    }
    ~Depth() { --parser.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Parser& parser;
  };

  static std::unique_ptr<Expression> join(std::unique_ptr<Expression> left, std::string word, std::unique_ptr<Expression> right) {
    if (!right) return nullptr;
    auto out = make_expression(Expression::Kind::binary, std::move(word));
    out->arguments.push_back({"", std::move(left)});
    out->arguments.push_back({"", std::move(right)});
    return out;
  }

  std::unique_ptr<Expression> product() {
    auto left = factor();
    while (left && !failed()) {
      skip_space();
      if (at_ >= text_.size() || (text_[at_] != '*' && text_[at_] != '/')) break;
      std::string word(1, text_[at_++]);
      left = join(std::move(left), std::move(word), factor());
    }
    return left;
  }

  std::unique_ptr<Expression> factor() {
    const Depth depth(*this);
    if (failed()) return nullptr;
    skip_space();
    if (at_ >= text_.size()) return fail("a value is missing at its end");
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      auto inner = sum();
      return inner && expect(')') ? std::move(inner) : nullptr;
    }
    if (c == '-') {
      ++at_;
      auto inner = factor();
      if (!inner) return nullptr;
      auto out = make_expression(Expression::Kind::negate);
      out->arguments.push_back({"", std::move(inner)});
      return out;
    }
    if (c == '\'' || c == '"') return quoted(c);
    if (is_digit(c)) return number();
    if (is_name_start(c)) return name_or_call();
    return fail(fmt::format("'{}' is not a value", c));
  }

  std::unique_ptr<Expression> quoted(char mark) {
    const auto close = text_.find(mark, at_ + 1);
    if (close == std::string_view::npos) return fail("a quotation mark is not closed");
    auto out = make_expression(Expression::Kind::text, std::string(text_.substr(at_ + 1, close - at_ - 1)));
    at_ = close + 1;
    return out;
  }

  std::unique_ptr<Expression> number() {
    double value = 0;
    const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc{}) return fail("a number cannot be read");
    at_ = static_cast<std::size_t>(end - text_.data());
    auto out = make_expression(Expression::Kind::constant);
    out->constant = Quantity::plain(value);
    const auto before = at_;
    skip_space();
    if (const auto* unit = unit_at(text_.substr(at_))) {
      out->constant = unit->one;
      out->constant.value *= value;
      at_ += unit->name.size();
    } else if (at_ < text_.size() && is_name_start(text_[at_])) {
      return fail(fmt::format("'{}' is not a unit", text_.substr(at_, name_length())));
    } else {
      at_ = before;
    }
    return out;
  }

  [[nodiscard]] std::size_t name_length() const {
    std::size_t n = at_;
    // A hyphen, a slash-free glue of names, belongs to the name only between word characters.
    while (n < text_.size() &&
           (is_name_part(text_[n]) || (text_[n] == '-' && n + 1 < text_.size() && is_name_part(text_[n + 1]) && n > at_)))
      ++n;
    return n - at_;
  }

  std::unique_ptr<Expression> name_or_call() {
    const auto length = name_length();
    std::string word(text_.substr(at_, length));
    at_ += length;
    if (at_ >= text_.size() || text_[at_] != '(') return make_expression(Expression::Kind::name, std::move(word));
    if (std::find(kFunctions.begin(), kFunctions.end(), word) == kFunctions.end())
      return fail(fmt::format("there is no function '{}'{}", word, did_you_mean(word, kFunctions)));
    ++at_;
    auto call = make_expression(Expression::Kind::call, std::move(word));
    skip_space();
    if (at_ < text_.size() && text_[at_] == ')') return fail(fmt::format("{}() needs arguments", call->word));
    while (!failed()) {
      if (!argument(*call)) return nullptr;
      skip_space();
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      return expect(')') ? std::move(call) : nullptr;
    }
    return nullptr;
  }

  bool argument(Expression& call) {
    const bool formula = call.word == "mathis" || call.word == "pftk";
    skip_space();
    std::string name;
    const auto length = at_ < text_.size() && is_name_start(text_[at_]) ? name_length() : 0;
    auto after = at_ + length;
    while (after < text_.size() && text_[after] == ' ') ++after;
    if (length > 0 && after < text_.size() && text_[after] == '=' && !text_.substr(after).starts_with("==")) {
      name = std::string(text_.substr(at_, length));
      at_ = after + 1;
    }
    if (formula && name.empty()) {
      fail(fmt::format("{}() takes named arguments: {}(mss=1200 B, rtt=100 ms, loss=1 %)", call.word, call.word));
      return false;
    }
    const std::span<const std::string_view> known(kFormulaArguments.data(), call.word == "pftk" ? 5 : 4);
    if (formula && std::find(known.begin(), known.end(), name) == known.end()) {
      fail(fmt::format("{}() has no argument '{}'{}", call.word, name, did_you_mean(name, known)));
      return false;
    }
    if (!formula && !name.empty()) {
      fail(fmt::format("{}() takes no named arguments", call.word));
      return false;
    }
    auto value = sum();
    if (!value) return false;
    call.arguments.push_back({std::move(name), std::move(value)});
    return true;
  }

  bool expect(char c) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    fail(fmt::format("a '{}' is missing", c));
    return false;
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }

  std::unique_ptr<Expression> fail(std::string sentence) {
    if (!error_) error_ = std::move(sentence);
    return nullptr;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::optional<std::string> error_;
};

/// Works out one side against what was measured.
class Evaluator {
 public:
  Evaluator(const Metrics& metrics, const NameLookup& lookup) : metrics_(metrics), lookup_(lookup) {}

  Evaluated operator()(const Expression& e) const {
    switch (e.kind) {
      case Expression::Kind::constant: return ExpectationValue{e.constant};
      case Expression::Kind::text: return ExpectationValue{e.word};
      case Expression::Kind::name: return name(e.word);
      case Expression::Kind::call: return call(e);
      case Expression::Kind::negate: {
        auto inner = quantity(*e.arguments[0].value);
        if (!inner) return inner.error();
        inner->value = -inner->value;
        return ExpectationValue{*inner};
      }
      case Expression::Kind::binary: return binary(e);
    }
    return bad_input("nothing to work out");
  }

  /// A bare word that is nothing else is a text: `punch.outcome == relayed`.
  static bool is_bare_word(const Expression& e) { return e.kind == Expression::Kind::name && e.word.find('.') == std::string::npos; }

 private:
  Result<Quantity> quantity(const Expression& e) const {
    auto value = (*this)(e);
    if (!value) return value.error();
    if (const auto* q = std::get_if<Quantity>(&*value)) return *q;
    return bad_input(fmt::format("'{}' is a text, and cannot be reckoned with", std::get<std::string>(*value)));
  }

  Evaluated name(const std::string& word) const {
    if (word == "true" || word == "false") return ExpectationValue{Quantity::plain(word == "true" ? 1 : 0)};
    if (lookup_) {
      if (auto known = lookup_(word)) return *known;
    }
    if (const auto* metric = metrics_.find(word)) {
      if (const auto* number = std::get_if<double>(&metric->value)) return ExpectationValue{Quantity::of(*number, metric->unit)};
      if (const auto* text = std::get_if<std::string>(&metric->value)) return ExpectationValue{*text};
      return bad_input(fmt::format("'{}' is a distribution: say {}.mean, .min, .p50, .p99, .max or .count", word, word));
    }
    if (auto part = of_distribution(word)) return *part;
    const auto known = metrics_.names();
    return bad_input(fmt::format("this run has no metric '{}'{}", word, did_you_mean(word, known)));
  }

  /// "connect.time.p99": the last part says what of the distribution; percentiles may have a fraction ("p99.9").
  std::optional<Evaluated> of_distribution(const std::string& word) const {
    for (auto dot = word.rfind('.'); dot != std::string::npos && dot > 0; dot = word.rfind('.', dot - 1)) {
      const auto* metric = metrics_.find(std::string_view(word).substr(0, dot));
      if (metric == nullptr) continue;
      const auto* samples = std::get_if<Distribution>(&metric->value);
      const std::string_view part = std::string_view(word).substr(dot + 1);
      if (samples == nullptr) return Evaluated(bad_input(fmt::format("'{}' is a single value: it has no '{}'", word.substr(0, dot), part)));
      if (part == "count") return Evaluated(Quantity::plain(static_cast<double>(samples->sorted.size())));
      if (part == "mean") return Evaluated(Quantity::of(samples->mean, metric->unit));
      if (part == "min") return Evaluated(Quantity::of(samples->sorted.front(), metric->unit));
      if (part == "max") return Evaluated(Quantity::of(samples->sorted.back(), metric->unit));
      double percent = -1;
      if (part.size() > 1 && part[0] == 'p') {
        const auto [end, problem] = std::from_chars(part.data() + 1, part.data() + part.size(), percent);
        if (problem != std::errc{} || end != part.data() + part.size()) percent = -1;
      }
      if (percent >= 0 && percent <= 100) return Evaluated(Quantity::of(percentile(samples->sorted, percent / 100), metric->unit));
      return Evaluated(bad_input(fmt::format("'{}' is not known of a distribution: known are mean, min, p50, p99, max, count", part)));
    }
    return std::nullopt;
  }

  Evaluated call(const Expression& e) const {
    if (e.word == "min" || e.word == "max") {
      std::optional<Quantity> best;
      for (const auto& argument : e.arguments) {
        auto value = quantity(*argument.value);
        if (!value) return value.error();
        if (best && !best->same_dimension(*value)) return bad_input(fmt::format("{}() compares {} with {}", e.word, dimension_name(*best), dimension_name(*value)));
        if (!best || (e.word == "min" ? value->value < best->value : value->value > best->value)) best = *value;
      }
      return ExpectationValue{*best};
    }
    return formula(e);
  }

  Evaluated formula(const Expression& e) const {
    LossPath path{};
    for (const auto& argument : e.arguments) {
      auto value = quantity(*argument.value);
      if (!value) return value.error();
      const Quantity wanted = argument.name == "mss" ? Quantity::size(0)
                              : argument.name == "rtt" || argument.name == "rto" ? Quantity::time(0)
                                                                                 : Quantity::plain(0);
      if (!value->same_dimension(wanted))
        return bad_input(fmt::format("{}(): '{}' must be {}, not {}", e.word, argument.name, dimension_name(wanted), dimension_name(*value)));
      if (argument.name == "mss") path.mss_bytes = value->value / 8;
      if (argument.name == "rtt") path.rtt_s = value->value;
      if (argument.name == "loss") path.loss = value->value;
      if (argument.name == "b") path.acked_per_ack = value->value;
      if (argument.name == "rto") path.rto_s = value->value;
    }
    for (const auto& [what, value] : {std::pair{"mss", path.mss_bytes}, {"rtt", path.rtt_s}, {"loss", path.loss}, {"b", path.acked_per_ack}})
      if (!(value > 0)) return bad_input(fmt::format("{}() needs a positive '{}'", e.word, what));
    return ExpectationValue{Quantity::rate(e.word == "mathis" ? mathis(path) : pftk(path))};
  }

  Evaluated binary(const Expression& e) const {
    auto left = quantity(*e.arguments[0].value);
    if (!left) return left.error();
    auto right = quantity(*e.arguments[1].value);
    if (!right) return right.error();
    const char operation = e.word[0];
    if ((operation == '+' || operation == '-') && !left->same_dimension(*right))
      return bad_input(fmt::format("{} and {} cannot be added", dimension_name(*left), dimension_name(*right)));
    switch (operation) {
      case '+': return ExpectationValue{Quantity{left->value + right->value, left->bits, left->seconds}};
      case '-': return ExpectationValue{Quantity{left->value - right->value, left->bits, left->seconds}};
      case '*': return ExpectationValue{Quantity{left->value * right->value, left->bits + right->bits, left->seconds + right->seconds}};
      default: break;
    }
    if (right->value == 0) return bad_input("a division by zero");
    return ExpectationValue{Quantity{left->value / right->value, left->bits - right->bits, left->seconds - right->seconds}};
  }

  const Metrics& metrics_;
  const NameLookup& lookup_;
};

bool holds(double left, const std::string& operation, double right) {
  if (operation == "==") return left == right;
  if (operation == "!=") return left != right;
  if (operation == "<") return left < right;
  if (operation == "<=") return left <= right;
  if (operation == ">") return left > right;
  return left >= right;
}

}  // namespace

Expectation::Expectation() = default;
Expectation::Expectation(Expectation&&) noexcept = default;
Expectation& Expectation::operator=(Expectation&&) noexcept = default;
Expectation::~Expectation() = default;

Result<Expectation> Expectation::parse(std::string_view text) {
  Parser parser(text);
  Expectation out;
  out.text_ = std::string(text);
  out.left_ = parser.sum();
  if (!parser.failed()) out.operation_ = parser.comparison_operator();
  if (!parser.failed()) out.right_ = parser.sum();
  parser.end();
  if (parser.failed()) return bad_input(fmt::format("cannot read the expectation '{}': {}", text, *parser.error()));
  return out;
}

ExpectationOutcome Expectation::evaluate(const Metrics& metrics, const NameLookup& lookup) const {
  const Evaluator evaluate_side(metrics, lookup);
  ExpectationOutcome out;
  const auto left = evaluate_side(*left_);
  if (!left) {
    out.reason = left.error().message;
    return out;
  }
  out.value = *left;
  auto right = evaluate_side(*right_);
  const auto* left_text = std::get_if<std::string>(&*left);
  if (!right && left_text != nullptr && Evaluator::is_bare_word(*right_)) right = ExpectationValue{right_->word};
  if (!right) {
    out.reason = right.error().message;
    return out;
  }
  out.bound = *right;
  const auto* right_text = std::get_if<std::string>(&*right);
  if ((left_text == nullptr) != (right_text == nullptr)) {
    out.reason = "a text and a number cannot be compared";
    return out;
  }
  if (left_text != nullptr) {
    if (operation_ != "==" && operation_ != "!=") out.reason = "texts can only be compared with == and !=";
    else out.ok = (*left_text == *right_text) == (operation_ == "==");
    return out;
  }
  const auto& a = std::get<Quantity>(*left);
  const auto& b = std::get<Quantity>(*right);
  // Zero is zero in every unit: `flow.bulk.time > 0`.
  if (!a.same_dimension(b) && b.value != 0) {
    out.reason = fmt::format("{} and {} cannot be compared", dimension_name(a), dimension_name(b));
    return out;
  }
  out.ok = holds(a.value, operation_, b.value);
  return out;
}

std::string to_string(const ExpectationValue& value) {
  if (const auto* quantity = std::get_if<Quantity>(&value)) return to_string(*quantity);
  return std::get<std::string>(value);
}

ExpectationValue parse_value(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{}) return std::string(text);
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  if (rest.empty()) return Quantity::plain(value);
  const auto* unit = unit_at(rest);
  if (unit == nullptr || unit->name.size() != rest.size()) return std::string(text);
  Quantity out = unit->one;
  out.value *= value;
  return out;
}

}  // namespace peerbed
