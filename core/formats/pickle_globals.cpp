// The two allow-lists. A name on the first describes tensors. A name on the second is plain data that
// training scripts put beside the weights; nothing is made of it, it only must not keep the weights from
// opening. What could run code or reach outside when really called (getattr, eval, os, functools.partial,
// ...) is on neither, although here nothing is called: a file that names it is not one to trust.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <unordered_set>

#include "core/formats/pickle.h"

namespace slotscope::formats {
namespace {

using Names = std::unordered_set<std::string_view>;

const Names& torch_names() {
  static const Names names = {"torch._utils._rebuild_tensor",
                              "torch._utils._rebuild_tensor_v2",
                              "torch._utils._rebuild_tensor_v3",
                              "torch._utils._rebuild_parameter",
                              "torch._utils._rebuild_parameter_with_state",
                              "torch._utils._rebuild_qtensor",
                              "torch._utils._rebuild_sparse_tensor",
                              "torch._utils._rebuild_sparse_csr_tensor",
                              "torch._utils._rebuild_meta_tensor_no_storage",
                              "torch._utils._rebuild_nested_tensor",
                              "torch._utils._rebuild_wrapper_subclass",
                              "torch._utils._rebuild_device_tensor_from_numpy",
                              "torch._utils._rebuild_device_tensor_from_cpu_tensor",
                              "torch._utils._rebuild_xla_tensor",
                              "torch._tensor._rebuild_from_type_v2",
                              "torch.nn.parameter.Parameter",
                              "torch.nn.parameter.Buffer",
                              "torch.nn.Parameter",
                              "torch.nn.Buffer",
                              "torch.Tensor",
                              "torch._tensor.Tensor",
                              "torch.Size",
                              "torch.device",
                              "torch.serialization._get_layout",
                              "torch.storage.UntypedStorage",
                              "torch.storage.TypedStorage",
                              "torch.storage._UntypedStorage",
                              "torch.storage._TypedStorage",
                              "torch.per_tensor_affine",
                              "torch.per_channel_affine",
                              "torch.per_tensor_symmetric",
                              "torch.per_channel_symmetric",
                              "torch.per_channel_affine_float_qparams",
                              "torch.strided",
                              "torch.sparse_coo",
                              "torch.sparse_csr",
                              "torch.sparse_csc",
                              "torch.sparse_bsr",
                              "torch.sparse_bsc",
                              "torch.contiguous_format",
                              "torch.channels_last",
                              "torch.channels_last_3d",
                              "torch.preserve_format"};
  return names;
}

const Names& storage_names() {
  static const Names names = {
      "UntypedStorage",  "TypedStorage",  "DoubleStorage",        "FloatStorage",        "HalfStorage",
      "BFloat16Storage", "LongStorage",   "IntStorage",           "ShortStorage",        "CharStorage",
      "ByteStorage",     "BoolStorage",   "ComplexDoubleStorage", "ComplexFloatStorage", "QInt8Storage",
      "QInt32Storage",   "QUInt8Storage", "QUInt4x2Storage",      "QUInt2x4Storage"};
  return names;
}

const Names& dtype_names() {
  static const Names names = {"float64",
                              "double",
                              "float32",
                              "float",
                              "float16",
                              "half",
                              "bfloat16",
                              "int64",
                              "long",
                              "int32",
                              "int",
                              "int16",
                              "short",
                              "int8",
                              "uint8",
                              "uint16",
                              "uint32",
                              "uint64",
                              "bool",
                              "complex32",
                              "chalf",
                              "complex64",
                              "cfloat",
                              "complex128",
                              "cdouble",
                              "float8_e4m3fn",
                              "float8_e5m2",
                              "float8_e4m3fnuz",
                              "float8_e5m2fnuz",
                              "float8_e8m0fnu",
                              "float4_e2m1fn_x2",
                              "bits8",
                              "bits16",
                              "bits1x8",
                              "bits2x4",
                              "bits4x2",
                              "qint8",
                              "quint8",
                              "qint32",
                              "quint4x2",
                              "quint2x4",
                              "int1",
                              "int2",
                              "int3",
                              "int4",
                              "int5",
                              "int6",
                              "int7",
                              "uint1",
                              "uint2",
                              "uint3",
                              "uint4",
                              "uint5",
                              "uint6",
                              "uint7"};
  return names;
}

const Names& mapping_names() {
  static const Names names = {"collections.OrderedDict", "collections.defaultdict", "collections.Counter",
                              "builtins.dict"};
  return names;
}

const Names& inert_names() {
  static const Names names = {
      // Python's own types of plain data.
      "_codecs.encode", "argparse.Namespace", "builtins.bool", "builtins.bytearray", "builtins.bytes",
      "builtins.complex", "builtins.float", "builtins.frozenset", "builtins.int", "builtins.list",
      "builtins.object", "builtins.range", "builtins.set", "builtins.slice", "builtins.str", "builtins.tuple",
      "collections.deque", "copyreg.__newobj_ex__", "copyreg._reconstructor", "datetime.date",
      "datetime.datetime", "datetime.time", "datetime.timedelta", "datetime.timezone", "decimal.Decimal",
      "fractions.Fraction", "pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath", "pathlib.PurePosixPath",
      "pathlib.PureWindowsPath", "pathlib.WindowsPath", "pathlib._local.Path", "pathlib._local.PosixPath",
      "pathlib._local.PurePosixPath", "pathlib._local.PureWindowsPath", "pathlib._local.WindowsPath",
      "types.SimpleNamespace", "typing.Any", "uuid.UUID",
      // NumPy arrays and scalars, old and new module names.
      "numpy.dtype", "numpy.ndarray", "numpy.core.multiarray._reconstruct", "numpy.core.multiarray.scalar",
      "numpy._core.multiarray._reconstruct", "numpy._core.multiarray.scalar",
      "numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer", "numpy.bool_", "numpy.float16",
      "numpy.float32", "numpy.float64", "numpy.int8", "numpy.int16", "numpy.int32", "numpy.int64",
      "numpy.uint8", "numpy.uint16", "numpy.uint32", "numpy.uint64", "numpy.complex64", "numpy.complex128",
      "numpy.str_", "numpy.random._pickle.__randomstate_ctor", "numpy.random._pickle.__generator_ctor",
      "numpy.random._pickle.__bit_generator_ctor", "numpy.random._mt19937.MT19937",
      "numpy.random._pcg64.PCG64", "numpy.random.bit_generator.SeedSequence",
      // Settings objects that are dicts or records.
      "addict.addict.Dict", "easydict.EasyDict", "fvcore.common.config.CfgNode", "yacs.config.CfgNode",
      "ml_collections.config_dict.config_dict.ConfigDict", "omegaconf.base.ContainerMetadata",
      "omegaconf.base.Metadata", "omegaconf.base.SCMode", "omegaconf.dictconfig.DictConfig",
      "omegaconf.listconfig.ListConfig", "omegaconf.nodes.AnyNode", "omegaconf.nodes.BooleanNode",
      "omegaconf.nodes.BytesNode", "omegaconf.nodes.EnumNode", "omegaconf.nodes.FloatNode",
      "omegaconf.nodes.IntegerNode", "omegaconf.nodes.PathNode", "omegaconf.nodes.StringNode",
      "lightning.fabric.utilities.data.AttributeDict", "lightning_fabric.utilities.data.AttributeDict",
      "pytorch_lightning.utilities.parsing.AttributeDict",
      "lightning.pytorch.utilities.parsing.AttributeDict",
      "pytorch_lightning.callbacks.early_stopping.EarlyStopping",
      "pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint", "torch.torch_version.TorchVersion"};
  return names;
}

// The numpy.dtypes classes (numpy.dtypes.Float64DType) and nothing below them.
bool is_numpy_dtype_class(std::string_view name) {
  constexpr std::string_view prefix = "numpy.dtypes.";
  return name.starts_with(prefix) && name.ends_with("DType") &&
         std::all_of(name.begin() + prefix.size(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
         });
}

}  // namespace

GlobalRole global_role(std::string_view name) {
  if (mapping_names().contains(name)) return GlobalRole::mapping;
  if (torch_names().contains(name)) return GlobalRole::torch;
  for (const std::string_view prefix : {"torch.cuda.", "torch."})
    if (name.starts_with(prefix)) {
      const std::string_view rest = name.substr(prefix.size());
      if (storage_names().contains(rest)) return GlobalRole::torch;
      if (prefix == "torch." && dtype_names().contains(rest)) return GlobalRole::torch;
    }
  if (inert_names().contains(name) || is_numpy_dtype_class(name)) return GlobalRole::inert;
  return GlobalRole::refused;
}

std::string python3_global(std::string_view module, std::string_view name) {
  if (module == "__builtin__") {
    module = "builtins";
    if (name == "xrange") name = "range";
    if (name == "unicode") name = "str";
    if (name == "long") name = "int";
  } else if (module == "copy_reg") {
    module = "copyreg";
  }
  return std::string(module) + "." + std::string(name);
}

std::string refused_global_advice(std::string_view name) {
  const std::string_view module = name.substr(0, std::min(name.find('.'), name.size()));
  static constexpr std::array kHostile = {
      "posix",           "nt",         "os",       "subprocess", "builtins", "sys",
      "importlib",       "runpy",      "pty",      "socket",     "shutil",   "ctypes",
      "marshal",         "pickle",     "_pickle",  "pdb",        "bdb",      "code",
      "timeit",          "webbrowser", "commands", "functools",  "operator", "asyncio",
      "multiprocessing", "threading",  "signal",   "tempfile",   "http",     "urllib",
      "ftplib",          "smtplib",    "pip"};
  if (std::find(kHostile.begin(), kHostile.end(), module) != kHostile.end())
    return "Nothing was run. The file could run code when another program loads it: do not trust it.";
  if (name == "torch.storage._load_from_bytes")
    return "Its storages were written by pickle and not by torch.save: save the state_dict with torch.save.";
  if (name.starts_with("torch.distributed."))
    return "It holds pieces of a distributed run: gather the full state_dict, then save that.";
  if (name.starts_with("torch.jit."))
    return "It was written by LibTorch's own pickler: save the state_dict from Python.";
  return "Nothing was run. Save the plain weights: torch.save(model.state_dict(), \"pytorch_model.bin\").";
}

}  // namespace slotscope::formats
