// From an open trace to what the views show: runs, summaries, heads, options of the analysis.
#include <algorithm>

#include "app/window/controller.h"
#include "core/error.h"
#include "views/format.h"

namespace slotscope::app {

namespace {

constexpr size_t cached_bytes = size_t(768) << 20;

size_t headBytes(const analysis::HeadData& h) {
  return h.routes.index.size() * 4 +
         (h.routes.weight.size() + h.routes.log_decay.size() + h.routes.strength.size()) * 8 +
         h.writes.token.size() * 20 + h.writes.strength.size() * 24 + h.read_weight.size() * 8;
}

// Layers with a memory of slots, whether routes are stored or follow from a rule.
bool ruled(const trace::LayerSpec& layer) {
  return layer.route_kind == "sparse" || layer.route_kind == "dense" || layer.route_kind == "ring" ||
         layer.route_kind == "append";
}

}  // namespace

void Controller::keepTrace(const std::shared_ptr<OpenTrace>& trace) {
  if (std::find(session_.begin(), session_.end(), trace) != session_.end()) return;
  // The same file opened again replaces what it was.
  std::erase_if(session_, [&](const auto& t) { return t->path == trace->path; });
  session_.insert(session_.begin(), trace);
  if (session_.size() > 8) session_.pop_back();
  Q_EMIT tracesChanged();
}

void Controller::showTrace(std::shared_ptr<OpenTrace> trace, int run) {
  keepTrace(trace);
  trace_ = std::move(trace);
  cache_.clear();
  own_roles_ = true;
  role_ranges_.clear();
  selection_->setBrush(std::nullopt);
  Q_EMIT tracesChanged();
  announceTrace();
  run_ = -1;
  showRun(run);
}

void Controller::announceTrace() {
  const trace::Trace& t = *trace_->trace;
  Q_EMIT problemSolved("partial");
  Q_EMIT logged(QString("Trace %1: %2 run%3, written by %4")
                    .arg(trace_->path)
                    .arg(t.run_count())
                    .arg(t.run_count() == 1 ? "" : "s")
                    .arg(QString::fromStdString(t.writer_version())));
  if (t.status() == trace::Status::complete && !t.writer_alive_or_dead()) return;
  qint64 have = 0, planned = 0;
  for (int i = 0; i < t.run_count(); ++i)
    have += t.run(i).tokens, planned += std::max(t.run(i).planned_tokens, t.run(i).tokens);
  QString text =
      planned > have
          ? QString("This trace ends at token %1 of %2.").arg(views::count(have), views::count(planned))
          : QString("This trace holds %1 tokens.").arg(views::count(have));
  switch (t.status()) {
    case trace::Status::cancelled:
      text += " The run was cancelled.";
      break;
    case trace::Status::failed:
      text += " The run failed.";
      break;
    default:
      text += t.writer_alive_or_dead()
                  ? " It is still being written, or its writer stopped: F5 reads it again."
                  : " The run did not end.";
      break;
  }
  Q_EMIT problem(warning(text, "partial"));
}

QString Controller::whyNoRoutes(int layer) const {
  if (!run_data_) return "Nothing is open";
  const auto& layers = run_data_->info().layers;
  if (size_t(layer) >= layers.size()) return "This trace has no layers";
  const auto& spec = layers[size_t(layer)];
  if (spec.route_kind == "sparse") return QString("No routes of layer %1 were captured.").arg(spec.index);
  return QString("Layer %1 is %2: it has no routes.")
      .arg(spec.index)
      .arg(QString::fromStdString(spec.family));
}

std::shared_ptr<views::RunData> Controller::makeRunData() const {
  auto data = std::make_shared<views::RunData>();
  data->trace = trace_->trace;
  data->run = run_;
  data->model_name = modelName();
  QString device = QString::fromStdString(trace_->trace->model().device).toUpper();
  const QString dtype = QString::fromStdString(trace_->trace->model().dtype);
  data->device_text = device.isEmpty()  ? dtype
                      : dtype.isEmpty() ? device
                                        : device + QStringLiteral(" · ") + dtype;
  data->allocation = allocation_;
  data->esl = esl_;
  if (!own_roles_) {
    auto info = std::make_shared<trace::RunInfo>(trace_->trace->run(run_));
    info->roles.assign(size_t(info->tokens), 0);
    for (const auto& [first, last] : role_ranges_)
      for (qint64 t = std::max<qint64>(0, first); t < std::min<qint64>(last, info->tokens); ++t)
        info->roles[size_t(t)] = 1;
    data->own_info = std::move(info);
  }
  return data;
}

std::function<QString(int32_t)> Controller::tokenNames() const {
  if (!trace_) return {};
  auto tokenizer = trace_->tokenizer;
  if (!tokenizer && checkpoint_ && checkpoint_->info &&
      checkpoint_->info->tensor_digest == trace_->trace->model().tensor_digest)
    tokenizer = checkpoint_->tokenizer;
  if (!tokenizer) return {};
  return [tokenizer](int32_t id) {
    if (id < 0) return QString();
    const std::string bytes = tokenizer->token_bytes(id);
    if (bytes.empty()) return QString::fromStdString(tokenizer->token_text(id));  // "<unused 300>"
    return tokenizer->is_special(id) ? QString::fromStdString(bytes) : views::tokenText(bytes);
  };
}

void Controller::showRun(int run) {
  if (!trace_ || trace_->trace->run_count() == 0) return;
  run = std::clamp(run, 0, trace_->trace->run_count() - 1);
  if (run == run_) return;
  run_ = run;
  ++generation_;
  head_data_ = nullptr;
  wanted_head_ = {};
  const bool choose_first = !std::exchange(keep_selection_, false);
  const auto known = trace_->summaries.find(run_);
  auto data = makeRunData();
  if (known != trace_->summaries.end()) data->summary = known->second;
  run_data_ = data;
  updateLimits();
  if (selection_->current().run != run_) selection_->request({.run = run_});
  Q_EMIT runChanged(run_data_);
  if (known != trace_->summaries.end()) {
    if (choose_first) chooseFirst(known->second);
    showHead(true);
    return;
  }
  // Text is there at once; the numbers follow from the worker, one head first where reading all of them takes
  // a while.
  Q_EMIT loadingChanged(true, "reading routes");
  choosing_ = choose_first;
  if (!choose_first || data->info().tokens > 20'000) showHead(true);
  summarise(choose_first);
}

void Controller::summarise(bool choose_first) {
  if (summary_progress_) summary_progress_->request_cancel();
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("reading routes", 0);
  summary_progress_ = progress;
  const int job =
      startReading("summary", "Analyse " + QString::fromStdString(trace_->trace->run(run_).name), progress);
  const auto roles = run_data_->own_info ? run_data_->own_info->roles : std::vector<uint8_t>{};
  analysis_.post("summary", this,
                 [this, progress, job, trace = trace_, run = run_, generation = generation_, choose_first,
                  roles, allocation = allocation_, esl = esl_]() -> views::Worker::Done {
                   auto summary = std::make_shared<analysis::RunSummary>();
                   std::optional<Problem> failure;
                   if (!progress->cancel_requested()) try {
                       *summary = analysis::summarise(*trace->trace, run, allocation, esl, progress.get(),
                                                      roles.empty() ? nullptr : &roles);
                     } catch (const std::exception& e) {
                       failure = problemFrom(e, "Analysing " + trace->path);
                     }
                   return [this, progress, job, trace, run, generation, choose_first, summary, failure] {
                     const bool stopped = progress->cancel_requested();
                     jobs_.end(job,
                               stopped   ? JobState::cancelled
                               : failure ? JobState::failed
                                         : JobState::finished,
                               failure   ? failure->summary
                               : stopped ? QStringLiteral("cancelled")
                                         : QString());
                     if (generation != generation_ || trace != trace_) return;
                     if (failure) {
                       Q_EMIT loadingChanged(false, {});
                       Q_EMIT problem(*failure);
                     } else if (stopped) {
                       Q_EMIT loadingChanged(false, {});
                     } else {
                       summarised(trace, run, generation, choose_first, std::move(*summary));
                     }
                   };
                 });
}

void Controller::summarised(std::shared_ptr<OpenTrace> trace, int run, int, bool choose_first,
                            analysis::RunSummary summary) {
  if (own_roles_) trace->summaries[run] = summary;
  auto data = makeRunData();
  data->summary = std::move(summary);
  run_data_ = data;
  // Views forget the head with the old run; it comes again below.
  Q_EMIT runChanged(run_data_);
  Q_EMIT loadingChanged(false, {});
  if (choose_first && choosing_) chooseFirst(data->summary);
  choosing_ = false;
  showHead(true);
}

void Controller::chooseFirst(const analysis::RunSummary& summary) {
  choosing_ = false;
  if (summary.head_list.empty()) return;
  const auto& first = summary.first;
  // Two steps: the slot is clamped to what the head has.
  selection_->request({.layer = first.layer, .head = first.head}, true);
  updateLimits();
  selection_->request(
      {.layer = first.layer, .head = first.head, .slot = first.slot, .token = qint64(first.token)}, true);
}

void Controller::updateLimits() {
  if (!run_data_) {
    selection_->setLimits(0, 0, 0, 0, 0);
    return;
  }
  const auto& info = run_data_->info();
  const int layer = std::clamp(selection_->current().layer, 0, std::max(0, int(info.layers.size()) - 1));
  int64_t heads = 0, slots = 0;
  if (!info.layers.empty() && ruled(info.layers[size_t(layer)])) {
    heads = info.layers[size_t(layer)].route_heads;
    slots = info.layers[size_t(layer)].slots;
  } else {
    // A layer without routes keeps the numbers chosen before: they come back with the next layer.
    for (const auto& spec : info.layers) {
      if (!ruled(spec)) continue;
      heads = std::max(heads, spec.route_heads);
      slots = std::max(slots, spec.slots);
    }
  }
  selection_->setLimits(trace_->trace->run_count(), int(info.layers.size()), int(heads), int(slots),
                        info.tokens);
}

void Controller::selectionChanged(int parts) {
  if (!run_data_) return;
  if (parts & views::SelectionModel::Run && selection_->current().run != run_) {
    keep_selection_ = true;
    showRun(selection_->current().run);
    return;
  }
  if (parts & views::SelectionModel::Layer) updateLimits();
  choosing_ = false;  // the user was faster than the first answer, which must not take the selection away
  if (parts & (views::SelectionModel::Layer | views::SelectionModel::Head)) showHead();
}

std::shared_ptr<const analysis::HeadData> Controller::cachedHead(int run, int layer, int head) const {
  for (const auto& [key, data] : cache_)
    if (key == HeadKey{run, layer, head, generation_}) return data;
  return nullptr;
}

void Controller::remember(std::shared_ptr<const analysis::HeadData> head) {
  cache_.push_front({HeadKey{head->run, head->layer, head->head, generation_}, head});
  size_t total = 0;
  for (auto at = cache_.begin(); at != cache_.end();) {
    total += headBytes(*at->second);
    at = at != cache_.begin() && total > cached_bytes ? cache_.erase(at) : std::next(at);
  }
}

void Controller::showHead(bool again) {
  if (!run_data_) return;
  const views::Selection s = selection_->current();
  const HeadKey key{run_, s.layer, s.head, generation_};
  if (!again && key == wanted_head_) return;
  wanted_head_ = key;
  if (head_progress_) head_progress_->request_cancel();
  const auto& info = run_data_->info();
  const bool routed = size_t(s.layer) < info.layers.size() &&
                      trace_->trace->has_routes(run_, info.layers[size_t(s.layer)].index);
  if (!routed) {
    head_data_ = nullptr;
    const bool sparse =
        size_t(s.layer) < info.layers.size() && info.layers[size_t(s.layer)].route_kind == "sparse";
    Q_EMIT loadingChanged(false, {});
    Q_EMIT headChanged(nullptr, whyNoRoutes(s.layer), sparse && checkpoint_ ? "Run again with routes" : "");
    return;
  }
  if (auto known = cachedHead(run_, s.layer, s.head)) {
    adoptHead(known);
    return;
  }
  Q_EMIT loadingChanged(true, QString("reading layer %1 head %2").arg(s.layer).arg(s.head));
  auto progress = std::make_shared<Progress>();
  head_progress_ = progress;
  const auto roles = run_data_->own_info ? run_data_->own_info->roles : std::vector<uint8_t>{};
  analysis_.post("head", this,
                 [this, key, progress, roles, trace = trace_, layer = info.layers[size_t(s.layer)].index,
                  allocation = allocation_, esl = esl_]() -> views::Worker::Done {
                   std::shared_ptr<const analysis::HeadData> head;
                   QString failure;
                   if (!progress->cancel_requested()) try {
                       head = analysis::load_head(*trace->trace, key.run, layer, key.head, allocation, esl,
                                                  progress.get(), roles.empty() ? nullptr : &roles);
                     } catch (const std::exception& e) {
                       failure = QString::fromUtf8(e.what());
                     }
                   return [this, key, progress, trace, head, failure] {
                     if (key != wanted_head_ || trace != trace_ || progress->cancel_requested()) return;
                     if (head) {
                       remember(head);
                       adoptHead(head);
                     } else {
                       head_data_ = nullptr;
                       Q_EMIT loadingChanged(false, {});
                       Q_EMIT headChanged(nullptr, failure, {});
                     }
                   };
                 });
}

std::vector<analysis::EslReference> Controller::eslReferences() const {
  std::vector<analysis::EslReference> list;
  for (const auto& open : session_) {
    for (int run = 0; run < std::min(open->trace->run_count(), 16); ++run) try {
        for (auto& reference : analysis::esl_references(*open->trace, run)) list.push_back(std::move(reference));
      } catch (const Error&) {
        // Damage is reported where the layer is shown.
      }
  }
  return list;
}

std::pair<int, int> Controller::layerLimits(int layer) const {
  if (!run_data_ || layer < 0 || size_t(layer) >= run_data_->info().layers.size()) return {0, 0};
  const auto& spec = run_data_->info().layers[size_t(layer)];
  return ruled(spec) ? std::pair(int(spec.route_heads), int(spec.slots)) : std::pair(0, 0);
}

void Controller::loadHead(
    int layer, int head, QObject* receiver,
    std::function<void(std::shared_ptr<const analysis::HeadData>, const QString&)> done) {
  if (!run_data_) return;
  const auto& info = run_data_->info();
  if (size_t(layer) >= info.layers.size() ||
      !trace_->trace->has_routes(run_, info.layers[size_t(layer)].index))
    return done(nullptr, whyNoRoutes(layer));
  if (auto known = cachedHead(run_, layer, head)) return done(known, {});
  const auto roles = run_data_->own_info ? run_data_->own_info->roles : std::vector<uint8_t>{};
  const HeadKey key{run_, layer, head, generation_};
  analysis_.post(QString("head of %1").arg(quintptr(receiver)), receiver,
                 [this, key, roles, done, trace = trace_, index = info.layers[size_t(layer)].index,
                  allocation = allocation_, esl = esl_]() -> views::Worker::Done {
                   std::shared_ptr<const analysis::HeadData> data;
                   QString why;
                   try {
                     data = analysis::load_head(*trace->trace, key.run, index, key.head, allocation, esl,
                                                nullptr, roles.empty() ? nullptr : &roles);
                   } catch (const std::exception& e) {
                     why = QString::fromUtf8(e.what());
                   }
                   return [this, key, trace, data, why, done] {
                     if (trace != trace_ || key.run != run_ || key.generation != generation_) return;
                     if (data) remember(data);
                     done(data, why);
                   };
                 });
}

void Controller::adoptHead(std::shared_ptr<const analysis::HeadData> head) {
  head_data_ = std::move(head);
  Q_EMIT loadingChanged(false, {});
  Q_EMIT headChanged(head_data_, {}, {});
}

void Controller::reanalyse() {
  ++generation_;
  cache_.clear();
  if (!trace_) return;
  trace_->summaries.clear();
  choosing_ = false;
  wanted_head_ = {};
  auto data = makeRunData();
  data->summary = run_data_->summary;  // the old picture stays until the new one is there
  run_data_ = data;
  Q_EMIT loadingChanged(true, "analysing");
  summarise(false);
}

void Controller::setAllocationOptions(const analysis::AllocationOptions& o) {
  if (o.threshold == allocation_.threshold && o.tau == allocation_.tau &&
      o.retrieval_head == allocation_.retrieval_head)
    return;
  allocation_ = o;
  reanalyse();
}

void Controller::setEslOptions(const analysis::EslOptions& o) {
  if (o.low == esl_.low && o.high == esl_.high) return;
  esl_ = o;
  reanalyse();
}

void Controller::setRoleRanges(std::vector<std::pair<qint64, qint64>> ranges, bool own_roles) {
  own_roles_ = own_roles;
  role_ranges_ = std::move(ranges);
  reanalyse();
}

QString Controller::roleName() const {
  if (own_roles_) return {};
  if (role_ranges_.size() != 1) return QString("%1 token ranges").arg(role_ranges_.size());
  const auto& [first, last] = role_ranges_.front();
  return last - first == 1 ? QString("brushed token %1").arg(first)
                           : QString("brushed tokens %1–%2").arg(first).arg(last - 1);
}
}  // namespace slotscope::app
