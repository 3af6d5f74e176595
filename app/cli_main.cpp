// slotscope-cli: everything but the window. Options in, exit code out (resources/cli.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "app/cli/commands.h"
#include "app/cli/help.h"
#include "app/cli/make.h"
#include "app/cli/ramnet.h"
#include "core/fields.h"
#include "core/formats/tensor_statistics.h"

namespace slotscope::cli {
namespace {

constexpr const char* kVersion = SLOTSCOPE_VERSION;

struct Settings {
  Console console;
  InfoSettings info;
  RunCommandSettings run;
  TokenizeSettings tokenize;
  DetokenizeSettings detokenize;
  AnalyzeSettings analyze;
  SweepCommandSettings sweep;
  VerifySettings verify;
  MakeSettings make;
  RepairSettings repair;
  SelftestSettings selftest;
  Action ramnet;
  bool fields = false;
};

CLI::App* command(CLI::App& app, const char* name, const char* description, const char* footer) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->footer(footer);
  sub->get_formatter()->column_width(30);
  return sub;
}

void add_output_flags(CLI::App* sub, Console& console, bool quiet) {
  sub->add_flag("--json", console.json, "One JSON document on standard output and nothing else there")->group("Output");
  if (quiet)
    sub->add_flag("-q,--quiet", console.quiet, "No progress and no notes on standard error; warnings stay")->group("Output");
}

void add_info(CLI::App& app, Settings& s) {
  CLI::App* sub = command(app, "info", "What a checkpoint folder holds; reads no weight", kInfoFooter);
  sub->add_option("FOLDER", s.info.folder, "Checkpoint folder, weights file (.safetensors, .bin, .pt, .pth) or index file")->required();
  sub->add_flag("--tensors", s.info.tensors, "List every tensor: name, dtype, shape, bytes");
  sub->add_option("--weights", s.info.weights, "Which weights of a torch.save file that holds several (default: the likely ones)")
      ->option_text("NAME");
  sub->add_option("--flavour", s.info.flavour, "Read the folder as this reference code's (default: detected)")
      ->option_text("fla|goombalab");
  sub->add_flag("--ignore-index", s.info.ignore_index, "Read all *.safetensors, not what the index file lists");
  CLI::Option* tensor = sub->add_option("--tensor", s.info.tensor, "Statistics and a histogram of this tensor, which is read")
                            ->option_text("NAME")->group("One tensor");
  sub->add_option("--bins", s.info.bins, "Bins of the histogram (default 32; 0: none)")
      ->check(whole_number(0, formats::kMaxBins))->option_text("N")->needs(tensor)->group("One tensor");
  sub->add_flag("--log-bins", s.info.log_bins, "Bins as steps of the logarithm on both sides of zero, linear around it")
      ->needs(tensor)->group("One tensor");
  add_output_flags(sub, s.console, true);
}

void add_run(CLI::App& app, Settings& s) {
  CLI::App* sub = command(app, "run", "Run prompts through a checkpoint and write a trace", kRunFooter);
  sub->add_option("FOLDER", s.run.folder, "Checkpoint folder");
  add_prompt_options(*sub, s.run.run);
  sub->add_option("--out", s.run.out, "The trace to write. An existing file is refused unless --force")
      ->group("Output")->option_text("TRACE.h5");
  add_output_flags(sub, s.console, true);
  sub->add_option("--compress", s.run.compress, "deflate (default: shuffle and fast deflate) or none")
      ->group("Output")->option_text("deflate|none");
  sub->add_flag("--force", s.run.force, "Overwrite --out; run although the estimate does not fit")->group("Output");
  add_model_options(*sub, s.run.run);
  sub->add_flag("--ignore-index", s.run.ignore_index, "Read all *.safetensors, not what the index file lists")
      ->group("Model");
  add_capture_options(*sub, s.run.run);
  sub->add_flag("--fields", s.fields, "List the names of --capture with axes and meaning, and end")->group("Capture");
  add_forward_options(*sub, s.run.run);
}

void add_tokenize(CLI::App& app, Settings& s) {
  CLI::App* sub = command(app, "tokenize", "Token ids of a text; needs the folder's tokenizer files only", kTokenizeFooter);
  sub->add_option("FOLDER", s.tokenize.folder, "Folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt")->required();
  const char* text = "Text (exactly one)";
  sub->add_option("--text", s.tokenize.text, "This text. Write --text=-x when it begins with a dash")->group(text)->option_text("TEXT");
  sub->add_option("--text-file", s.tokenize.text_file, "The bytes of this file exactly, nothing trimmed; - is standard input")
      ->group(text)->option_text("FILE");
  sub->add_flag("--no-special", s.tokenize.no_special, "Add no special tokens (<bos>); those written in the text stay tokens");
  add_output_flags(sub, s.console, true);

  CLI::App* back = command(app, "detokenize", "The text of token ids", kDetokenizeFooter);
  back->add_option("FOLDER", s.detokenize.folder, "Folder with a tokenizer")->required();
  const char* ids = "Token ids (exactly one)";
  back->add_option("--ids", s.detokenize.ids, "Token ids: 256,72,105")->group(ids)->option_text("1,2,3");
  back->add_option("--ids-file", s.detokenize.ids_file, "A JSON array of token ids, or an array of such arrays")
      ->group(ids)->option_text("FILE.json");
  back->add_flag("--keep-special", s.detokenize.keep_special, "Special tokens appear in the text (default: left out)");
  add_output_flags(back, s.console, true);
}

void add_analyze(CLI::App& app, Settings& s) {
  CLI::App* sub = command(app, "analyze", "Numbers per head from a trace: ESL, slot classes, routing statistics",
                          kAnalyzeFooter);
  sub->add_option("TRACE", s.analyze.trace, "Trace file (.h5), or the file of a sweep: its table")->required();
  sub->add_option("--run", s.analyze.run, "Only this run (default: all)")->check(whole_number(0, 1'000'000'000))->option_text("N");
  const char* group = "Definitions";
  sub->add_option("--threshold", s.analyze.threshold, "Least write strength that counts as routed (default 0)")
      ->check(real_number(0, 1))->group(group)->option_text("S");
  sub->add_option("--tau", s.analyze.tau, "A slot is retrieval only when the share of retrieval tokens is at least 1 - tau "
                  "(default 0: strict)")
      ->check(real_number(0, 1))->group(group)->option_text("X");
  sub->add_option("--retrieval-head", s.analyze.retrieval_head, "Retrieval score that makes a retrieval head (default 0.1)")
      ->check(real_number(0, 1))->group(group)->option_text("X");
  sub->add_option("--esl-low", s.analyze.esl_low, "Cut between short and intermediate, share of the range (default 1/3)")
      ->check(real_number(0, 1))->group(group)->option_text("X");
  sub->add_option("--esl-high", s.analyze.esl_high, "Cut between intermediate and long (default 2/3)")
      ->check(real_number(0, 1))->group(group)->option_text("X");
  sub->add_flag("--csv", s.analyze.csv, "Of a sweep: its table as CSV")->group("Sweep");
  sub->add_option("--confidence", s.analyze.confidence, "Of a sweep: of its Clopper-Pearson intervals (default 0.95)")
      ->check(real_number(0.5, 0.9999))->group("Sweep")->option_text("X");
  add_output_flags(sub, s.console, true);
}

void add_sweep(CLI::App& app, Settings& s) {
  CLI::App* sub = command(app, "sweep", "Accuracy, ESL and head scores of several models against length and depth", kSweepFooter);
  add_sweep_options(*sub, s.sweep);
  add_output_flags(sub, s.console, true);
}

void add_verify(CLI::App& app, Settings& s) {
  CLI::App* sub = command(app, "verify", "Compare a checkpoint's forward pass with stored reference numbers", kVerifyFooter);
  sub->add_option("FOLDER", s.verify.folder, "Checkpoint folder")->required();
  sub->add_option("--golden", s.verify.golden, "Reference tensors: input_ids and what the model should compute from them")
      ->required()->option_text("F.safetensors");
  sub->add_option("--tolerance", s.verify.tolerance, "One absolute tolerance for every tensor instead of those below")
      ->check(real_number(0, 1e300))->option_text("X");
  add_model_options(*sub, s.verify.run);
  add_output_flags(sub, s.console, true);
}

void add_others(CLI::App& app, Settings& s) {
  CLI::App* make = command(app, "make", "Write a checkpoint with random weights, of any family and size", kMakeFooter);
  add_make_options(*make, s.make);
  add_output_flags(make, s.console, true);

  CLI::App* repair = command(app, "repair", "Copy what is readable of a trace whose writer was killed", kRepairFooter);
  repair->add_option("IN", s.repair.in, "The damaged or partial trace, often NAME.part")->required();
  repair->add_option("OUT", s.repair.out, "The clean file to write")->required();
  repair->add_flag("--force", s.repair.force, "Overwrite OUT");
  add_output_flags(repair, s.console, true);

  CLI::App* selftest = command(app, "selftest", "Run the test cases on this machine", kSelftestFooter);
  selftest->add_option("--device", s.selftest.device, "Where cases that can use a GPU run (default cpu)")
      ->option_text("cpu|cuda[:N]");
  selftest->add_option("--golden", s.selftest.golden, "A source tree, or its tests folder, for a program that was built "
                       "elsewhere")
      ->option_text("DIR");
  selftest->add_option("--suite", s.selftest.suite, "Only this suite")->option_text("NAME");
  selftest->add_flag("--list", s.selftest.list, "List the cases and end");

  CLI::App* devices = command(app, "devices", "What --device can name on this machine", "");
  add_output_flags(devices, s.console, false);
}

int list_fields(const Console& console) {
  Json document = Json::array();
  Table table({"field", "axes", "meaning"});
  table.row({"route", "", "route_index, route_weight, selected and esl together"});
  table.row({"attribution", "", "what read attribution is made of, in any family"});
  table.row({"addresses", "", "RAM-Net: where tokens write and read, gamma, lost and met mass, mass of each slot"});
  for (const auto& field : known_fields()) {
    table.row({std::string(field.name), std::string(field.axes), std::string(field.description)});
    document.push_back({{"name", field.name}, {"axes", field.axes}, {"description", field.description}});
  }
  if (console.json)
    console.out_json({{"fields", document}});
  else
    console.out(table.text());
  return kExitOk;
}

int dispatch(const CLI::App& app, const Settings& s) {
  const Console& console = s.console;
  const std::string name = app.get_subcommands().front()->get_name();
  if (name == "info") return run_info(s.info, console);
  if (name == "run") return s.fields ? list_fields(console) : run_run(s.run, console);
  if (name == "tokenize") return run_tokenize(s.tokenize, console);
  if (name == "detokenize") return run_detokenize(s.detokenize, console);
  if (name == "analyze") return run_analyze(s.analyze, console);
  if (name == "sweep") return run_sweep(s.sweep, console);
  if (name == "ramnet") return s.ramnet(console);
  if (name == "make") return run_make(s.make, console);
  if (name == "verify") return run_verify(s.verify, console);
  if (name == "repair") return run_repair(s.repair, console);
  if (name == "selftest") return run_selftest(s.selftest, console);
  return run_devices(console);
}

// What a failure says: a line on standard error and, with --json, the one document.
int fail(const Console& console, const Error& error) {
  console.error(error.what());
  if (console.json) {
    try {
      console.out_json(error_json(error));
    } catch (const OutputFailed&) {  // the exit code says it
    }
  }
  return error.kind() == Error::Kind::usage ? kExitUsage : kExitError;
}

int parse_failed(const CLI::App& app, const CLI::ParseError& e, const Console& console) {
  std::string name = "slotscope-cli";
  for (const CLI::App* sub : app.get_subcommands()) name += " " + sub->get_name();
  Console words = console;
  fail(words, Error({.found = e.what(), .advice = "See " + name + " --help"}, Error::Kind::usage));
  return kExitUsage;
}

int guarded(const CLI::App& app, const Settings& s) {
  try {
    return dispatch(app, s);
  } catch (const Error& e) {
    return fail(s.console, e);
  } catch (const OutputFailed& e) {
    if (!e.closed) s.console.error("standard output: " + e.reason);
    return kExitError;
  } catch (const std::bad_alloc&) {
    return fail(s.console, Error({.item = "memory", .found = "not enough of it",
                                  .advice = "Capture fewer fields or layers, or a shorter prompt"}));
  } catch (const std::exception& e) {
    // No promise of wording here: anything that arrives is a bug or the machine's failure, and still exits by the rules.
    return fail(s.console, Error({.item = "unexpected failure", .found = e.what()}));
  }
}

int cli_main(int argc, char** argv) {
  prepare_streams();
  Settings s;
  CLI::App app("Slotscope without a window: see what the memory of a sequence model did.", "slotscope-cli");
  app.formatter(help_formatter());  // before the commands are added: they inherit it
  app.footer(kMainFooter);
  app.set_version_flag("--version", std::string("slotscope-cli ") + kVersion);
  app.require_subcommand(1);
  add_info(app, s);
  add_run(app, s);
  add_tokenize(app, s);
  add_analyze(app, s);
  add_sweep(app, s);
  add_ramnet(app, s.console, s.ramnet);
  add_verify(app, s);
  add_others(app, s);
  std::vector<std::string> words;
  for (int i = argc; i-- > 1;) {  // CLI11 takes them last word first
    const std::string word = argv[i];
    const bool empty_value = word.size() > 3 && word.rfind("--", 0) == 0 && word.find('=') == word.size() - 1;
    if (empty_value) words.push_back("");  // "--text=" is an empty text: CLI11 alone would take the next option for it
    words.push_back(empty_value ? word.substr(0, word.size() - 1) : word);
  }
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text, unused;
      app.exit(e, text, unused);
      try {
        s.console.out(text.str());
      } catch (const OutputFailed& failed) {
        return failed.closed ? kExitOk : kExitError;
      }
      return kExitOk;
    }
    if (argc == 1) {
      s.console.info(app.help());
      return kExitUsage;
    }
    // Parsing stopped somewhere: whether --json was asked for is only known from the words themselves.
    for (int i = 1; i < argc; ++i) s.console.json |= std::strcmp(argv[i], "--json") == 0;
    const auto named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argv[1][0] != '-' && app.get_subcommands(named).empty())
      return fail(s.console, Error({.item = argv[1], .found = "no such command",
                                    .expected = "info, run, tokenize, detokenize, analyze, sweep, ramnet, make, verify, repair, selftest or devices"}, Error::Kind::usage));
    return parse_failed(app, e, s.console);
  }
  return guarded(app, s);
}

}  // namespace
}  // namespace slotscope::cli

int main(int argc, char** argv) { return slotscope::cli::cli_main(argc, argv); }
