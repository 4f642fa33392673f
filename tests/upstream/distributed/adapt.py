# SPDX-License-Identifier: MIT
"""Copies tests of torch.distributed with other names: those of the device, its module and
its backend, and time limits. Nothing else changes."""

import pathlib
import re

LIMIT = 'int(os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"])'
CORE = [
    (r"^import torch\.cuda(\.nccl)?$", ""),
    (r"torch\.cuda\.amp import", "torch.amp import"),
    (r"torch\.cuda\.nccl\.version\(\)", "(2, 99)"),
    (r"(dist|c10d)\.is_nccl_available\(\)", "True"),
    (r"c10d\.is_nccl_available\b", "c10d.is_available"),
    (r"torch\.cuda", "torch.openreg"),
    (r"\.cuda\(", ".openreg("),
    (r"""(["'])cuda(["':])""", r"\1openreg\2"),
    (r"\.is_cuda\b", ".is_openreg"),
    (r"DeviceType\.CUDA", "DeviceType.PrivateUse1"),
    (r"ProfilerActivity\.CUDA", "ProfilerActivity.PrivateUse1"),
    (r'"nccl"', '"occl"'),
    (r"Backend\.NCCL", "Backend.OCCL"),
    (r"dist\.ProcessGroupNCCL\b", "dist.ProcessGroupOCCL"),
    (r"GradScaler\(\)", 'GradScaler("openreg")'),
    (r"with autocast\(\)", 'with autocast("openreg")'),
    (r"\bTEST_CUDA\b", "TEST_PRIVATEUSE1"),
    # A server forks the ranks: they need not import torch.
    (r'get_context\("spawn"\)', 'get_context("forkserver")'),
    (r'set_start_method\("spawn"\)', 'set_start_method("forkserver")'),
    (r"torch\.testing\._internal\.common_distributed", "openreg_common_distributed"),
    # Seconds that a GPU needs. run.py --limit gives more.
    (r"^default_pg_timeout = 60$", f"default_pg_timeout = max(60, {LIMIT} // 2)"),
    (r'("test_ddp_uneven_inputs"): ([34]00),$', rf"\1: max(\2, {LIMIT}),"),
]
XPU = [
    (r"^import torch\._C\._distributed_c10d$", "import torch._C._distributed_c10d"),
    (r"(dist|c10d)\.is_xccl_available\(\)", "True"),
    (r"c10d\.is_xccl_available\b", "c10d.is_available"),
    (r"torch\.xpu\.XPUGraph", "torch.openreg.Graph"),
    (r"torch\.xpu", "torch.openreg"),
    (r"\.xpu\(", ".openreg("),
    (r"""(["'])xpu(["':])""", r"\1openreg\2"),
    (r'"xccl"', '"occl"'),
    (r"\bTEST_XPU\b", "True"),
    (r"^    True,$", ""),
    (r"TORCH_XCCL_NAN_CHECK", "TORCH_DIST_NAN_CHECK"),
    (r"_XCCL_", "_OCCL_"),
    (r"ProcessGroupXCCL\b", "ProcessGroupOCCL"),
    (r"from test_c10d_xccl import", "from openreg_c10d_xccl import"),
    (r'get_context\("spawn"\)', 'get_context("forkserver")'),
    (r"torch\.testing\._internal\.common_distributed", "openreg_common_distributed"),
]
# PyTorch 2.6's test of symmetric memory, with the names that later versions have.
SYMMETRIC = [
    *CORE,
    (r'f"cuda:\{', 'f"openreg:{'),
    (r'"cuda:0"', '"openreg:0"'),
    # It asks whether kernels of one GPU reach all of the memory of another one.
    (r"torch\.openreg\.get_device_capability\(\) >= \(8, 0\)", "True"),
    (r"torch\.openreg\.can_device_access_peer\(i, j\)", "True"),
    (r"fresh_inductor_cache\b", "fresh_cache"),
    (r"^    requires_cuda,$", ""),
    (r"@requires_cuda$", ""),
]
SPAWN = '''
class TestDistBackendWithSpawn(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()
'''


def internal() -> pathlib.Path:
    """The folder torch/testing/_internal, without importing the plugin."""
    import importlib.util

    return pathlib.Path(importlib.util.find_spec("torch").origin).parent / "testing/_internal"


def rename(text: str, names) -> str:
    for pattern, name in names:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return text


def write(work: pathlib.Path, checkout: str | None, source: str | None = None) -> list[str]:
    """Writes the modules; returns the names of those that have tests."""
    work.mkdir(parents=True, exist_ok=True)
    core = internal()
    common = rename((core / "common_distributed.py").read_text(), CORE)
    (work / "openreg_common_distributed.py").write_text(common)
    text = (core / "distributed/distributed_test.py").read_text()
    (work / "openreg_distributed_test.py").write_text(rename(text, CORE) + SPAWN)
    modules = ["openreg_distributed_test"]
    if source:
        text = (pathlib.Path(source) / "distributed/test_symmetric_memory.py").read_text()
        (work / "openreg_symmetric_memory.py").write_text(rename(text, SYMMETRIC))
        modules.append("openreg_symmetric_memory")
    for name in ("c10d_ops_xccl", "c10d_xccl") if checkout else ():
        text = (pathlib.Path(checkout) / f"test/xpu/distributed/test_{name}.py").read_text()
        (work / f"openreg_{name}.py").write_text(rename(text, XPU))
        modules.append(f"openreg_{name}")
    return modules
