// SPDX-License-Identifier: BSD-3-Clause
// What code compiled by torch.compile() calls: torch_openreg._C.program(), one VECTOR program,
// torch_openreg._C.empty_strided(), the memory of its results, and torch_openreg._C.Plan, the
// packets of a whole call.
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_numbers.h>

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "python/bindings.h"
#include "runtime/compiled.h"
#include "runtime/plan.h"

namespace py = pybind11;

namespace openreg {
namespace {

std::vector<openreg_instr> instrs_of(const py::bytes& code) {
  const auto bytes = static_cast<std::string_view>(code);
  TORCH_CHECK_VALUE(
      bytes.size() % sizeof(openreg_instr) == 0,
      "an instruction has ",
      sizeof(openreg_instr),
      " bytes");
  std::vector<openreg_instr> instrs(bytes.size() / sizeof(openreg_instr));
  std::memcpy(instrs.data(), bytes.data(), bytes.size());
  return instrs;
}

using OperandTuple =
    std::tuple<uint8_t, bool, uint8_t, int64_t, std::vector<int64_t>>;
using PatchTuple = std::tuple<std::string, uint8_t, uint8_t, uint8_t>;
using ScalarTuple = std::
    tuple<uint8_t, uint8_t, std::vector<std::tuple<std::string, uint8_t, double>>>;

CompiledPatch::Kind kind_of(const std::string& name) {
  using Kind = CompiledPatch::Kind;
  TORCH_CHECK_VALUE(
      name == "size" || name == "stride" || name == "offset" || name == "imm" ||
          name == "scalar",
      "a packet has no '",
      name,
      "'");
  return name == "size"  ? Kind::SIZE
      : name == "stride" ? Kind::STRIDE
      : name == "offset" ? Kind::OFFSET
      : name == "scalar" ? Kind::SCALAR
                         : Kind::IMM;
}

CompiledScalar::Arg::Kind argument_kind_of(const std::string& name) {
  using Kind = CompiledScalar::Arg::Kind;
  TORCH_CHECK_VALUE(
      name == "constant" || name == "number" || name == "scalar",
      "an argument of a number is no '",
      name,
      "'");
  return name == "constant" ? Kind::CONSTANT
      : name == "number"    ? Kind::NUMBER
                            : Kind::SCALAR;
}

constexpr const char* kProgram = "torch_openreg._C.program";

// The arguments are tensors, and after them numbers: integers, and floats for immediates
// of floating-point programs.
PyObject* run_program(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  const auto* program =
      static_cast<const CompiledProgram*>(PyCapsule_GetPointer(self, kProgram));
  c10::SmallVector<at::TensorBase, OPENREG_OPERANDS_MAX> tensors;
  c10::SmallVector<uint64_t, 8> numbers;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* arg = args[i];
    if (THPVariable_Check(arg)) {
      tensors.push_back(THPVariable_Unpack(arg));
    } else if (PyFloat_Check(arg)) {
      numbers.push_back(openreg_imm_f64(PyFloat_AS_DOUBLE(arg)));
    } else {
      numbers.push_back(openreg_imm_i64(THPUtils_unpackLong(arg)));
    }
  }
  {
    py::gil_scoped_release unlocked; // a full ring waits
    program->run(tensors, numbers);
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyMethodDef kRunProgram = {
    "program",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&run_program)),
    METH_FASTCALL,
    "Runs a VECTOR program with tensors and numbers."};

// Returns a plain function: a call of one costs less than a call of an object of a class.
py::object make_program(
    std::string name,
    std::vector<int64_t> size,
    uint8_t folded,
    const std::vector<OperandTuple>& operands,
    std::vector<uint64_t> imms,
    const py::bytes& code,
    const std::vector<PatchTuple>& patches,
    const std::vector<ScalarTuple>& scalars,
    bool counted) {
  CompiledParts parts;
  parts.name = std::move(name);
  parts.size = std::move(size);
  parts.folded = folded;
  for (const auto& [tensor, written, dtype, offset, stride] : operands) {
    parts.operands.push_back({tensor, written, dtype, offset, stride});
  }
  parts.imms = std::move(imms);
  parts.instrs = instrs_of(code);
  for (const auto& [kind, operand, index, value] : patches) {
    parts.patches.push_back({kind_of(kind), operand, index, value});
  }
  for (const auto& [op, type, args] : scalars) {
    CompiledScalar scalar{op, type, {}};
    for (const auto& [kind, index, constant] : args) {
      scalar.args.push_back({argument_kind_of(kind), index, constant});
    }
    parts.scalars.push_back(std::move(scalar));
  }
  parts.counted = counted;
  const py::capsule program(
      new CompiledProgram(std::move(parts)), kProgram, [](PyObject* capsule) {
        delete static_cast<CompiledProgram*>(PyCapsule_GetPointer(capsule, kProgram));
      });
  PyObject* function = PyCFunction_New(&kRunProgram, program.ptr());
  if (!function) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(function);
}

c10::SmallVector<int64_t, OPENREG_DIMS_MAX> integers_of(PyObject* tuple) {
  TORCH_CHECK_TYPE(PyTuple_Check(tuple), "empty_strided() takes tuples");
  c10::SmallVector<int64_t, OPENREG_DIMS_MAX> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    found.push_back(THPUtils_unpackLong(PyTuple_GET_ITEM(tuple, i)));
  }
  return found;
}

// empty_strided(size, stride, dtype, index of the device): like torch.empty_strided(), but
// takes a third of its time, most of which is the parser's and the dispatcher's.
PyObject* empty_strided(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(
      count == 4 && THPDtype_Check(args[2]),
      "empty_strided() takes a size, a stride, a dtype and the index of a device");
  const auto size = integers_of(args[0]);
  const auto stride = integers_of(args[1]);
  const auto type = reinterpret_cast<THPDtype*>(args[2])->scalar_type;
  const c10::DeviceIndex device = to_index(THPUtils_unpackLong(args[3]));
  at::Tensor result;
  {
    py::gil_scoped_release unlocked; // the allocator may wait for the card
    result = compiled_empty(size, stride, type, device);
  }
  return THPVariable_Wrap(std::move(result));
  END_HANDLE_TH_ERRORS
}

PyMethodDef kMethods[] = {
    {"empty_strided",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&empty_strided)),
     METH_FASTCALL,
     nullptr},
    {nullptr, nullptr, 0, nullptr}};

// The instructions, by the names of the manual.
#define OPENREG_VECTOR_OPS(V)                                                         \
  V(LOAD) V(STORE) V(IMM) V(MOV) V(CVT) V(ROUND) V(INDEX) V(SELECT) V(RANDOM)         \
  V(ADD) V(SUB) V(MUL) V(DIV) V(DIV_FLOOR) V(FMOD) V(REMAINDER) V(MIN) V(MAX)         \
  V(FMIN) V(FMAX) V(POW) V(ATAN2) V(HYPOT) V(COPYSIGN) V(FMA) V(AND) V(OR) V(XOR)     \
  V(NOT) V(SHL) V(SHR) V(EQ) V(NE) V(LT) V(LE) V(GT) V(GE) V(ISNAN) V(ISINF)          \
  V(ISFINITE) V(SIGNBIT) V(NEG) V(ABS) V(SIGN) V(RECIP) V(SQRT) V(RSQRT) V(FLOOR)     \
  V(CEIL) V(TRUNC) V(RINT) V(EXP) V(EXP2) V(EXPM1) V(LOG) V(LOG2) V(LOG10) V(LOG1P)   \
  V(SIN) V(COS) V(TAN) V(ASIN) V(ACOS) V(ATAN) V(SINH) V(COSH) V(TANH) V(ASINH)       \
  V(ACOSH) V(ATANH) V(ERF) V(ERFC) V(LGAMMA) V(SIGMOID) V(RED_SUM) V(RED_PROD)        \
  V(RED_MAX) V(RED_MIN) V(RED_AND) V(RED_OR)

py::dict vector_ops() {
  py::dict found;
  const auto add = [&](std::string name, int number) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    found[py::str(name)] = number;
  };
#define OPENREG_ADD(op) add(#op, OPENREG_V_##op);
  OPENREG_VECTOR_OPS(OPENREG_ADD)
#undef OPENREG_ADD
  return found;
}

// Returns the new results, or None if the plan does not take these tensors.
py::object run_plan(Plan& plan, const py::list& args) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(args.size());
  for (const py::handle arg : args) {
    if (THPVariable_Check(arg.ptr())) {
      tensors.push_back(THPVariable_Unpack(arg.ptr()));
    }
  }
  std::vector<at::Tensor> results;
  {
    py::gil_scoped_release unlocked; // a full ring waits
    if (!plan.takes(tensors)) {
      return py::none();
    }
    results = plan.run(tensors);
  }
  py::list found(results.size());
  for (size_t i = 0; i < results.size(); i++) {
    found[i] = py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(results[i])));
  }
  return std::move(found);
}

} // namespace

void bind_programs(py::module_& m) {
  m.attr("vector_ops") = vector_ops();
  if (PyModule_AddFunctions(m.ptr(), kMethods) < 0) {
    throw py::error_already_set();
  }
  m.def("memory_dtype", [](const py::object& dtype) {
    TORCH_CHECK_TYPE(THPDtype_Check(dtype.ptr()), "memory_dtype() takes a dtype");
    return memory_dtype(reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type);
  });
  m.def(
      "program",
      &make_program,
      py::arg("name"),
      py::arg("size"),
      py::arg("folded"),
      py::arg("operands"),
      py::arg("imms"),
      py::arg("code"),
      py::arg("patches"),
      py::arg("scalars"),
      py::arg("counted"));
  py::class_<Plan>(m, "Plan")
      .def(py::init())
      .def(
          "begin",
          [](Plan& plan, int64_t device) { plan.begin(to_index(device)); },
          Unlocked())
      .def("end", &Plan::end, Unlocked())
      .def("abandon", &Plan::abandon, Unlocked())
      .def("packets", &Plan::packets)
      .def("run", &run_plan);
}

} // namespace openreg
