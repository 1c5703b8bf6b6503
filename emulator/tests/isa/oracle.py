"""The change that an instruction of cases.py makes to a `State`, by AMD's pseudocode."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from cases import ADDRESS, DATA, DATA2, Case, Operand, load, tables_of
from pcode import compile_pcode
from pcode_functions import CONSTANTS, CORRECTIONS, FUNCTIONS
from pcode_state import Env, UnsupportedError, type_of_suffix
from pcode_values import IEEE, V, bits_of, encode, from_bits, mask, select_formats
from snippet import State

FLUSHING = re.compile(r"^V_(S_)?(RCP|RSQ|SQRT|EXP|LOG)(_IFLAG)?_F32")


@cache
def corrected(name: str, text: str) -> str:
    text = re.sub(r"//.*", "", text)
    for pattern, old, new in CORRECTIONS:
        if re.search(pattern, name):
            text = re.sub(old, new, text)
    return text


@cache
def program(name: str, text: str):
    return compile_pcode(corrected(name, text))


@cache
def named_operations(chip: str) -> dict:
    """v_min_f32(...) and the like: operations that the text calls by name."""
    found: dict = {}
    for table in (
        "rdna4",
        *reversed(tables_of(chip)),
    ):  # gfx950 calls v_minimum_f32, which it lacks
        for op, text in load(table).items():
            found[re.sub(r"_E(32|64)$", "", op.name).lower()] = (op.name, text)
    return found


class Functions:
    """The functions of a chip; assignments stay with one evaluation."""

    def __init__(self, chip: str):
        self.shared = shared_functions(chip)
        self.own: dict = {}
        self.chip = chip

    def __setitem__(self, name: str, function) -> None:
        self.own[name] = function

    def get(self, name: str):
        return self.own.get(name) or self.shared.get(name) or self.operation(name)

    def operation(self, name: str):
        operation = named_operations(self.chip).get(name)
        if not operation:
            return None
        op_name, text = operation
        body = program(op_name, text)
        result = re.findall(r"D0(?:\.(\w+))? =", corrected(op_name, text))[-1] or "b32"

        def call(env: Env, *arguments: V) -> V:
            inner = env.child()
            for n, argument in enumerate(arguments):
                inner.vars[f"S{n}"] = V("b", max(argument.width or 32, 32), bits_of(argument))
            inner.vars["D0"] = V("b", 64, 0)
            body(inner)
            return from_bits(*type_of_suffix(result), bits_of(inner.vars["D0"]))

        self.shared[name] = call
        return call


@cache
def shared_functions(chip: str) -> dict:
    return dict(FUNCTIONS)


class Registers:
    """VGPR[lane][register], SGPR[register]."""

    def __init__(self, state: State, scalar: bool):
        self.state, self.scalar = state, scalar

    def place(self, env: Env, chain: list):
        indices = [step[1](env).x for step in chain if step[0] == "index"]
        rest = list(chain[1 if self.scalar else 2 :])
        if self.scalar:
            return self.state.sgpr, (indices[0],), rest
        return self.state.vgpr, (indices[1], indices[0]), rest

    def read(self, env: Env, chain: list) -> V:
        from pcode_state import walk

        array, at, rest = self.place(env, chain)
        return walk(env, V("b", 32, int(array[at])), rest)

    def write(self, env: Env, chain: list, value: V) -> None:
        from pcode_state import insert

        array, at, rest = self.place(env, chain)
        array[at] = insert(env, V("b", 32, int(array[at])), rest, value, "D0")[0].x & 0xFFFFFFFF


class Memory:
    """MEM[address] over an array of bytes that starts at `base`."""

    def __init__(self, data: np.ndarray, base: int):
        self.data, self.base = data, base

    def _at(self, env: Env, chain: list) -> tuple[int, tuple[str, int]]:
        at = chain[0][1](env).x - self.base
        suffixes = [step[1] for step in chain[1:] if step[0] == "suffix"]
        return at, type_of_suffix(suffixes[0]) if suffixes else ("b", 32)

    def read(self, env: Env, chain: list) -> V:
        at, (kind, width) = self._at(env, chain)
        return from_bits(
            kind, width, int.from_bytes(self.data[at : at + width // 8].tobytes(), "little")
        )

    def write(self, env: Env, chain: list, value: V) -> None:
        from pcode_state import convert

        at, type_ = self._at(env, chain)
        if not any(step[0] == "suffix" for step in chain[1:]) and value.width:
            type_ = ("b", value.width)
        bits = bits_of(convert(value, *type_))
        self.data[at : at + type_[1] // 8] = np.frombuffer(
            (bits & mask(type_[1])).to_bytes(type_[1] // 8, "little"), np.uint8
        )


def scalar_value(state: State, operand: Operand) -> int:
    if operand.kind == "vcc":
        return state.vcc
    if operand.kind == "c":
        return operand.value
    return sum(int(state.sgpr[operand.index + n]) << 32 * n for n in range(operand.words))


def lane_value(state: State, operand: Operand, lane: int) -> int:
    if operand.kind != "v":
        return scalar_value(state, operand)
    value = sum(int(state.vgpr[operand.index + n, lane]) << 32 * n for n in range(operand.words))
    return value >> 16 if operand.high else value


def set_scalar(state: State, operand: Operand, value: int) -> None:
    if operand.kind == "vcc":
        state.vcc = value & mask(32 * operand.words)
        return
    for n in range(operand.words):
        state.sgpr[operand.index + n] = value >> 32 * n & 0xFFFFFFFF


def base_variables(case: Case, state: State) -> dict:
    variables = dict(CONSTANTS)
    variables.update(
        EXEC=V("u", 64, state.exec),
        EXEC_LO=V("u", 32, state.exec & 0xFFFFFFFF),
        SCC=V("u", 1, state.scc),
        M0=V("u", 32, state.m0),
        VCC=V("u", 64, state.vcc),
        WAVE32=V("u", 1, int(state.wave == 32)),
        WAVE64=V("u", 1, int(state.wave == 64)),
        wave32=V("u", 1, int(state.wave == 32)),
        WAVE_MODE={"IEEE": V("u", 1, int(not case.chip.startswith("gfx12")))},
        TRAPSTS={"INVALID": V("u", 1, 0)},
        OPSEL=V("b", 4, case.extra.get("op_sel", 0)),
        OPSEL_HI=V("b", 4, case.extra.get("op_sel_hi", 0 if "_MIX" in case.name else 7)),
        NEG=V("b", 3, case.extra.get("neg_lo", 0)),
        NEG_HI=V("b", 3, case.extra.get("neg_hi", 0)),
        SDWA_SRC0_SEL=V("b", 3, 0),
        BYTE1=V("b", 3, 1),
        BYTE2=V("b", 3, 2),
        BYTE3=V("b", 3, 3),
        WORD1=V("b", 2, 2),
        BITOP_TABLE=V("b", 8, case.extra.get("bitop", 0)),
        PC=V("u", 64, 0),
    )
    if "simm16" in case.extra:
        variables["SIMM16"] = V("i", 16, case.extra["simm16"] - (case.extra["simm16"] >> 15 << 16))
    if "simm32" in case.extra:
        variables["SIMM32"] = V("b", 32, case.extra["simm32"])
    if case.dst and case.dst.kind in "vs":
        variables["VDST"] = V("u", 32, case.dst.index)
    if case.family == "SOPK":
        simm16 = V("b", 16, case.extra["simm16"])
        compares = "CMPK" in case.name
        variables["S1" if compares else "S0"] = simm16
        if compares:
            variables["S0"] = V("b", 32, scalar_value(state, case.dst))
    if "PERMUTE" in case.name and case.family == "DS":
        variables.update(
            ADDR=V("u", 32, ADDRESS),
            DATA0=V("u", 32, DATA),
            OFFSET=V("u", 32, case.extra["offset"]),
        )
    if len(case.sources) > 1:
        variables["SRC1"] = V("u", 32, case.sources[1].index)
    if case.sources:
        variables["SRC0"] = V("u", 32, case.sources[0].index)
    elif case.extra.get("wave"):
        variables["SRC0"] = V("u", 32, 32)
    return variables


def flush32(bits: int) -> int:
    return bits if bits & 0x7F800000 else bits & 0x80000000


class Expectation:
    """The state an instruction should leave, and which bits of vector destinations it defines."""

    def __init__(self, state: State):
        self.state = state
        self.defined: dict[tuple[int, int], int] = {}  # (register, lane) -> bits


def expect(case: Case, before: State) -> Expectation:
    """Raises UnsupportedError where the pseudocode cannot be evaluated."""
    after = before.copy()
    select_formats(case.chip)
    result = Expectation(after)
    body = program(case.name, case.pcode)
    text = corrected(case.name, case.pcode)
    if case.family.startswith("SO") or case.family == "SMEM":
        scalar_instruction(case, before, after, body)
    elif case.extra.get("wave") or ("laneId" not in text and "VGPR[" in text):
        wave_instruction(case, before, result, body)
    else:
        base = base_variables(case, before)
        for lane in range(before.wave):
            if before.exec >> lane & 1:
                vector_lane(case, before, result, body, lane, base)
        finish_masks(case, before, after)
    return result


def scalar_instruction(case: Case, before: State, after: State, body) -> None:
    variables = base_variables(case, before)
    for n, source in enumerate(case.sources):
        variables[f"S{n}"] = V("b", max(32, 32 * source.words), scalar_value(before, source))
    memories = {"SGPR": Registers(after, True)}
    destination = "D0"
    functions = Functions(case.chip)
    if case.family == "SMEM":
        destination = "SDATA"
        address = before.memory_address + 256
        if "BUFFER" in case.name:
            address = before.memory_address
        for name in (
            "CalcScalarGlobalAddr",
            "CalcGlobalAddr",
            "CalcScalarBufferAddr",
            "CalcBufferAddr",
        ):
            functions[name] = lambda env, *a: V("u", 64, address + case.extra["offset"])
        variables.update(
            ADDR=V("u", 64, address + case.extra["offset"]),
            sgpr_base=V("u", 64, address),
            offset=V("u", 64, 0),
            SBASE=V("u", 64, address),
            SOFFSET=V("u", 32, 0),
            OFFSET=V("i", 32, case.extra["offset"]),
            IOFFSET=V("i", 32, case.extra["offset"]),
        )
        memories["MEM"] = Memory(before.memory, before.memory_address)
    if case.dst:
        variables[destination] = V("b", 32 * case.dst.words, scalar_value(before, case.dst))
    env = Env(variables, functions, memories)
    body(env)
    if case.dst and destination in env.written:
        bits = bits_of(env.vars[destination])
        if env.written[destination] == 0xFFFF:  # 16-bit results clear the other half
            bits &= 0xFFFF
        set_scalar(after, case.dst, bits)
    after.scc = bits_of(env.vars["SCC"]) & 1
    if "EXEC" in env.written:
        after.exec = bits_of(env.vars["EXEC"]) & mask(before.wave)
    if "VCC" in env.written:
        after.vcc = bits_of(env.vars["VCC"])


def wave_instruction(case: Case, before: State, result: Expectation, body) -> None:
    after = result.state
    variables = base_variables(case, before)
    for n, source in enumerate(case.sources):
        if source.kind == "s":
            variables[f"S{n}"] = V("b", 32 * source.words, scalar_value(before, source))
    if "READLANE" in case.name:
        variables["S1"] = V("b", 32, int(before.sgpr[40]))
    if case.dst and case.dst.kind == "s":
        variables["D0"] = V("b", 32, 0)
    env = Env(
        variables,
        Functions(case.chip),
        {"VGPR": Registers(after, False), "SGPR": Registers(after, True)},
    )
    body(env)
    if case.dst and case.dst.kind == "s":
        set_scalar(after, case.dst, bits_of(env.vars["D0"]))
    for lane in range(before.wave):
        for register in {case.dst.index if case.dst and case.dst.kind == "v" else 8, 32}:
            result.defined[register, lane] = 0xFFFFFFFF


def vector_lane(
    case: Case, before: State, result: Expectation, body, lane: int, base: dict
) -> None:
    after = result.state
    variables = dict(base)
    variables["laneId"] = V("u", 32, lane)
    flush = FLUSHING.search(case.name)
    for n, source in enumerate(case.sources):
        value = lane_value(before, source, lane)
        variables[f"S{n}"] = V("b", max(32, 32 * source.words), flush32(value) if flush else value)
    if "_MIX" in case.name:
        variables["S"] = [V("b", 32, lane_value(before, s, lane)) for s in case.sources]
    dst = case.dst
    carries = case.mask_out is not None
    if case.mask_in:
        variables["VCC"] = V("u", 64, scalar_value(before, case.mask_in))
    memories = {"VGPR": Registers(after, False), "SGPR": Registers(after, True)}
    functions = Functions(case.chip)
    destination = "D0"
    if "memory" in case.extra:
        destination = (
            "VDATA" if "VDATA" in case.pcode and "RETURN_DATA" not in case.pcode else "RETURN_DATA"
        )
        memory_operands(case, before, after, lane, variables, functions, memories)
    if dst and dst.kind == "v":
        old = lane_value(before, dst, lane)
        variables[destination] = V("b", 32 * dst.words, old)
    elif dst:
        variables[destination] = V("b", 32 * dst.words, scalar_value(before, dst))
    elif carries:
        variables["D0"] = V("u", 64, 0)
    variables["D1"] = V("u", 64, 0)
    env = Env(variables, functions, memories)
    body(env)
    if dst and destination in env.written:
        bits = bits_of(env.vars[destination])
        if flush:
            bits = flush32(bits & 0xFFFFFFFF)
        if dst.kind == "s":
            set_scalar(after, dst, bits)
        elif dst.high:  # the other half stays
            after.vgpr[dst.index, lane] = (int(before.vgpr[dst.index, lane]) & 0xFFFF) | (
                bits & 0xFFFF
            ) << 16
            result.defined[dst.index, lane] = 0xFFFFFFFF
        else:
            for word in range(dst.words):
                after.vgpr[dst.index + word, lane] = bits >> 32 * word & 0xFFFFFFFF
                result.defined[dst.index + word, lane] = (
                    env.written[destination] >> 32 * word & 0xFFFFFFFF
                )
    elif dst and dst.kind == "v" and "VGPR[" in case.pcode:
        for word in range(dst.words):
            result.defined[dst.index + word, lane] = 0xFFFFFFFF
    if "S0" in env.written:  # v_swap
        after.vgpr[case.sources[0].index, lane] = bits_of(env.vars["S0"]) & 0xFFFFFFFF
    if carries:
        source = "D0" if not dst and "D0" in env.written else "D1" if "D1" in env.written else "VCC"
        bits = bits_of(env.vars[source])
        # Carries and comparisons are a bit of a lane mask; D1.u1 and div_scale's VCC are the bit.
        single = source == "D1" or "DIV_SCALE" in case.name
        bit = bits & 1 if single else bits >> lane & 1
        case.extra.setdefault("mask_bits", {})[lane] = bit
    if "EXEC" in env.written:
        case.extra.setdefault("exec_bits", {})[lane] = bits_of(env.vars["EXEC"]) >> lane & 1


def memory_operands(
    case: Case,
    before: State,
    after: State,
    lane: int,
    variables: dict,
    functions: Functions,
    memories: dict,
) -> None:
    lds = case.extra["memory"] == "lds"
    address = lane_value(
        before, Operand("v", ADDRESS, 1 if lds or case.extra["memory"] == "buffer" else 2), lane
    )
    if case.extra["memory"] == "buffer":
        address += before.memory_address
    for name, index in (("DATA", DATA), ("DATA0", DATA), ("DATA2", DATA2)):
        if index == DATA and case.sources:
            variables[name] = V(
                "b", 32 * case.sources[0].words, lane_value(before, case.sources[0], lane)
            )
        elif len(case.sources) > 1:
            variables[name] = V(
                "b", 32 * case.sources[1].words, lane_value(before, case.sources[1], lane)
            )
    if "store" in case.text and case.sources and not lds:
        variables["VDATA"] = variables["DATA"]
    if lds:
        offset = case.extra.get("offset", 0)
        two = "offset0" in case.extra
        variables.update(
            OFFSET0=V("u", 32, case.extra.get("offset0", offset)),
            OFFSET1=V("u", 32, case.extra.get("offset1", 0)),
            OFFSET=V("u", 32, offset),
            ADDR=V("u", 32, address + (0 if two or "OFFSET.u32" in case.pcode else offset)),
            ADDR_BASE=V("u", 32, address),
        )
        variables.update(vgpr_a=V("u", 32, address), offset=V("u", 32, offset))
        functions["CalcDsAddr"] = lambda env, base, *rest: V(
            "u", 32, address + sum(r.x for r in rest)
        )
        memories["MEM"] = Memory(after.lds, 0)
    else:
        where = address + case.extra["offset"]
        variables["ADDR"] = V("u", 64, where)
        variables.update(
            {name: V("u", 64, 0) for name in ("VADDR", "SRSRC", "SOFFSET", "vgpr_a", "sgpr_o")}
        )
        for name in ("CalcGlobalAddr", "CalcFlatAddr", "CalcBufferAddr"):
            functions[name] = lambda env, *a: V("u", 64, where)
        variables.update(
            OFFSET=V("i", 32, 0),
            SADDR=V("u", 64, 0),
            IOFFSET=V("i", 32, 0),
            v_addr=V("u", 64, where),
            s_saddr=V("u", 64, 0),
            flat_scratch=V("u", 64, 0),
        )
        memories["MEM"] = Memory(after.memory, before.memory_address)


def finish_masks(case: Case, before: State, after: State) -> None:
    """Lanes without a result give 0 in a mask."""
    if case.mask_out is not None and "mask_bits" in case.extra:
        bits = case.extra.pop("mask_bits")
        set_scalar(after, case.mask_out, sum(bit << lane for lane, bit in bits.items()))
    if "exec_bits" in case.extra:
        bits = case.extra.pop("exec_bits")
        after.exec = sum(bit << lane for lane, bit in bits.items())


__all__ = ["IEEE", "Expectation", "UnsupportedError", "encode", "expect"]
