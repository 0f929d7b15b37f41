// NewReno as QUIC has it: RFC 9002 §7 and appendix B.
#pragma once

#include "core/congestion/loss_based.h"

namespace peerbed {

class NewReno final : public LossBasedController {
 public:
  using LossBasedController::LossBasedController;
  [[nodiscard]] std::string_view name() const override { return "newreno"; }

 private:
  DataSize grown(const AckedPackets& acked, DataSize bytes) override;
  void on_no_growth(TimePoint) override {}
  DataSize reduced(DataSize of) const override { return {of.bytes / 2}; }
  void on_reduction(bool) override { acknowledged_ = {}; }
  void save() override {}
  void restore() override {}
  void reset() override { acknowledged_ = {}; }

  DataSize acknowledged_{};  ///< since the last whole datagram of growth: no byte of an acknowledgement is lost to division
};

}  // namespace peerbed
