#include "app/window/controller.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <algorithm>
#include <cmath>

#include "app/window/engine_loader.h"
#include "app/window/run_task.h"
#include "core/error.h"
#include "views/format.h"

namespace slotscope::app {

namespace {

constexpr size_t cached_bytes = size_t(768) << 20;

size_t headBytes(const analysis::HeadData& h) {
  return h.routes.index.size() * 4 + (h.routes.weight.size() + h.routes.log_decay.size() + h.routes.strength.size()) * 8 +
         h.writes.token.size() * 44 + h.read_weight.size() * 8;
}

QString baseName(const QString& path) {
  const QFileInfo info(path);
  // A folder given as "." or with a closing slash has no name of its own in the text.
  return QFileInfo(info.absoluteFilePath()).canonicalFilePath().isEmpty() ? info.fileName()
                                                                        : QFileInfo(info.canonicalFilePath()).fileName();
}

}  // namespace

Controller::Controller(views::SelectionModel* selection, QObject* parent)
    : QObject(parent),
      selection_(selection),
      folder_(QDir::tempPath() + "/slotscope-XXXXXX"),
      engine_state_(std::make_shared<EngineState>()) {
  connect(selection_, &views::SelectionModel::changed, this,
          [this](const views::Selection&, int parts) { selectionChanged(parts); });
  for (views::Worker* worker : {&io_, &analysis_, &draw_, &engine_}) {
    connect(worker, &views::Worker::failed, this, [this](const QString& tag, const QString& text) {
      Q_EMIT problem({.summary = QString("Unexpected error in %1: %2").arg(tag, text), .details = text});
    });
    connect(worker, &views::Worker::idle, this, &Controller::settledChanged, Qt::QueuedConnection);
  }
}

Controller::~Controller() {
  // Everything that runs is asked to stop; the workers then join within one layer of one segment.
  jobs_.cancelAll();
  if (head_progress_) head_progress_->request_cancel();
  if (summary_progress_) summary_progress_->request_cancel();
}

bool Controller::settled() const {
  return !jobs_.anyRunning() && !io_.busy() && !analysis_.busy() && !draw_.busy() && !engine_.busy();
}

bool Controller::hasUnsavedWork() const {
  return std::any_of(session_.begin(), session_.end(),
                     [](const auto& t) { return t->saved_as.isEmpty() && t->seconds > 60; });
}

QString Controller::modelName() const {
  if (trace_) {
    const QString name = baseName(QString::fromStdString(trace_->trace->model().checkpoint));
    if (!name.isEmpty()) return name;
    return QString::fromStdString(trace_->trace->model().family);
  }
  return checkpoint_ ? checkpoint_->name : QString();
}

// A newer request with the same tag replaces a queued one, which then never answers: its job ends here.
int Controller::startReading(const QString& tag, const QString& name, std::shared_ptr<Progress> progress) {
  if (const int before = reading_jobs_.value(tag)) jobs_.end(before, JobState::cancelled, "replaced by a newer request");
  return reading_jobs_[tag] = jobs_.start(name, std::move(progress), true);
}

// ---------------------------------------------------------------- opening

void Controller::openPath(const QString& path) {
  const QFileInfo info(path);
  const QString suffix = info.suffix().toLower();
  if (info.isDir() || suffix == "safetensors" || path.endsWith(".safetensors.index.json")) openCheckpoint(path);
  else openTrace(path);  // whatever it is: the reader says what is wrong with it
}

void Controller::openCheckpoint(const QString& path, const QString& flavour, bool then_run) {
  const int ticket = ++opening_;
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("reading headers", 0);
  const int job = startReading("checkpoint", "Open " + baseName(path), progress);
  io_.post("checkpoint", this, [this, path, flavour, then_run, ticket, job]() -> views::Worker::Done {
    auto result = std::make_shared<OpenCheckpoint>();
    result->path = path;
    result->name = baseName(path);
    result->flavour = flavour.toStdString();
    std::optional<Problem> failure;
    try {
      result->checkpoint = formats::Checkpoint::open(path.toStdString());
      result->name = baseName(QString::fromStdString(result->checkpoint->folder().string()));
    } catch (const std::exception& e) {
      failure = problemFrom(e, "Opening " + path);
    }
    if (result->checkpoint) {
      // A file that cannot be run can still be looked at.
      try {
        result->info = std::make_shared<engine::ModelInfo>(engineApi().inspect(*result->checkpoint, result->flavour));
      } catch (const std::exception& e) {
        result->why = QString::fromUtf8(e.what());
      }
      try {
        result->tokenizer = formats::Tokenizer::load(result->checkpoint->folder());
        if (!result->tokenizer) result->tokenizer_why = "This folder has no tokenizer: only token ids can be run.";
      } catch (const std::exception& e) {
        result->tokenizer_why = QString::fromUtf8(e.what());
      }
    }
    return [this, result, failure, then_run, ticket, job] {
      jobs_.end(job, failure ? JobState::failed : JobState::finished, failure ? failure->summary : QString());
      if (ticket != opening_ && !failure) return;  // a newer one was asked for meanwhile
      if (failure) {
        Q_EMIT problem(*failure);
        Q_EMIT logged("Could not open " + result->path);
        return;
      }
      adoptCheckpoint(result, then_run);
    };
  });
}

void Controller::adoptCheckpoint(std::shared_ptr<const OpenCheckpoint> checkpoint, bool then_run) {
  checkpoint_ = std::move(checkpoint);
  seconds_per_token_ = 0;
  Q_EMIT checkpointChanged();
  Q_EMIT opened(checkpoint_->path, "checkpoint");
  Q_EMIT logged(QString("Opened %1: %2 tensors, %3")
                    .arg(checkpoint_->path, views::count(qint64(checkpoint_->checkpoint->tensors().size())),
                         views::bytes(qint64(checkpoint_->checkpoint->total_bytes()))));
  for (const auto& w : checkpoint_->checkpoint->warnings()) Q_EMIT logged("Warning: " + QString::fromStdString(w));
  if (!checkpoint_->why.isEmpty()) {
    Problem p = warning(checkpoint_->why, "cannot-run");
    p.summary = QString("%1 can be looked at but not run. %2").arg(checkpoint_->name, checkpoint_->why);
    Q_EMIT problem(p);
  } else {
    Q_EMIT problemSolved("cannot-run");
  }
  if (then_run && checkpoint_->info) run(RunSettings{});
}

void Controller::openTrace(const QString& path) {
  const int ticket = ++opening_;
  auto progress = std::make_shared<Progress>();
  progress->begin_stage("opening", 0);
  const int job = startReading("trace " + path, "Open " + baseName(path), progress);
  io_.post("trace " + path, this, [this, path, ticket, job, progress]() -> views::Worker::Done {
    auto result = std::make_shared<OpenTrace>();
    result->path = path;
    result->saved_as = path;
    std::optional<Problem> failure;
    try {
      result->trace = trace::Trace::open(path.toStdString(), progress.get());
    } catch (const std::exception& e) {
      failure = problemFrom(e, "Opening " + path);
    }
    return [this, result, failure, ticket, job, progress] {
      const bool cancelled = progress->cancel_requested();
      jobs_.end(job, cancelled ? JobState::cancelled : failure ? JobState::failed : JobState::finished,
                failure ? failure->summary : QString());
      if (cancelled) return;
      if (failure) {
        Q_EMIT problem(*failure);
        Q_EMIT logged("Could not open " + result->path);
        return;
      }
      Q_EMIT opened(result->path, "trace");
      if (ticket == opening_) showTrace(result);
      else keepTrace(result);  // a newer one was asked for meanwhile: this one is in the list of prompts
    };
  });
}

void Controller::reload() {
  keep_selection_ = true;
  if (trace_) openTrace(trace_->path);
  else if (checkpoint_) openCheckpoint(checkpoint_->path, QString::fromStdString(checkpoint_->flavour));
}

// ---------------------------------------------------------------- showing

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
  Q_EMIT logged(QString("Trace %1: %2 run%3, written by %4").arg(trace_->path).arg(t.run_count()).arg(t.run_count() == 1 ? "" : "s").arg(QString::fromStdString(t.writer_version())));
  if (t.status() == trace::Status::complete && !t.writer_alive_or_dead()) return;
  qint64 have = 0, planned = 0;
  for (int i = 0; i < t.run_count(); ++i) have += t.run(i).tokens, planned += std::max(t.run(i).planned_tokens, t.run(i).tokens);
  QString text = planned > have ? QString("This trace ends at token %1 of %2.").arg(views::count(have), views::count(planned))
                                : QString("This trace holds %1 tokens.").arg(views::count(have));
  switch (t.status()) {
    case trace::Status::cancelled: text += " The run was cancelled."; break;
    case trace::Status::failed: text += " The run failed."; break;
    default: text += t.writer_alive_or_dead() ? " It is still being written, or its writer stopped: F5 reads it again." : " The run did not end."; break;
  }
  Q_EMIT problem(warning(text, "partial"));
}

QString Controller::whyNoRoutes(int layer) const {
  if (!run_data_) return "Nothing is open";
  const auto& layers = run_data_->info().layers;
  if (size_t(layer) >= layers.size()) return "This trace has no layers";
  const auto& spec = layers[size_t(layer)];
  if (spec.route_kind == "sparse") return QString("No routes of layer %1 were captured.").arg(spec.index);
  return QString("Layer %1 is %2: it has no routes.").arg(spec.index).arg(QString::fromStdString(spec.family));
}

std::shared_ptr<views::RunData> Controller::makeRunData() const {
  auto data = std::make_shared<views::RunData>();
  data->trace = trace_->trace;
  data->run = run_;
  data->model_name = modelName();
  QString device = QString::fromStdString(trace_->trace->model().device).toUpper();
  const QString dtype = QString::fromStdString(trace_->trace->model().dtype);
  data->device_text = device.isEmpty() ? dtype : dtype.isEmpty() ? device : device + QStringLiteral(" · ") + dtype;
  data->allocation = allocation_;
  data->esl = esl_;
  if (!own_roles_) {
    auto info = std::make_shared<trace::RunInfo>(trace_->trace->run(run_));
    info->roles.assign(size_t(info->tokens), 0);
    for (const auto& [first, last] : role_ranges_)
      for (qint64 t = std::max<qint64>(0, first); t < std::min<qint64>(last, info->tokens); ++t) info->roles[size_t(t)] = 1;
    data->own_info = std::move(info);
  }
  return data;
}

std::function<QString(int32_t)> Controller::tokenNames() const {
  if (!trace_) return {};
  auto tokenizer = trace_->tokenizer;
  if (!tokenizer && checkpoint_ && checkpoint_->info && checkpoint_->info->tensor_digest == trace_->trace->model().tensor_digest)
    tokenizer = checkpoint_->tokenizer;
  if (!tokenizer) return {};
  return [tokenizer](int32_t id) {
    if (id < 0 || id >= tokenizer->size()) return QString();
    const std::string bytes = tokenizer->token_bytes(id);
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
  // Text is there at once; the numbers follow from the worker, one head first where reading all of them takes a while.
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
  const int job = startReading("summary", "Analyse " + QString::fromStdString(trace_->trace->run(run_).name), progress);
  const auto roles = run_data_->own_info ? run_data_->own_info->roles : std::vector<uint8_t>{};
  analysis_.post("summary", this,
                 [this, progress, job, trace = trace_, run = run_, generation = generation_, choose_first, roles,
                  allocation = allocation_, esl = esl_]() -> views::Worker::Done {
                   auto summary = std::make_shared<analysis::RunSummary>();
                   std::optional<Problem> failure;
                   if (!progress->cancel_requested()) try {
                     *summary = analysis::summarise(*trace->trace, run, allocation, esl, progress.get(), roles.empty() ? nullptr : &roles);
                   } catch (const std::exception& e) {
                     failure = problemFrom(e, "Analysing " + trace->path);
                   }
                   return [this, progress, job, trace, run, generation, choose_first, summary, failure] {
                     const bool stopped = progress->cancel_requested();
                     jobs_.end(job, stopped ? JobState::cancelled : failure ? JobState::failed : JobState::finished,
                               failure ? failure->summary : stopped ? QStringLiteral("cancelled") : QString());
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

void Controller::summarised(std::shared_ptr<OpenTrace> trace, int run, int, bool choose_first, analysis::RunSummary summary) {
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
  selection_->request({.layer = first.layer, .head = first.head, .slot = first.slot, .token = qint64(first.token)}, true);
}

void Controller::updateLimits() {
  if (!run_data_) {
    selection_->setLimits(0, 0, 0, 0, 0);
    return;
  }
  const auto& info = run_data_->info();
  const int layer = std::clamp(selection_->current().layer, 0, std::max(0, int(info.layers.size()) - 1));
  int64_t heads = 0, slots = 0;
  if (!info.layers.empty() && info.layers[size_t(layer)].route_kind == "sparse") {
    heads = info.layers[size_t(layer)].route_heads;
    slots = info.layers[size_t(layer)].slots;
  } else {
    // A layer without routes keeps the numbers chosen before: they come back with the next layer.
    for (const auto& spec : info.layers) {
      if (spec.route_kind != "sparse") continue;
      heads = std::max(heads, spec.route_heads);
      slots = std::max(slots, spec.slots);
    }
  }
  selection_->setLimits(trace_->trace->run_count(), int(info.layers.size()), int(heads), int(slots), info.tokens);
}

void Controller::selectionChanged(int parts) {
  if (!run_data_) return;
  if (parts & views::SelectionModel::Run && selection_->current().run != run_) {
    keep_selection_ = true;
    showRun(selection_->current().run);
    return;
  }
  if (parts & views::SelectionModel::Layer) updateLimits();
  if (parts & (views::SelectionModel::Layer | views::SelectionModel::Head)) {
    if (choosing_ && parts) choosing_ = parts == 0;  // the user was faster than the first answer
    showHead();
  }
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
                      info.find("layers/" + std::to_string(info.layers[size_t(s.layer)].index) + "/route_index");
  if (!routed) {
    head_data_ = nullptr;
    const bool sparse = size_t(s.layer) < info.layers.size() && info.layers[size_t(s.layer)].route_kind == "sparse";
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
                     head = analysis::load_head(*trace->trace, key.run, layer, key.head, allocation, esl, progress.get(), roles.empty() ? nullptr : &roles);
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

void Controller::adoptHead(std::shared_ptr<const analysis::HeadData> head) {
  head_data_ = std::move(head);
  Q_EMIT loadingChanged(false, {});
  Q_EMIT headChanged(head_data_, {}, {});
}

// ---------------------------------------------------------------- options of the analysis

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
  if (o.threshold == allocation_.threshold && o.tau == allocation_.tau && o.retrieval_head == allocation_.retrieval_head) return;
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
  return last - first == 1 ? QString("brushed token %1").arg(first) : QString("brushed tokens %1–%2").arg(first).arg(last - 1);
}

// ---------------------------------------------------------------- jumps

void Controller::bestHead() {
  if (!run_data_ || run_data_->summary.by_score.empty()) return;
  const auto& s = run_data_->summary;
  const views::Selection now = selection_->current();
  const auto at_place = [&](size_t place) -> const analysis::HeadSummary& {
    return s.head_list[size_t(s.by_score[place % s.by_score.size()])];
  };
  // Again: the head chosen last is still selected.
  const auto& last = at_place(best_place_);
  size_t place = last.layer == now.layer && last.head == now.head ? best_place_ + 1 : 0;
  for (size_t tries = 0; tries < s.by_score.size(); ++tries, ++place) {
    if (!at_place(place).has_routes) continue;
    best_place_ = place % s.by_score.size();
    selection_->request({.layer = at_place(place).layer, .head = at_place(place).head});
    return;
  }
}

void Controller::lastWriter() {
  if (!head_data_) return;
  const auto& w = head_data_->writes;
  const int slot = selection_->current().slot;
  if (slot < 0 || slot >= w.slots) return;
  const int64_t first = w.begin[size_t(slot)], last = w.begin[size_t(slot) + 1];
  if (first == last) {
    Q_EMIT note(QString("Nothing was written into slot %1").arg(slot));
    return;
  }
  // The write before the selected token; from the first one on, the last of all again.
  int64_t at = last - 1;
  for (int64_t i = last - 1; i >= first; --i)
    if (w.token[size_t(i)] < selection_->current().token) {
      at = i;
      break;
    }
  selection_->request({.token = qint64(w.token[size_t(at)])});
}

void Controller::strongestReader() {
  if (!head_data_) return;
  if (head_data_->read_token.empty() || head_data_->read_heads.empty()) {
    Q_EMIT note("No reads were captured");
    return;
  }
  const qint64 token = selection_->current().token;
  analysis_.post("reader", this, [this, head = head_data_, token]() -> views::Worker::Done {
    double best = -1;
    int64_t reader = -1;
    const size_t slots = size_t(head->routes.slots), group = head->read_heads.size();
    for (size_t i = 0; i < head->read_token.size(); ++i) {
      if (head->read_token[i] <= token) continue;
      for (size_t g = 0; g < group; ++g) {
        const auto a = analysis::read_attribution(
            head->writes, std::span(head->read_weight).subspan((i * group + g) * slots, slots), head->read_token[i]);
        if (size_t(token) < a.weight.size() && a.weight[size_t(token)] > best) {
          best = a.weight[size_t(token)];
          reader = head->read_token[i];
        }
      }
    }
    return [this, head, token, reader] {
      if (head != head_data_ || token != selection_->current().token) return;
      if (reader < 0) Q_EMIT note(QString("No captured read after token %1").arg(token));
      else selection_->request({.token = qint64(reader)});
    };
  });
}

}  // namespace slotscope::app
