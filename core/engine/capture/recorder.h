// The observer that a run uses: keeps what the plan wants of one segment on the device, and hands it to the
// sink when the segment is done. A segment that is cancelled leaves nothing behind, neither rows nor counts.
#pragma once

#include <vector>

#include "core/engine/capture/observer.h"
#include "core/engine/capture/plan.h"

namespace slotscope::engine {

class Recorder final : public Observer {
 public:
  Recorder(const RunCapture& capture, const ModelShape& model, int run, trace::Sink& sink, at::Device device);

  // Tokens first .. first+count-1 come next; `answer`: they are generated ones.
  void begin_segment(int64_t first, int64_t count, bool answer);
  // Everything of the segment to the sink.
  void end_segment();
  void drop_segment();
  // The states after token `token`, of all layers that have them. Part of the next end_segment().
  void states(int64_t token, const std::vector<MixerState>& states, const std::vector<const Mixer*>& mixers);
  // logits [1,T,V] of the segment.
  void logits(const at::Tensor& value);
  bool wants_logits() const { return capture_.logits >= 0; }
  void write_counters(const std::vector<const Mixer*>& mixers);
  int64_t ties() const;

  bool wants(Field field, int layer) const override;
  void tell(Field field, int layer, const at::Tensor& value) override;
  void tell_route(int layer, const Route& route, const at::Tensor& gap) override;
  const std::vector<int64_t>& read_rows() const override { return read_rows_; }

 private:
  struct Pending {
    int dataset;
    int64_t rows;
    at::Tensor value;
  };
  struct Counters {
    at::Tensor esl, selected, ties;  // int32 [H_r,M], [H_r,M], [H_r] on the device; all heads
  };
  struct PendingRoute {
    int layer;
    Route route;
    at::Tensor gap;
  };

  void keep(int dataset, const at::Tensor& rows);
  at::Tensor token_rows(const at::Tensor& value) const;
  at::Tensor choose_heads(Field field, int layer, const at::Tensor& value, int64_t axis) const;
  void count(const PendingRoute& pending);

  const RunCapture& capture_;
  const ModelShape& model_;
  int run_;
  trace::Sink& sink_;
  at::Device device_;
  int64_t first_ = 0, count_ = 0;
  bool all_rows_ = true;
  at::Tensor rows_;  // captured rows of the segment, when not all
  std::vector<int64_t> row_list_, read_rows_;
  std::vector<Pending> pending_;
  std::vector<PendingRoute> pending_routes_;
  std::vector<Counters> counters_;
};

}  // namespace slotscope::engine
