"""What the compiled programs are on GPUs, and an estimate of their speed, without a GPU.

JAX compiles for a card that is only described, down to machine code: `make gpu-check` does so for policies
as they are ("mapped") and with the step spelled out, counts kernels and instructions, and estimates

    t = Σ over kernels of launch + max(threads·(n₃₂/lanes₃₂ + n₆₄/lanes₆₄)/(cores·clock), bytes/bandwidth)

per segment, with n the instructions of a thread. It is an estimate: nothing is run. On a machine with a
card, `python benchmarks/gpu.py --measure` times both ways and compares them with the CPU.
"""

import argparse
import itertools
import math
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dlbjax as dlb
from dlbjax.engine.plan import BLOCK
from dlbjax.engine.run import (
    cast_tree,
    choose_spelling,
    every_round,
    make_runs,
    report_rows,
    traced_part,
    tracing_as,
)
from dlbjax.engine.scan import advance, begin
from dlbjax.engine.settings import MAPPED, Spelling, check_settings
from dlbjax.engine.simulate import make_entry, run_together

LAUNCH = 3e-6  # seconds
ASKED = 100_000  # runs for which the table has an estimate
RUNS = 131_072  # for which programs are compiled, as `simulate` does for these


class Card(NamedTuple):
    """A card by its published figures."""

    capability: tuple[int, int]
    cores: int  # streaming multiprocessors
    lanes: tuple[int, int]  # instructions per core and cycle, 32 and 64 bits
    clock: float  # GHz
    bandwidth: float  # GB/s
    memory: int  # GB
    cache: int  # MB
    threads: int  # per core

    def target(self, name: str) -> str:
        """The card as XLA wants it described."""
        major, minor = self.capability
        return f"""
            gpu_device_info {{
              threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
              shared_memory_per_core: 102400 threads_per_core_limit: {self.threads}
              core_count: {self.cores} fpus_per_core: {self.lanes[0]} block_dim_limit_x: 2147483647
              block_dim_limit_y: 65535 block_dim_limit_z: 65535
              memory_bandwidth: {self.bandwidth * 10**9:.0f} l2_cache_size: {self.cache * 2**20}
              clock_rate_ghz: {self.clock} device_memory_size: {self.memory * 10**9}
              shared_memory_per_block_optin: 101376
              cuda_compute_capability {{ major: {major} minor: {minor} }}
              registers_per_core_limit: 65536 registers_per_block_limit: 65536
            }}
            platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 8 }}
            device_description_str: "{name}" """


CARDS = {
    "A100": Card((8, 0), 108, (64, 32), 1.41, 2039, 80, 40, 2048),
    "H100": Card((9, 0), 132, (128, 64), 1.98, 3352, 80, 50, 2048),
    "RTX 4090": Card((8, 9), 128, (128, 2), 2.52, 1008, 24, 72, 1536),
}


class Kernel(NamedTuple):
    """One kernel of a loop's body."""

    name: str
    instructions: tuple[int, int]  # of a thread, on 32 and on 64 bits
    threads: float
    bytes: float
    registers: int
    spills: int  # bytes

    def seconds(self, card: Card, scale: float) -> float:
        """The estimate, for `scale` times as many runs as it was compiled for."""
        cycles = sum(n / lanes for n, lanes in zip(self.instructions, card.lanes, strict=True))
        computing = scale * self.threads * cycles / (card.cores * card.clock * 1e9)
        return LAUNCH + max(computing, scale * self.bytes / (card.bandwidth * 1e9))


class Program(NamedTuple):
    """What was compiled for a policy."""

    card: str
    policy: str
    channels: int
    dtype: str
    spelling: Spelling
    note: str
    seconds: float  # to compile
    turn: list[Kernel]  # kernels of a turn of the loop over segments
    block: list[Kernel]  # kernels of a block of segments, outside of that loop
    memory: float  # bytes per run
    runs: int

    @property
    def segments(self) -> int:
        """Segments in a turn of the loop."""
        return self.spelling.turn

    def estimate(self, runs: int) -> float:
        """Seconds per segment, all runs together."""
        card, scale = CARDS[self.card], runs / self.runs
        turn = sum(kernel.seconds(card, scale) for kernel in self.turn) / self.segments
        return turn + sum(kernel.seconds(card, scale) for kernel in self.block) / BLOCK


def problem_with(channels: int) -> dlb.Problem:
    """The synthetic problem, or a budget over more channels, d² + 1 vertices."""
    if channels == 3:
        return dlb.problems.synthetic()
    rng = np.random.default_rng(channels)
    system = dlb.System(
        np.diag([0.2, 0.4, 0.6]), 0.2 * rng.uniform(size=(3, channels)), rng.uniform(size=3),
        rng.uniform(size=channels), sigma=0.01,
    )  # fmt: skip
    budget = dlb.actions.budget(np.zeros(channels), np.ones(channels), 1.5)
    return dlb.Problem(system, budget)


def textbook() -> dlb.Policy:
    """Lin-UCB as a user would write it."""

    def init(params, vertices, key):
        d = vertices.shape[1]
        return {"V": jnp.eye(d, dtype=vertices.dtype), "b": jnp.zeros(d, vertices.dtype)}

    def act(params, vertices, state, epoch):
        solved = jnp.linalg.solve(state["V"], jnp.concatenate([vertices, state["b"][None]]).T).T
        width = jnp.sqrt(jnp.sum(vertices * solved[:-1], axis=1))
        return jnp.argmax(vertices @ solved[-1] + params * width)

    def update(params, state, feedback):
        u = feedback.vector
        return {"V": state["V"] + jnp.outer(u, u), "b": state["b"] + feedback.last * u}

    return dlb.Policy(init, act, update, params=0.5, feedback=("last",), name="textbook")


def policies(problem: dlb.Problem) -> dict[str, Any]:
    bounds = dlb.Bounds.of(problem)
    return {
        "DynLin-UCB": lambda: dlb.dynlin_ucb(bounds), "Lin-UCB": lambda: dlb.lin_ucb(bounds),
        "tight": lambda: dlb.dynlin_ucb_tight(bounds), "adaptive": dlb.dynlin_ucb_adaptive,
        "D-Lin-UCB": lambda: dlb.d_lin_ucb(bounds), "Exp3": lambda: dlb.exp3(bounds),
        "Batch-Exp3": lambda: dlb.batch_exp3(bounds), "AR2": lambda: dlb.ar2(bounds),
        "UCB1": lambda: dlb.ucb1(bounds), "textbook": textbook,
    }  # fmt: skip


def compile_for(card: str, policy: str, channels: int, dtype: str, spell: bool) -> Program:
    """The pass of a policy, compiled for a card that need not be there."""
    from jax.experimental import topologies

    description = CARDS[card].target(card)
    topology = topologies.get_topology_desc(
        platform="cuda", target_config=description, topology="1x1x1"
    )
    device = topology.devices[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    problem = problem_with(channels)
    settings = check_settings(
        problem.system.n, 10_000, 2, None, (), [10_000], dtype, None, None, None
    )._replace(spelling=None if spell else MAPPED)
    runs = RUNS
    try:
        group = make_entry(problem, policy, policies(problem)[policy](), settings).groups[0]
    except ValueError:  # float32 misleads it
        note = f"{dtype} is rejected"
        return Program(card, policy, channels, dtype, MAPPED, note, 0.0, [], [], 0.0, runs)
    traced = traced_part(group.policies[0])
    spelling, note = choose_spelling(group, settings, device)
    if spell and spelling == MAPPED:  # which is compiled as mapped already
        note = "stays mapped"
        return Program(card, policy, channels, dtype, spelling, note, 0.0, [], [], 0.0, runs)

    def shape(leaf: Any, wide: bool = False) -> jax.ShapeDtypeStruct:
        size = (*leaf.shape[:-1], runs) if wide else leaf.shape
        return jax.ShapeDtypeStruct(size, leaf.dtype, sharding=sharding)

    with tracing_as(settings), tempfile.TemporaryDirectory() as folder:
        steps, _ = group.steps(0, 16, report_rows(settings) - 1, spelling.turn)
        tables, steps = cast_tree((group.tables, steps), settings.dtype)
        few = make_runs(group, settings, np.zeros(2, int))
        batch = jax.eval_shape(partial(begin, traced, report_rows(settings)), tables, *few)
        batch = jax.tree.map(partial(shape, wide=True), batch)
        number = jax.ShapeDtypeStruct((), jnp.int32, sharding=sharding)
        program = jax.jit(advance, static_argnums=(0, 1, 2), donate_argnums=4)
        began = time.perf_counter()
        lowered = program.lower(
            traced, every_round(settings), spelling, jax.tree.map(shape, tables), batch,
            jax.tree.map(shape, steps), number, number,
        )  # fmt: skip
        dump = {"xla_dump_to": folder, "xla_dump_emitter_re": "ptx"}
        compiled = lowered.compile(compiler_options=dump)
        seconds = time.perf_counter() - began
        turn, block = loops(Path(folder), compiled.as_text(), runs)
    memory = compiled.memory_analysis()
    used = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    return Program(
        card, policy, channels, dtype, spelling, note or "mapped", seconds, turn, block, used / runs, runs
    )  # fmt: skip


class Code(NamedTuple):
    """What the machine code of a kernel is."""

    instructions: tuple[int, int]
    registers: int
    spills: int


def machine_code(folder: Path) -> dict[str, Code]:
    """The machine code of every kernel, of which XLA left the PTX, by the kernel's name."""
    ptxas, disassembler = tool("ptxas"), tool("nvdisasm")
    found = {}
    for ptx in sorted(folder.glob("*.ptx")):
        if "// .globl" not in ptx.read_text():  # a module of constants
            continue
        cubin = ptx.with_suffix(".cubin")
        target = re.search(r"\.target (\S+)", ptx.read_text())[1].rstrip(",")
        command = [ptxas, f"-arch={target}", "-v", str(ptx), "-o", str(cubin)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        code = subprocess.run(
            [disassembler, "-c", str(cubin)], capture_output=True, text=True, check=True
        ).stdout
        sections = re.split(r"\n\s*\.section\s+\.text\.", code)[1:] or [code]
        entries = re.findall(
            r"entry function '(\S+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers", told, re.S
        )
        texts = {re.split(r"[\s,]", text, maxsplit=1)[0].strip('"'): text for text in sections}
        for name, spills, registers in entries:
            operations = re.findall(
                r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", texts.get(name, code)
            )
            operations = [each for each in operations if not each.startswith(("NOP", "BRA"))]
            wide = sum(bool(re.match(r"D(ADD|MUL|FMA|SETP|MNMX)", each)) for each in operations)
            found[name] = Code((len(operations) - wide, wide), int(registers), int(spills))
    return found


def tool(name: str) -> str:
    """A tool of CUDA, from this environment's wheels or from the system."""
    for folder in map(Path, sys.path):
        for path in sorted(folder.glob(f"nvidia/*/bin/{name}")):
            path.chmod(path.stat().st_mode | 0o100)
            return str(path)
    if found := shutil.which(name):
        return found
    raise SystemExit(f"{name} is missing; run this through `make gpu-check`")


SIZES = {"pred": 1, "s8": 1, "u8": 1, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8,
         "c64": 8, "c128": 16}  # fmt: skip
NOT_LAUNCHED = ("kWhile", "kAsyncStart", "kAsyncDone", "kDynamicSliceFusion")
THUNK = r"(\d+): (\w+) .*?\]\s?(\w*)(.*)"  # number, kind, kernel, its grid or another thunk
COPY = Code((0, 0), 0, 0)  # by the card's own engine


def loops(folder: Path, program: str, runs: int) -> tuple[list[Kernel], list[Kernel]]:
    """The kernels of a turn of the inner loop, and those of a block around it.

    XLA writes what it launches, and in which loop: a line each, indented by four more for what runs inside
    of another.
    """
    codes, turn, block = machine_code(folder), [], []
    (sequence,) = folder.glob("*thunk_sequence.txt")
    (metadata,) = folder.glob("*thunk_metadata.txt")
    names = {
        int(number): name
        for name, number in re.findall(
            r'profile_annotation: "([^"]+)"\s+thunk_id: (\d+)', metadata.read_text()
        )
    }
    bodies, lines = _computations(program)
    inside: dict[int, list[Kernel]] = {}  # by how far the lines of a body are indented
    in_condition, began = False, False
    for line in sequence.read_text().splitlines():
        indent, word = len(line) - len(line.lstrip()), line.strip()
        if word == "condition:":  # which is not launched where XLA knows how often
            in_condition = True
        elif word == "body:":
            inside[indent + 2] = turn if began else block
            in_condition, began = False, True
        elif (found := re.match(THUNK, word)) and not in_condition:
            inside = {depth: body for depth, body in inside.items() if depth <= indent}
            here = inside.get(indent, inside.get(indent - 4))
            if found[2] == "kSequential":  # the first of several follows on the same line
                if here is not None:
                    inside[indent + 2] = here
                found = re.match(THUNK, found[4].strip())
            number, kind, name, rest = found.groups()
            if here is None or kind in NOT_LAUNCHED:
                continue
            code, threads = COPY, 0
            if sizes := re.findall(r"\[(\d+), (\d+), (\d+)\]", rest):
                if name not in codes:
                    raise SystemExit(f"XLA left no machine code of the kernel {name}")
                code, threads = codes[name], math.prod(int(n) for each in sizes for n in each)
            moved = _moved(lines[names[int(number)]], bodies, runs)
            here.append(
                Kernel(name, code.instructions, threads, moved, code.registers, code.spills)
            )
    return turn, block


def _computations(program: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The lines of every computation, and every instruction's, by their names."""
    bodies: dict[str, list[str]] = {}
    lines, name = {}, None
    for line in program.splitlines():
        if head := re.match(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            name = head[1]
            bodies[name] = []
        elif line.startswith("}"):
            name = None
        elif name and (found := re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = ", line)):
            bodies[name].append(line.strip())
            lines[found[1]] = line.strip()
    return bodies, lines


def _bytes(shape: str) -> int:
    return sum(
        SIZES[dtype] * math.prod(map(int, filter(None, sizes.split(","))))
        for dtype, sizes in re.findall(r"(\w+)\[([\d,]*)\]", shape) if dtype in SIZES
    )  # fmt: skip


def _moved(line: str, bodies: dict[str, list[str]], runs: int) -> int:
    """Bytes that an instruction reads and writes."""
    written = _bytes(re.match(r"(?:ROOT )?\S+ = (.*?) [\w\-]+\(", line)[1])
    read = written
    if called := re.search(r"calls=%?([\w.\-]+)", line):
        inside = bodies[called[1]]
        updates = [each for each in inside if " dynamic-update-slice(" in each]
        if updates:  # in place: only the slice is written
            written = sum(_bytes(_operand(inside, each, 1)) for each in updates)
        taken = [each.split(" = ")[1] for each in inside if " parameter(" in each]
        sliced = BLOCK  # arrays over the segments of a block, and reports: a slice is read
        read = sum(
            _bytes(each) // (int(lead[1]) if (lead := re.match(r"\w+\[(\d+),", each)) and
                             int(lead[1]) >= sliced // 64 and _bytes(each) > 64 * runs else 1)
            for each in taken
        )  # fmt: skip
    return read + written


def _operand(lines: list[str], line: str, number: int) -> str:
    """The shape of an operand of an instruction."""
    names = re.findall(r"%([\w.\-]+)", line.split("(", 1)[1])
    pattern = re.compile(rf"(?:ROOT )?%{re.escape(names[number])} = (\S+)")
    return next(found[1] for each in lines if (found := pattern.match(each)))


def row(program: Program) -> str:
    turn = program.turn
    head = f"| {program.card} | {program.policy} | {program.channels} | {program.dtype} | "
    if not turn:
        return f"{head}{program.note} |" + " |" * 7
    step = "mapped"
    if program.spelling != MAPPED:
        step = f"spelled out, {program.spelling.segments}"
    main = max(turn, key=lambda kernel: sum(kernel.instructions))
    work = sum(sum(kernel.instructions) * kernel.threads for kernel in turn)
    return (
        f"{head}{step} | {len(turn) / program.segments:.2f} | "
        f"{1e9 * program.estimate(ASKED) / ASKED:.3f} | "
        f"{work / program.segments / program.runs:.0f} | {main.registers} | "
        f"{sum(kernel.spills for kernel in turn)} | {program.memory:.0f} | {program.seconds:.0f} |"
    )


HEAD = (
    f"""\
For every segment: kernels, the estimate of ns for each of {ASKED:,} runs, and instructions of each.
Of a kernel: registers and bytes spilled. Of a run: bytes of memory. Of the program: seconds to compile.

| card | policy | channels | dtype | step | kernels | ns, estimated | instructions | registers | spills | \
memory | compiled in |
|"""
    + " --- |" * 12
)


def measure(args: argparse.Namespace) -> None:
    """Time both ways on the card that is there, and compare with the CPU."""
    device = jax.devices()[0]
    if device.platform != "gpu":
        raise SystemExit(f"no GPU: jax.devices() lists {jax.devices()}")
    problem = problem_with(3)
    print(f"{device.device_kind}, JAX {jax.__version__}\n")
    print(
        "| policy | dtype | step | seconds | ns per round and run | runs that part from the CPU's |"
    )
    print("|" + " --- |" * 6)
    for name, dtype, spelling in itertools.product(
        args.policies or policies(problem), args.dtypes or ["float32", "float64"], (MAPPED, None)
    ):
        try:
            told = measured(problem, name, dtype, spelling, device)
        except ValueError as error:  # float32 misleads it
            told = f"{error} | | |"
        print(f"| {name} | {dtype} | {told} |", flush=True)


def measured(
    problem: dlb.Problem, name: str, dtype: str, spelling: Spelling | None, device: Any
) -> str:
    """How the step was compiled, seconds, ns per round and run, and runs that part from the CPU's."""
    policy = policies(problem)[name]()
    settings = check_settings(
        problem.system.n, 10_000, ASKED, None, (), [10_000], dtype, None, None, [device]
    )._replace(spelling=spelling)
    entry = make_entry(problem, name, policy, settings)
    for _ in range(2):  # the first compiles
        began = time.perf_counter()
        (result,) = run_together([entry], settings, lambda rounds: None, None, 0.0)
        seconds = time.perf_counter() - began
    cpus = jax.devices("cpu")[:1]
    cpu = dlb.simulate(problem, policy, 10_000, 64, rounds=[10_000], dtype=dtype, devices=cpus)
    apart = ~np.isclose(
        result.offline_regret[:64, -1], cpu.offline_regret[:, -1], rtol=1e-4, atol=1e-3
    )
    step, each = result.config["execution"].get("step"), 1e9 * seconds / ASKED / 10_000
    return f"{step} | {seconds:.2f} | {each:.3f} | {apart.sum()} of 64"


def plot(programs: list[Program], cpu: dict[int, float], path: Path) -> None:
    """Estimates against the number of runs, with the measured CPU."""
    import matplotlib.pyplot as plt

    plt.style.use("dlbjax.results.style")
    figure, ax = plt.subplots(figsize=(6.4, 4))
    runs = np.geomspace(64, 1e6, 60)
    for program in programs:
        ax.plot(
            runs, [1e9 * program.estimate(each) / each for each in runs],
            "--" if program.spelling == MAPPED else "-",
            label=f"{program.card}, {'mapped' if program.spelling == MAPPED else 'spelled out'} (estimate)",
        )  # fmt: skip
    if cpu:
        ax.plot(list(cpu), list(cpu.values()), "k-o", label="CPU (measured)")
    ax.set(xscale="log", yscale="log", xlabel="Runs side by side", ylabel="ns per segment and run")
    ax.set_title(f"{programs[0].policy}, {programs[0].dtype}")
    ax.legend(fontsize="small")
    figure.savefig(path)


def on_cpu(policy: str, dtype: str) -> dict[int, float]:
    """Measured ns per segment and run of this machine, over enough rounds that fixed costs hardly count.

    Nothing where the policy rejects float32 over so many.
    """
    problem, rounds, found = problem_with(3), 300_000, {}
    made = policies(problem)[policy]()
    for runs in (16, 64, 256, 1024):
        settings = check_settings(3, rounds, runs, None, (), None, dtype, None, None, None)
        try:
            groups = make_entry(problem, "", made, settings).groups
        except ValueError:
            return {}
        for _ in range(2):  # the first compiles
            began = time.perf_counter()
            cores = jax.devices("cpu")[:1] * (os.cpu_count() or 1)
            dlb.simulate(problem, made, rounds, runs, dtype=dtype, devices=cores)
            seconds = time.perf_counter() - began
        found[runs] = 1e9 * seconds / runs / sum(group.size for group in groups)
    return found


def chosen(args: argparse.Namespace) -> list[tuple[str, str, int, str, bool]]:
    """What to compile, by default what matters most: three channels in float32 for every card.

    For one card also all other policies, float64, and DynLin-UCB on more channels.
    """
    names = list(policies(problem_with(3)))
    every = itertools.product(
        args.channels or [3, 6, 8, 10], args.dtypes or ["float32", "float64"], args.cards or CARDS,
        args.policies or names, (False, True),
    )  # fmt: skip
    listed = args.all or any((args.channels, args.dtypes, args.cards, args.policies))

    def matters(card: str, policy: str, channels: int, dtype: str) -> bool:
        if channels == 3 and dtype == "float32":
            return card == "A100" or policy in names[:3]
        return card == "A100" and policy in (names[:3] if channels == 3 else names[:1])

    return [
        (card, policy, channels, dtype, spell)
        for channels, dtype, card, policy, spell in every
        if listed or matters(card, policy, channels, dtype)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--cards", nargs="+", choices=CARDS)
    parser.add_argument("--policies", nargs="+", choices=list(policies(problem_with(3))))
    parser.add_argument("--channels", nargs="+", type=int)
    parser.add_argument("--dtypes", nargs="+")
    parser.add_argument("--all", action="store_true", help="compile everything for every card")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--measure", action="store_true", help="time the card that is here")
    args = parser.parse_args()
    if args.measure:
        return measure(args)
    if not any(map(find_spec, ("jax_cuda12_plugin", "jax_cuda13_plugin"))):
        raise SystemExit("CUDA's compiler is missing; run this through `make gpu-check`")
    args.out.mkdir(parents=True, exist_ok=True)
    programs: list[Program] = []
    rows: list[str] = []
    head = f"Compiled by JAX {jax.__version__}.\n\n{HEAD}"
    print(head)
    spawn = multiprocessing.get_context("spawn")  # as JAX has threads
    with ProcessPoolExecutor(args.workers, spawn) as pool:
        for program in pool.map(compile_for, *zip(*chosen(args), strict=True)):
            programs.append(program)
            line = row(program)
            if line not in rows:  # what is rejected is so both ways
                rows.append(line)
                print(line, flush=True)
                (args.out / "gpu.md").write_text("\n".join([head, *rows]) + "\n")
    compiled = [program for program in programs if program.turn]
    if not compiled:
        return
    first = compiled[0]
    shown = [p for p in compiled if
             (p.policy, p.channels, p.dtype) == (first.policy, first.channels, first.dtype)]  # fmt: skip
    plot(shown, on_cpu(first.policy, first.dtype), args.out / "gpu.png")


if __name__ == "__main__":
    main()
