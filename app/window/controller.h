// What is open and what runs. Everything slow happens on workers: one owns LibTorch, one reads files, one
// analyses, one reduces for drawing; the GUI thread only hands over and receives (spec: architecture
// "Threads"; design: section 13).
#pragma once

#include <QHash>
#include <QObject>
#include <QTemporaryDir>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "app/window/jobs.h"
#include "app/window/open_checkpoint.h"
#include "app/window/problem.h"
#include "app/window/run_settings.h"
#include "app/window/tensor_reader.h"
#include "core/analysis/head_data.h"
#include "core/analysis/references.h"
#include "core/engine/session.h"
#include "core/formats/checkpoint.h"
#include "core/formats/prompt_import.h"
#include "core/formats/tokenizer.h"
#include "core/trace/trace.h"
#include "views/selection.h"
#include "views/view.h"
#include "views/worker.h"

namespace slotscope::app {

struct EngineState;
struct RunResult;

// A trace of this session: from a file, or from a run here (then in a private folder until it is saved).
struct OpenTrace {
  std::shared_ptr<trace::Trace> trace;
  QString path;        // of the file that is read
  QString saved_as;    // where the user has it; empty: nowhere yet
  double seconds = 0;  // what the run took; 0 for opened files
  std::map<int, analysis::RunSummary> summaries;
  std::shared_ptr<const formats::Tokenizer> tokenizer;  // of the run's own checkpoint; null for opened files
};

// By its name: what openPath() and drops take for prompts.
bool isPromptFile(const QString& path);

class Controller : public QObject {
  Q_OBJECT
 public:
  explicit Controller(views::SelectionModel* selection, QObject* parent = nullptr);
  ~Controller() override;

  JobModel* jobs() { return &jobs_; }
  views::Worker* drawWorker() { return &draw_; }
  TensorReader* tensorReader() { return &tensor_reader_; }
  const std::shared_ptr<const OpenCheckpoint>& checkpoint() const { return checkpoint_; }
  const std::shared_ptr<OpenTrace>& trace() const { return trace_; }
  const std::vector<std::shared_ptr<OpenTrace>>& sessionTraces() const { return session_; }
  const std::shared_ptr<const views::RunData>& runData() const { return run_data_; }
  const std::shared_ptr<const analysis::HeadData>& headData() const { return head_data_; }
  int currentRun() const { return run_; }
  bool running() const { return run_job_ != 0; }
  // Nothing runs and nothing waits: what is on screen is the whole answer.
  bool settled() const;
  // Work of more than a minute that is nowhere but in the private folder.
  bool hasUnsavedWork() const;
  const analysis::AllocationOptions& allocationOptions() const { return allocation_; }
  const analysis::EslOptions& eslOptions() const { return esl_; }
  QString modelName() const;
  // Dense and ring layers of the runs of all open traces, for the ESL view's references; the present trace first.
  std::vector<analysis::EslReference> eslReferences() const;
  // "brushed tokens 150–157" while roles are not the trace's own, else empty.
  QString roleName() const;
  // Text of token ids that are not in the trace itself (candidates of the output): from its own run's
  // tokenizer, or from the open checkpoint's when its tensors are the trace's. Empty when neither is known.
  std::function<QString(int32_t)> tokenNames() const;

  // One head of the run on screen for a view of its own: `done` is called on the GUI thread while `receiver`
  // lives, with null and the reason when there are no routes. Requests of one receiver replace each other.
  void loadHead(int layer, int head, QObject* receiver,
                std::function<void(std::shared_ptr<const analysis::HeadData>, const QString& why)> done);
  // Heads that own slots, and slots, of a layer; 0 where it has none.
  std::pair<int, int> layerLimits(int layer) const;

 public Q_SLOTS:
  // A folder, weights or index file opens as checkpoint (locations.h), .jsonl, .ndjson, .json or .txt as prompts, all else as
  // trace. Returns at once.
  void openPath(const QString& path);
  void openCheckpoint(const QString& path, const QString& flavour = {}, bool then_run = false,
                      const slotscope::formats::OpenOptions& options = {});
  // Another set of weights of the file that is open.
  void chooseWeights(const QString& candidate);
  void openTrace(const QString& path);
  // Lists a file of prompts; promptsOpened() hands it over.
  void openPrompts(const QString& path);
  void showTrace(std::shared_ptr<slotscope::app::OpenTrace> trace, int run = 0);
  void showRun(int run);
  void reload();
  void run(const slotscope::app::RunSettings& settings);
  void cancelRun();
  void saveTrace(const QString& path);
  void setAllocationOptions(const slotscope::analysis::AllocationOptions& options);
  void setEslOptions(const slotscope::analysis::EslOptions& options);
  // Which tokens count as retrieval: half-open ranges, or none for the trace's own roles.
  void setRoleRanges(std::vector<std::pair<qint64, qint64>> ranges, bool own_roles);
  void estimate(const slotscope::app::RunSettings& settings);
  void countTokens(const QString& text);
  void findDevices();
  // The head with the best retrieval score; asked again while it is selected: the next best.
  void bestHead();
  // The strongest reader of the selected token.
  void strongestReader();
  void lastWriter();

 Q_SIGNALS:
  void checkpointChanged();
  void runChanged(std::shared_ptr<const slotscope::views::RunData> run);  // null: nothing open
  void headChanged(std::shared_ptr<const slotscope::analysis::HeadData> head, const QString& message,
                   const QString& button);
  void loadingChanged(bool loading, const QString& stage);
  void runningChanged(bool running);
  void tracesChanged();
  void problem(const slotscope::app::Problem& problem);
  void problemSolved(const QString& key);
  void note(const QString& text);  // quiet note
  void logged(const QString& text);
  void opened(const QString& path, const QString& kind);  // for the recent list
  void resultOpened(const QString& path, const QString& lab);  // a computed result was asked for; the lab that shows it
  void estimateChanged(const QString& text, bool fits);
  void tokenCountChanged(qint64 count);
  void promptsOpened(std::shared_ptr<const slotscope::formats::PromptFile> file);
  void devicesFound(const std::vector<slotscope::engine::DeviceInfo>& devices, const QString& why_no_cuda);
  void settledChanged();

 private:
  friend struct RunTask;
  void adoptCheckpoint(std::shared_ptr<const OpenCheckpoint> checkpoint, bool then_run);
  void runEnded(int job, const RunSettings& settings, std::shared_ptr<RunResult> result);
  int startReading(const QString& tag, const QString& name, std::shared_ptr<Progress> progress);
  void summarise(bool choose_first);
  void summarised(std::shared_ptr<OpenTrace> trace, int run, int generation, bool choose_first,
                  analysis::RunSummary summary);
  void showSummary(const analysis::RunSummary& summary, bool choose_first);
  void chooseFirst(const analysis::RunSummary& summary);
  void selectionChanged(int parts);
  void updateLimits();
  void showHead(bool again = false);
  void adoptHead(std::shared_ptr<const analysis::HeadData> head);
  void reanalyse();
  void announceTrace();
  void keepTrace(const std::shared_ptr<OpenTrace>& trace);
  std::shared_ptr<const analysis::HeadData> cachedHead(int run, int layer, int head) const;
  void remember(std::shared_ptr<const analysis::HeadData> head);
  std::shared_ptr<views::RunData> makeRunData() const;
  QString whyNoRoutes(int layer) const;
  QString newTraceFile();

  views::SelectionModel* selection_;
  JobModel jobs_;
  TensorReader tensor_reader_{&jobs_};
  QTemporaryDir folder_;
  int files_ = 0, generation_ = 0, opening_ = 0;
  std::shared_ptr<const OpenCheckpoint> checkpoint_;
  std::shared_ptr<OpenTrace> trace_;
  std::vector<std::shared_ptr<OpenTrace>> session_;
  int run_ = 0, run_job_ = 0;
  QHash<QString, int> reading_jobs_;  // by tag
  std::shared_ptr<const views::RunData> run_data_;
  std::shared_ptr<const analysis::HeadData> head_data_;
  analysis::AllocationOptions allocation_;
  analysis::EslOptions esl_;
  bool own_roles_ = true;
  std::vector<std::pair<qint64, qint64>> role_ranges_;
  struct HeadKey {
    int run = -1, layer = -1, head = -1, generation = -1;
    bool operator==(const HeadKey&) const = default;
  };
  HeadKey wanted_head_;
  std::list<std::pair<HeadKey, std::shared_ptr<const analysis::HeadData>>> cache_;  // newest first
  std::shared_ptr<Progress> head_progress_, summary_progress_;
  bool choosing_ = false, keep_selection_ = false;
  size_t best_place_ = 0;         // of the head that bestHead() chose last
  double seconds_per_token_ = 0;  // of the last run, for the estimate
  std::shared_ptr<EngineState> engine_state_;
  // Last, so that their threads end before anything they use goes.
  views::Worker io_, analysis_, draw_, engine_;
};

}  // namespace slotscope::app
