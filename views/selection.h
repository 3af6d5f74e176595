// The one selection of the program (design: section 3). Every view asks with request() and follows changed(); none keeps its own.
#pragma once

#include <QObject>
#include <optional>
#include <utility>
#include <vector>

namespace slotscope::views {

struct Selection {
  int run = 0, layer = 0, head = 0, slot = 0;  // head: the one that owns slots
  qint64 token = 0;
  bool operator==(const Selection&) const = default;
};

// What a view wants changed; unset members stay.
struct SelectionRequest {
  std::optional<int> run, layer, head, slot;
  std::optional<qint64> token;
};

class SelectionModel : public QObject {
  Q_OBJECT
 public:
  enum Part { Run = 1, Layer = 2, Head = 4, Slot = 8, Token = 16, All = 31 };
  explicit SelectionModel(QObject* parent = nullptr);

  const Selection& current() const { return current_; }
  int hoverSlot() const { return hover_slot_; }          // -1: none
  qint64 hoverToken() const { return hover_token_; }     // -1: none
  std::optional<std::pair<qint64, qint64>> brush() const { return brush_; }  // half-open
  std::pair<qint64, qint64> tokenRange() const { return token_range_; }      // visible tokens, half-open, linked zoom

  // What exists: requests are clamped to it. slots of the current head, tokens of the current run.
  void setLimits(int runs, int layers, int heads, int slots, qint64 tokens);
  bool canGoBack() const { return at_ > 0; }
  bool canGoForward() const { return at_ + 1 < history_.size(); }

 public Q_SLOTS:
  // One step of history; steps less than 100 ms apart, or with merge = true (held arrow key), merge.
  void request(const slotscope::views::SelectionRequest& wanted, bool merge = false);
  void setHover(int slot, qint64 token);                 // never in history
  void setBrush(std::optional<std::pair<qint64, qint64>> range);
  void setTokenRange(qint64 first, qint64 last, bool merge = false);
  void back();
  void forward();

 Q_SIGNALS:
  void changed(const slotscope::views::Selection& selection, int parts);
  void hoverChanged(int slot, qint64 token);
  void brushChanged();
  void tokenRangeChanged(qint64 first, qint64 last);
  void historyChanged();

 private:
  struct Step {
    Selection selection;
    std::pair<qint64, qint64> range;
    qint64 at_ms = 0;
  };
  void commit(bool merge);
  void go(size_t to);
  Selection clamp(Selection s) const;
  Selection current_;
  int hover_slot_ = -1;
  qint64 hover_token_ = -1;
  std::optional<std::pair<qint64, qint64>> brush_;
  std::pair<qint64, qint64> token_range_{0, 0};
  int runs_ = 0, layers_ = 0, heads_ = 0, slots_ = 0;
  qint64 tokens_ = 0;
  std::vector<Step> history_;
  size_t at_ = 0;
};

}  // namespace slotscope::views
