"""Changes of an artifact's manifest that leave its form sound: other numbers, other order."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from mgx_mlir.artifact.plan import DTYPES

_FACTORS = (2, 3, 4, 16, 1 << 20, 1 << 40)
_NUMBERS = (0, 1, 2, 3, 7, 8, 16, 24, 64, 256, 4096, 1 << 20, 1 << 31, 1 << 40, 1 << 46, 1 << 62)
_FORMULAS = ("1", "0", "4*n", "n*m", "96*n*m", "n//2", "n+1", "max(n-3, 0)", "1099511627776*n")

Change = Callable[[dict[str, Any], random.Random], str]


def damaged(manifest: dict[str, Any], rng: random.Random) -> str:
    """Changes a manifest in one to three ways; gives them in words."""
    done: list[str] = []
    count = rng.choice((1, 1, 1, 2, 3))
    while len(done) < count:
        said = rng.choice(CHANGES)(manifest, rng)  # '' where there is nothing of its kind
        done += [said] if said else []
    return "; ".join(done)


def _number(value: int, rng: random.Random) -> int:
    """A number near another one, or far from it."""
    how = rng.randrange(5)
    if how == 0:
        return rng.choice(_NUMBERS)
    if how == 1:
        return value * rng.choice(_FACTORS)
    if how == 2:
        return value // rng.choice(_FACTORS)
    return value + rng.choice((-1, 1, -4, 4, -16, 16, -256, 256))


def _plans(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Every plan, those for some sizes and of segments too."""
    steps = [s for graph in manifest.get("parts", {}).get("graphs", {}).values() for s in graph]
    outer = [manifest["plan"], *(plan for step in steps for plan in step.get("plans", []))]
    return [p for plan in outer for p in (plan, *(q["plan"] for q in plan.get("programs", [])))]


def _plan(manifest: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    plans = _plans(manifest)
    used = [plan for plan in plans if plan["steps"]]
    return rng.choice(used if used and rng.random() < 0.9 else plans)


def _lists(steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """A list of steps, and those of bodies in it."""
    yield steps
    for step in steps:
        for name in ("then", "else", "body"):
            if name in step:
                yield from _lists(step[name])


def _steps(plan: dict[str, Any], rng: random.Random, key: str) -> dict[str, Any] | None:
    found = [step for steps in _lists(plan["steps"]) for step in steps if key in step]
    return rng.choice(found) if found else None


def _tensor(manifest: dict[str, Any], rng: random.Random) -> str:
    plan = _plan(manifest, rng)
    specs = plan["inputs"] + plan["outputs"]
    if not specs:
        return ""
    spec = rng.choice(specs)
    shape, how = spec["shape"], rng.randrange(5)
    if how == 0:
        spec["dtype"] = rng.choice(sorted(DTYPES))
    elif how == 1 or not shape:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((0, 1, 2, 16)))
    elif how == 2:
        del shape[rng.randrange(len(shape))]
    else:
        place = rng.randrange(len(shape))
        if shape[place] < 0 or (plan.get("formulas") and rng.random() < 0.2):
            formulas = len(plan.get("formulas", ()))
            shape[place] = rng.choice([rng.randrange(-formulas, 0) if formulas else 1, 1, 4])
        else:
            shape[place] = _number(shape[place], rng)
    return f"{spec['name']} is {spec['dtype']}{shape}"


def _resized(manifest: dict[str, Any], rng: random.Random) -> str:
    """Another size of a tensor, everywhere alike."""
    plan = _plan(manifest, rng)
    kind = rng.choice(("inputs", "outputs"))
    if not plan[kind]:
        return ""
    index = rng.randrange(len(plan[kind]))
    shape, factor = plan[kind][index]["shape"], rng.choice(_FACTORS[:5])
    places = [i for i, n in enumerate(shape) if n > 0]
    if not places:
        return ""
    place, grow = rng.choice(places), rng.random() < 0.4
    old = shape[place]
    shape[place] = old * factor if grow else max(old // factor, 0)
    for buffer in plan["buffers"]:
        if buffer["kind"] == kind[:-1] and buffer["index"] == index and buffer["bytes"] > 0:
            buffer["bytes"] = buffer["bytes"] * shape[place] // old
    return f"{kind[:-1]} {index} has {shape}, and so have its buffers"


def _buffer(manifest: dict[str, Any], rng: random.Random) -> str:
    plan = _plan(manifest, rng)
    if not plan["buffers"]:
        return ""
    number = rng.randrange(len(plan["buffers"]))
    buffer, how = plan["buffers"][number], rng.randrange(6)
    formulas = len(plan.get("formulas", ()))
    if how == 0:
        plan["buffers"][number] = copy.deepcopy(rng.choice(plan["buffers"]))
    elif how == 1:
        other = rng.choice(plan["buffers"])
        bytes_ = buffer["bytes"]
        plan["buffers"][number] = {**other, "bytes": bytes_}
    elif how == 2 and formulas:
        buffer["bytes"] = rng.randrange(-formulas, 0)
    elif how == 3 and buffer["bytes"] > 0:
        buffer["bytes"] = _number(buffer["bytes"], rng)
    else:
        name = next(n for n in ("offset", "index", "key") if n in buffer)
        if name == "key":
            buffer["key"] = rng.choice([w["key"] for w in manifest["weights"]])
        else:
            buffer[name] = max(_number(buffer[name], rng), 0)
    return f"buffer {number} is {plan['buffers'][number]}"


def _arena(manifest: dict[str, Any], rng: random.Random) -> str:
    plan = _plan(manifest, rng)
    plan["arena_bytes"] = max(_number(plan["arena_bytes"], rng), 0)
    return f"an arena of {plan['arena_bytes']}"


def _arguments(manifest: dict[str, Any], rng: random.Random) -> str:
    plan = _plan(manifest, rng)
    step = _steps(plan, rng, "arguments")
    if step is None or not plan["buffers"]:
        return ""
    given, how = step["arguments"], rng.randrange(5)
    if how == 0:
        rng.shuffle(given)
    elif how == 1:
        given.append(rng.randrange(len(plan["buffers"])))
    elif how == 2 and given:
        del given[rng.randrange(len(given))]
    elif given:
        place = rng.randrange(len(given))
        given[place] = rng.choice(given) if how == 3 else rng.randrange(len(plan["buffers"]))
    return f"a step of '{step['node']}' has {given}"


def _kernel(manifest: dict[str, Any], rng: random.Random) -> str:
    step = _steps(_plan(manifest, rng), rng, "kernel")
    if step is None:
        return ""
    step["kernel"] = rng.randrange(-1, len(manifest["kernels"]))
    return f"a step of '{step['node']}' runs {step['kernel']}"


def _order(manifest: dict[str, Any], rng: random.Random) -> str:
    plan = _plan(manifest, rng)
    lists = list(_lists(plan["steps"]))
    steps, other = rng.choice(lists), rng.choice(lists)
    if not steps:
        return ""
    number, how = rng.randrange(len(steps)), rng.randrange(4)
    if how == 0:
        del steps[number]
    elif how == 1:
        steps.insert(rng.randrange(len(steps)), copy.deepcopy(steps[number]))
    elif how == 2:
        rng.shuffle(steps)
    else:
        other.insert(rng.randrange(len(other) + 1), copy.deepcopy(steps[number]))
    return ("a step is missing", "a step is there twice", "steps are shuffled", "a step elsewhere")[
        how
    ]


def _decision(manifest: dict[str, Any], rng: random.Random) -> str:
    plan = _plan(manifest, rng)
    step = _steps(plan, rng, rng.choice(("loop", "if", "row")))
    if step is None:
        return ""
    name = rng.choice([n for n in ("loop", "condition", "again", "if", "row", "most") if n in step])
    if name == "row":
        step["row"][rng.randrange(2)] = rng.randrange(len(plan["buffers"]))
    elif name == "most":
        step["most"] = rng.choice(_NUMBERS)
    else:
        step[name] = rng.randrange(len(plan["buffers"]))
    return f"{name} is {step[name]}"


def _formula(manifest: dict[str, Any], rng: random.Random) -> str:
    plans = [plan for plan in _plans(manifest) if plan.get("formulas")]
    if not plans:
        return ""
    formulas = rng.choice(plans)["formulas"]
    place = rng.randrange(len(formulas))
    old = formulas[place]
    more = (f"({old})*2", f"({old})//2", f"max({old}-8, 0)", f"({old})+4", f"({old})*1073741824")
    formulas[place] = rng.choice((*more, *_FORMULAS, rng.choice(formulas)))
    return f"{old} is {formulas[place]}"


def _dims(manifest: dict[str, Any], rng: random.Random) -> str:
    plans = [plan for plan in _plans(manifest) if plan.get("dims")]
    if not plans:
        return ""
    plan = rng.choice(plans)
    dim, how = rng.choice(plan["dims"]), rng.randrange(4)
    if how == 0:
        dim["min"] = rng.choice((0, 1, 5, 40))
    elif how == 1:
        dim["max"] = rng.choice((5, 64, 1 << 40))
    elif how == 2:
        dim.pop("max", None)
    elif plan.get("programs"):
        known = rng.choice(plan["programs"])["sizes"]
        known[rng.choice(sorted(known))] = rng.choice((1, 2, 3, 5, 8, 16))
    return f"sizes are {plan['dims']}"


def _shared(manifest: dict[str, Any], rng: random.Random) -> str:
    plan = _plan(manifest, rng)
    if not (plan["inputs"] and plan["outputs"]):
        return ""
    name = rng.choice(("in_place", "in_place", "limits"))
    pairs = plan.setdefault(name, [])
    if pairs and rng.random() < 0.3:
        pairs.pop(rng.randrange(len(pairs)))
    else:
        first = plan["outputs"] if name == "in_place" else plan["inputs"]
        pairs.append([rng.randrange(len(first)), rng.randrange(len(plan["inputs"]))])
    if not pairs:
        del plan[name]
    return f"{name} is {pairs}"


def _weight(manifest: dict[str, Any], rng: random.Random) -> str:
    weights = manifest["weights"]
    if not weights:
        return ""
    weight, other, how = rng.choice(weights), rng.choice(weights), rng.randrange(6)
    if how == 0:
        weight["dtype"] = rng.choice(sorted(DTYPES))
    elif how == 1 and weight["shape"]:
        place = rng.randrange(len(weight["shape"]))
        weight["shape"][place] = max(_number(weight["shape"][place], rng), 0)
    elif how == 2 and "offset" in weight:
        weight["offset"] = max(_number(weight["offset"], rng), 0)
    elif how == 3 and "section" in weight and "section" in other:
        weight["section"], weight["sha256"] = other["section"], other["sha256"]
    elif how == 4:
        weight["order"] = rng.sample(range(len(weight["shape"])), len(weight["shape"]))
    else:
        weight["splat"] = True
    return f"a weight is {weight}"


def _code(manifest: dict[str, Any], rng: random.Random) -> str:
    """Other words about machine code than its compiler's."""
    code = rng.choice([c for found in manifest["code_objects"].values() for c in found])
    if not code["launches"]:
        return ""
    launch, how = rng.choice(code["launches"]), rng.randrange(7)
    if how == 0:
        launch["grid"][rng.randrange(3)] = rng.choice(_NUMBERS)
    elif how == 1:
        launch["block"][rng.randrange(3)] = rng.choice(_NUMBERS)
    elif how == 2:
        rng.shuffle(launch["arguments"])
    elif how == 3 and launch["arguments"]:
        argument = rng.choice(launch["arguments"])
        argument[1] = max(_number(argument[1], rng), 0)
    elif how == 4:
        code["scratch_bytes"] = rng.choice(_NUMBERS)
    elif how == 5 and "interface" in code:
        operands = code["interface"]["inputs"] + code["interface"]["outputs"]
        rng.choice(operands)[1] = rng.choice((0, 4, 1 << 20))
    else:
        code.pop("interface", None)
    return f"code is {code['launches']}, {code.get('interface')}"


def _swapped(manifest: dict[str, Any], rng: random.Random) -> str:
    """Kernels, and maybe their code, trade places."""
    count = len(manifest["kernels"])
    a, b = rng.randrange(count), rng.randrange(count)
    lists = [manifest["kernels"], *manifest["code_objects"].values()]
    for one in lists if rng.random() < 0.5 else [rng.choice(lists)]:
        one[a], one[b] = one[b], one[a]
    return f"kernels {a} and {b} trade places"


CHANGES: tuple[Change, ...] = (
    *(_tensor, _tensor, _resized, _resized, _buffer, _buffer, _buffer, _arena, _arguments),
    *(_arguments, _kernel, _order, _order, _decision, _formula, _formula, _dims, _shared),
    *(_weight, _code, _swapped),
)
